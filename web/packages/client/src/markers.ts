// Citation markers in streamed text: `[ref:N]`, and `[SOURCE N]` in the profile `sources`.
//
// A marker cut off by the stream is held back until it is complete or can't become one, so that no reader sees half of it.

/** A piece of text, or a marker with its number and its text as the model wrote it. */
export type Segment = { kind: "text"; text: string } | { kind: "marker"; index: number; text: string };

const MARKER = /\[(?:ref:|SOURCE )(\d{1,6})\]/g;
const MARKER_BEGUN = /\[(?:r(?:e(?:f(?::\d{0,6})?)?)?|S(?:O(?:U(?:R(?:C(?:E(?: \d{0,6})?)?)?)?)?)?)?$/;
/** The beginning of a marker has at most so many characters: `[SOURCE 123456`. */
const LONGEST_BEGUN = 14;

/** Splits text where a marker may begin: the part that can be shown, and the part that is held back. */
export function holdBack(text: string): { shown: string; pending: string } {
  const tail = Math.max(0, text.length - LONGEST_BEGUN);
  const begun = MARKER_BEGUN.exec(text.slice(tail));
  const end = begun === null ? text.length : tail + begun.index;
  return { shown: text.slice(0, end), pending: text.slice(end) };
}

/** Splits complete text into text and markers. A number that `isKnown` rejects stays text. */
export function splitMarkers(text: string, isKnown: (index: number) => boolean): Segment[] {
  const segments: Segment[] = [];
  let end = 0;
  for (const match of text.matchAll(MARKER)) {
    const index = Number(match[1]);
    if (!isKnown(index)) continue;
    if (match.index > end) segments.push({ kind: "text", text: text.slice(end, match.index) });
    segments.push({ kind: "marker", index, text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) segments.push({ kind: "text", text: text.slice(end) });
  return segments;
}

/** The positions of markers in a text, known or not. */
export function findMarkers(text: string): { index: number; at: number; length: number }[] {
  return [...text.matchAll(MARKER)].map((match) => ({ index: Number(match[1]), at: match.index, length: match[0].length }));
}

/** Reads markers from a stream of text, however it is split. */
export class MarkerParser {
  #pending = "";

  constructor(private readonly isKnown: (index: number) => boolean) {}

  /** Takes the next piece; returns the text that can now be shown, including text held back earlier. */
  push(text: string): Segment[] {
    const { shown, pending } = holdBack(this.#pending + text);
    this.#pending = pending;
    return splitMarkers(shown, this.isKnown);
  }

  /** Ends the stream; returns the text still held back. */
  end(): Segment[] {
    const rest = this.#pending;
    this.#pending = "";
    return rest === "" ? [] : [{ kind: "text", text: rest }];
  }
}

/** The label of a badge: ① to ⑩, then `[11]` and so on. */
export function badgeText(index: number): string {
  return index >= 1 && index <= 10 ? String.fromCodePoint(0x2460 + index - 1) : `[${index}]`;
}
