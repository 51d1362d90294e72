// Markdown while it is being written: only the last blocks are parsed again when text arrives.
import type { Token } from "marked";

import { lex } from "./lex";
import { allParts, joined, type Long, longOf, type Part } from "./long";

/** A block of the answer and its start in the text. */
export interface Block {
  key: number;
  token: Token;
  start: number;
  /** The parts of a long block; settled parts stay the same objects. */
  parts: Part[] | null;
  /** The direction of the paragraph that it continues, which was too long for one block; null if it continues none. */
  goesOn: "ltr" | "rtl" | null;
}

/** Number of blocks that may still change: a list continues, a line below turns a paragraph into a heading. */
const OPEN_BLOCKS = 3;
/**
 * An end with more characters is parsed again when it has grown by that share: deeply nested quotes and lists have no
 * parts, and parsing them for each piece would cost the square of their length.
 */
const LONG_END = 16_000;
const GROWTH = 1 / 8;

/** Parses a growing text. Blocks that can no longer change stay the same objects. */
export class BlockReader {
  #settled: Block[] = [];
  #blocks: Block[] = [];
  #text = "";
  #end = 0; // end of the settled text
  #long: Long | null = null; // it begins there, if there is one

  /** The blocks of a text; while it grows, of as much as can be parsed in time. */
  read(written: string, grows = false): Block[] {
    const text = plainLines(written);
    if (!text.startsWith(this.#text.slice(0, this.#from()))) {
      this.#settled = [];
      this.#end = 0;
      this.#long = null;
    }
    if (text === this.#text || (grows && this.#canWait(text))) return this.#blocks;
    this.#text = text;
    const tail = text.slice(this.#end);
    const tokens = this.#lexLong(text) ?? this.#lexAll(tail);
    const [open, longs] = this.#placed(tokens);
    // The lexer rewrites some white space; tokens that don't add up to the text can't be relied on.
    const most = longs.at(-1) || open.at(-1)?.goesOn ? 1 : OPEN_BLOCKS; // text before a long block doesn't change
    const count = open.length > most && tokens.map((token) => token.raw).join("") === tail ? open.length - most : 0;
    this.#settled = count === 0 ? this.#settled : [...this.#settled, ...open.splice(0, count)];
    this.#end = open[0]?.start ?? this.#end;
    this.#long = longs[count] ?? null;
    this.#blocks = [...this.#settled, ...open];
    return this.#blocks;
  }

  #canWait(text: string): boolean {
    const length = text.length - this.#from();
    return length > LONG_END && text.length - this.#text.length < GROWTH * length && text.startsWith(this.#text);
  }

  /** Parsing starts here. */
  #from(): number {
    return this.#long?.end ?? this.#end;
  }

  /** The tokens of a text that begins with a long block, of which only the end is parsed; null if that isn't possible. */
  #lexLong(text: string): Token[] | null {
    if (this.#long === null) return null;
    const [rest, ...others] = lex(this.#long.head + text.slice(this.#long.end));
    const whole = joined(this.#long, rest);
    return whole === null ? null : [whole, ...others];
  }

  #lexAll(tail: string): Token[] {
    this.#long = null;
    return lex(tail);
  }

  #placed(tokens: Token[]): [Block[], (Long | null)[]] {
    let start = this.#end;
    let last = this.#settled.at(-1);
    const longs: (Long | null)[] = [];
    const blocks = tokens.map((token, number) => {
      const long = longOf(token, start, number === 0 ? this.#long : null);
      longs.push(long);
      const parts = long === null ? null : allParts(token, long);
      last = { key: this.#settled.length + number, token, start, parts, goesOn: goesOn(last, token) };
      start += token.raw.length;
      return last;
    });
    return [blocks, longs];
  }
}

/** The lexer returns two adjacent paragraphs with nothing between them only if one was split. */
function goesOn(before: Block | undefined, token: Token): Block["goesOn"] {
  if (token.type !== "paragraph" || before?.token.type !== "paragraph" || before.token.raw.endsWith("\n\n")) return null;
  return before.goesOn ?? directionOf(before.token.raw);
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** The direction of a text's first letter, as `dir="auto"` finds it. */
function directionOf(text: string): "ltr" | "rtl" {
  return RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr";
}

/** A text with only line feeds as line endings, without shifting any line. */
function plainLines(text: string): string {
  return text.includes("\r") ? text.replace(/\r$/, "").replaceAll("\r\n", " \n").replaceAll("\r", "\n") : text;
}
