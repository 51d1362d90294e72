// Markdown while it is being written: only the last blocks are read anew when text comes.
import { Lexer, type Token, Tokenizer, type Tokens } from "marked";

/** A block of the answer, and where it begins in the text. */
export interface Block {
  key: number;
  token: Token;
  start: number;
}

/** So many blocks may still change: a list goes on, a paragraph becomes a heading by the line below. */
const OPEN_BLOCKS = 3;
/** So many items of a list may still change; a list with more than that and `FEW_ITEMS` is read from there on. */
const OPEN_ITEMS = 4;
const FEW_ITEMS = 16;

/** The items of a list that is still open, but for its last ones. */
interface LongList {
  start: number;
  end: number;
  list: Tokens.List;
}

/** Reads a text that grows. Blocks that can't change any more stay the same objects. */
export class BlockReader {
  #settled: Block[] = [];
  #text = "";
  #end = 0; // of what is settled
  #long: LongList | null = null;

  read(text: string): Block[] {
    if (!text.startsWith(this.#text.slice(0, this.#long?.end ?? this.#end))) {
      this.#settled = [];
      this.#end = 0;
      this.#long = null;
    }
    this.#text = text;
    const tail = text.slice(this.#end);
    const tokens = this.#lexLong(text) ?? lex(tail);
    const open = this.#placed(tokens);
    // The lexer rewrites some white space; what doesn't add up to the text can't be counted on.
    const most = longList(open.at(-1)) === null ? OPEN_BLOCKS : 1; // what stands before a long list doesn't change
    if (open.length > most && tokens.map((token) => token.raw).join("") === tail) {
      const settled = open.splice(0, open.length - most);
      this.#settled = [...this.#settled, ...settled];
      this.#end = open[0]!.start;
    }
    this.#long = longList(open[0]);
    return [...this.#settled, ...open];
  }

  /** The tokens of a text that begins with a long list, of which the last items alone are read; null if that won't do. */
  #lexLong(text: string): Token[] | null {
    const long = this.#long;
    if (long === null || long.start !== this.#end) return null;
    const [rest, ...others] = lex(text.slice(long.end));
    if (rest?.type !== "list") return null;
    const { items, loose, ordered, raw } = rest as Tokens.List;
    // Whether a list is loose is one for all its items.
    if (loose !== long.list.loose || ordered !== long.list.ordered) return null;
    return [{ ...long.list, raw: long.list.raw + raw, items: [...long.list.items, ...items] }, ...others];
  }

  #placed(tokens: Token[]): Block[] {
    let start = this.#end;
    return tokens.map((token, number) => {
      const block = { key: this.#settled.length + number, token, start };
      start += token.raw.length;
      return block;
    });
  }
}

const UNDERLINED = /\n {0,3}(?:=+|-+)[ \t]*(?:\n|$)/;

/** marked looks for a heading with a line below it in time that grows with the square of a paragraph's lines. */
class QuickTokenizer extends Tokenizer {
  override lheading(text: string): Tokens.Heading | undefined {
    return UNDERLINED.test(text) ? super.lheading(text) : undefined;
  }
}

function lex(text: string): Token[] {
  return new Lexer({ gfm: true, breaks: true, tokenizer: new QuickTokenizer() }).lex(text);
}

/** What of an open block needn't be read again, if it is a list with many items whose texts add up to its own. */
function longList(block: Block | undefined): LongList | null {
  if (block?.token.type !== "list") return null;
  const list = block.token as Tokens.List;
  if (list.items.length < FEW_ITEMS + OPEN_ITEMS) return null;
  const items = list.items.slice(0, -OPEN_ITEMS);
  const raw = items.map((item) => item.raw).join("");
  return list.raw.startsWith(raw) ? { start: block.start, end: block.start + raw.length, list: { ...list, raw, items } } : null;
}
