// Markdown while it is being written: only the last blocks are read anew when text comes.
import type { Token } from "marked";

import { lex } from "./lex";
import { allParts, joined, type Long, longOf, type Part } from "./long";

/** A block of the answer, and where it begins in the text. */
export interface Block {
  key: number;
  token: Token;
  start: number;
  /** What a long block consists of; what is settled of it stays the same objects. */
  parts: Part[] | null;
  /** The direction of the paragraph that it goes on with, which was too long for one block; null if it is none. */
  goesOn: "ltr" | "rtl" | null;
}

/** So many blocks may still change: a list goes on, a paragraph becomes a heading by the line below. */
const OPEN_BLOCKS = 3;
/**
 * An end with more characters is read again when it has grown by that share: quotes and lists in which much is nested have no
 * parts, and to read them for each piece would cost the square of their length.
 */
const LONG_END = 16_000;
const GROWTH = 1 / 8;

/** Reads a text that grows. Blocks that can't change any more stay the same objects. */
export class BlockReader {
  #settled: Block[] = [];
  #blocks: Block[] = [];
  #text = "";
  #end = 0; // of what is settled
  #long: Long | null = null; // begins there, if there is one

  /** The blocks of a text; while it grows, of as much of it as can be read in time. */
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
    // The lexer rewrites some white space; what doesn't add up to the text can't be counted on.
    const most = longs.at(-1) || open.at(-1)?.goesOn ? 1 : OPEN_BLOCKS; // what stands before a long block doesn't change
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

  /** What is read again begins here. */
  #from(): number {
    return this.#long?.end ?? this.#end;
  }

  /** The tokens of a text that begins with a long block, of which the end alone is read; null if that won't do. */
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

/** The lexer gives two paragraphs with nothing between only where one was cut. */
function goesOn(before: Block | undefined, token: Token): Block["goesOn"] {
  if (token.type !== "paragraph" || before?.token.type !== "paragraph" || before.token.raw.endsWith("\n\n")) return null;
  return before.goesOn ?? directionOf(before.token.raw);
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** The direction of a text's first letter, as `dir="auto"` finds it. */
function directionOf(text: string): "ltr" | "rtl" {
  return RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr";
}

/** A text whose lines end by line feeds alone, each at the place where it was. */
function plainLines(text: string): string {
  return text.includes("\r") ? text.replace(/\r$/, "").replaceAll("\r\n", " \n").replaceAll("\r", "\n") : text;
}
