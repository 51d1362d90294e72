// Markdown's blocks by marked's lexer, in time that doesn't grow faster than the text, whatever its content.
import { Lexer, type Token, Tokenizer, type Tokens } from "marked";

/** Quotes and lists nested deeper than this are shown as plain text: each level is parsed once more. */
const MOST_DEEP = 16;
/** A table with more columns isn't treated as a table. */
const MOST_COLUMNS = 64;
/** A paragraph with more characters is split into pieces of this length or a little more. */
const PIECE = 2000;
/** If no sentence ends within this many characters, a piece may end anywhere. */
const LONGEST_PIECE = 4000;

const UNDERLINED = /\n {0,3}(?:=+|-+)[ \t]*(?:\n|$)/;

class QuickTokenizer extends Tokenizer {
  #depth = 0;

  /** marked looks for a heading with a line below it in time that grows with the square of a paragraph's lines. */
  override lheading(text: string): Tokens.Heading | undefined {
    const end = text.indexOf("\n\n");
    return UNDERLINED.test(end < 0 ? text : text.slice(0, end + 1)) ? super.lheading(text) : undefined;
  }

  override blockquote(text: string): Tokens.Blockquote | undefined {
    return this.#deeper(() => super.blockquote(text));
  }

  override list(text: string): Tokens.List | undefined {
    return this.#deeper(() => super.list(text));
  }

  override table(text: string): Tokens.Table | undefined {
    const end = text.indexOf("\n");
    return text.slice(0, end).split("|", MOST_COLUMNS + 3).length > MOST_COLUMNS + 2 ? undefined : super.table(text);
  }

  #deeper<T>(read: () => T | undefined): T | undefined {
    if (this.#depth >= MOST_DEEP) return undefined;
    this.#depth++;
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}

/** Parses a text whose lines end with line feeds; a very long paragraph becomes several. */
export function lex(text: string): Token[] {
  const lexer = new Lexer({ gfm: true, breaks: true, tokenizer: new QuickTokenizer() });
  lexer.blockTokens(text, lexer.tokens);
  const cut = new Map<Token, string[]>();
  for (const token of lexer.tokens) {
    if (token.type === "paragraph" && token.raw.length > LONGEST_PIECE) cut.set(token, pieces(token.raw));
  }
  const tooLong = new Set([...cut.keys()].map((token) => (token as Tokens.Paragraph).tokens));
  for (const { src, tokens } of lexer.inlineQueue) {
    if (!tooLong.has(tokens)) lexer.inlineTokens(src, tokens);
  }
  return lexer.tokens.flatMap((token) => cut.get(token)?.map((raw): Tokens.Paragraph => {
    const text = raw.replace(/\n$/, "");
    return { type: "paragraph", raw, text, tokens: lexer.inlineTokens(text, []) };
  }) ?? [token]);
}

// Each before a letter, which isn't Markdown syntax at the beginning of a line.
const SENTENCE_END = /(?:[.!?…]\s+|[。！？।]\s*)(?=\p{L})/gu;
const SPACE = /\s+(?=\p{L})/gu;
const LETTER = /(?<=\p{L}\p{M}*)(?=\p{L})/gu;

/** Splits a paragraph, if possible at ends of sentences outside emphasis. */
function pieces(raw: string): string[] {
  const cut: string[] = [];
  let start = 0;
  while (raw.length - start > LONGEST_PIECE) {
    const end = pieceEnd(raw.slice(start, start + LONGEST_PIECE));
    cut.push(raw.slice(start, start + end));
    start += end;
  }
  return [...cut, raw.slice(start)];
}

function pieceEnd(text: string): number {
  return endBy(SENTENCE_END, text) ?? endBy(SPACE, text) ?? endBy(LETTER, text) ?? hardEnd(text);
}

function endBy(pattern: RegExp, text: string): number | null {
  for (const { 0: { length }, index } of text.matchAll(pattern)) {
    const end = index + length;
    if (end >= PIECE && (pattern !== SENTENCE_END || isBalanced(text.slice(0, end)))) return end;
  }
  return null;
}

function hardEnd(text: string): number {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last < 0xdc00 ? text.length - 1 : text.length; // never within a character
}

function isBalanced(text: string): boolean {
  const count = (sign: string) => text.split(sign).length - 1;
  return ["*", "_", "`"].every((sign) => count(sign) % 2 === 0) && count("[") === count("]");
}
