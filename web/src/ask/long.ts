// Long lists, tables and code: their settled content, in parts that are neither parsed nor rendered again.
import type { Token, Tokens } from "marked";

/** Number of items, rows or lines, or of characters, in a part. */
const PART = 32;
const PART_CHARACTERS = 4000;
/** Number of items or rows, and of lines, at the end that may still change: one is being written, one may close the code. */
const OPEN = 4;
const OPEN_LINES = 2;

/** A token of its block's type with some of its items, rows or lines, and its start in the text. */
export interface Part {
  token: Token;
  start: number;
}

/** The part of a block that needn't be parsed again, although its end is open. */
export interface Long {
  start: number;
  end: number;
  /** The settled part of the block. */
  token: Token;
  parts: Part[];
  /** The text that the lexer needs before the rest: a table's head, the opening of code, an item of a loose list. */
  head: string;
}

/** The settled part of a block, of which `before` was already settled; null if the block is short. */
export function longOf(token: Token, start: number, before: Long | null): Long | null {
  const head = headOf(token);
  if (head === null) return null;
  let end = before?.end ?? start + (token.type === "list" ? 0 : head.length);
  let count = countOf(before?.token);
  let from = 0;
  const entries = settledEntries(token, end - start, count);
  const parts = [...(before?.parts ?? [])];
  for (let to = 1, length = 0; to <= entries.length; to++) {
    length += entries[to - 1]!.length;
    if (to - from < PART && length < PART_CHARACTERS) continue;
    const raw = entries.slice(from, to).join("");
    parts.push({ token: some(token, raw, count, count + to - from), start: end });
    [count, from, end, length] = [count + to - from, to, end + length, 0];
  }
  if (parts.length === 0) return null;
  const settled = some(token, token.raw.slice(0, end - start), 0, count);
  if (token.type === "code") (settled as Tokens.Code).text = settled.raw.slice(head.length);
  return { start, end, head, parts, token: settled };
}

/** A long block's parts, and the one that is still open. */
export function allParts(token: Token, { start, end, token: settled, parts }: Long): Part[] {
  const count = countOf(settled);
  const raw = token.raw.slice(end - start);
  const open = some(token, raw, count);
  if (token.type === "code") (open as Tokens.Code).text = textOf(token).slice(textOf(settled).length);
  return [...parts, { token: open, start: end }];
}

/** The whole block, once the lexer has parsed the rest after its head; null if the two don't fit together. */
export function joined({ token: settled, head }: Long, rest: Token | undefined): Token | null {
  if (rest?.type !== settled.type) return null;
  const raw = settled.raw + rest.raw.slice(head.length);
  switch (rest.type) {
    case "list": {
      const [list, more] = [settled as Tokens.List, rest as Tokens.List];
      // A list is loose or tight as a whole.
      if (more.loose !== list.loose || more.ordered !== list.ordered) return null;
      return { ...list, raw, items: [...list.items, ...more.items.slice(head === "" ? 0 : 1)] };
    }
    case "table":
      return { ...rest, raw, rows: [...(settled as Tokens.Table).rows, ...(rest as Tokens.Table).rows] } as Token;
    default:
      return { ...rest, raw, text: textOf(settled) + textOf(rest) } as Token;
  }
}

function headOf(token: Token): string | null {
  switch (token.type) {
    case "list": {
      const { loose, raw } = token as Tokens.List;
      return loose ? `${/^ *(\d*)(.)/.exec(raw)!.slice(1).join("")} .\n\n` : "";
    }
    case "table":
      return /^[^\n]*\n[^\n]*\n/.exec(token.raw)?.[0] ?? null;
    case "code": // indented text would be code even without its fence
      return /^(?:```|~~~)[^\n]*\n/.exec(token.raw)?.[0] ?? null;
    default:
      return null;
  }
}

/** The texts of the items, rows or lines, from a given one on, that won't change. */
function settledEntries(token: Token, at: number, from: number): string[] {
  if (token.type === "list") {
    const entries = (token as Tokens.List).items.slice(from, -OPEN).map((item) => item.raw);
    return token.raw.startsWith(entries.join(""), at) ? entries : []; // the lexer rewrites some white space
  }
  const lines = token.raw.slice(at).split(/(?<=\n)/);
  if (token.type === "code") return lines.flatMap(cutLine).slice(0, -OPEN_LINES);
  return lines.slice(0, Math.max(0, (token as Tokens.Table).rows.length - from - OPEN));
}

/** A line of code, in pieces if it is very long. */
function cutLine(line: string): string[] {
  const pieces: string[] = [];
  let rest = line;
  while (rest.length > PART_CHARACTERS) {
    // Not within a character, and not where the rest would look like the end of the code.
    const more = rest.slice(PART_CHARACTERS).search(/(?<!\u200d)[^`~\s\p{M}\u200d\udc00-\udfff]/u);
    if (more < 0) break;
    pieces.push(rest.slice(0, PART_CHARACTERS + more));
    rest = rest.slice(PART_CHARACTERS + more);
  }
  return [...pieces, rest];
}

/** A block with some of its items or rows, or a part of its code. */
export function some(token: Token, raw: string, from: number, to?: number): Token {
  if (token.type === "list") return { ...token, raw, items: (token as Tokens.List).items.slice(from, to) } as Token;
  if (token.type === "table") return { ...token, raw, rows: (token as Tokens.Table).rows.slice(from, to) } as Token;
  return { ...token, raw, text: raw } as Token;
}

/** The number of items or rows in a block. */
function countOf(token: Token | undefined): number {
  return token?.type === "list" ? (token as Tokens.List).items.length : token?.type === "table" ? (token as Tokens.Table).rows.length : 0;
}

function textOf(token: Token): string {
  return (token as Tokens.Code).text;
}
