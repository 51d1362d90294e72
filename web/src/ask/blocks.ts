// Markdown while it is being written: only the last blocks are read anew when text comes.
import { Lexer, type Token } from "marked";

/** A block of the answer, and where it begins in the text. */
export interface Block {
  key: number;
  token: Token;
  start: number;
}

/** So many blocks may still change: a list goes on, a paragraph becomes a heading by the line below. */
const OPEN_BLOCKS = 3;

/** Reads a text that grows. Blocks that can't change any more stay the same objects. */
export class BlockReader {
  #settled: Block[] = [];
  #text = "";
  #end = 0; // of what is settled

  read(text: string): Block[] {
    if (!text.startsWith(this.#text.slice(0, this.#end))) {
      this.#settled = [];
      this.#end = 0;
    }
    this.#text = text;
    const tail = text.slice(this.#end);
    const tokens = new Lexer({ gfm: true, breaks: true }).lex(tail);
    const open = this.#placed(tokens);
    // The lexer rewrites some white space; what doesn't add up to the text can't be counted on.
    if (open.length > OPEN_BLOCKS && tokens.map((token) => token.raw).join("") === tail) {
      const settled = open.splice(0, open.length - OPEN_BLOCKS);
      this.#settled = [...this.#settled, ...settled];
      this.#end = open[0]!.start;
    }
    return [...this.#settled, ...open];
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
