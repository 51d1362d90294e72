// The marks in each part of an answer: its badges, and the sentences without citations.
import { type Answer, sentenceSpan, type Span } from "./answer";
import type { Marks, MarksOf } from "./Markdown";

/**
 * Returns a function that finds a part's marks, in little more time than there are marks: it runs for each part in each frame.
 * `hasMarkers`: whether markers in the text give the positions of its badges.
 */
export function marksReader(answer: Answer, hasMarkers: boolean, language: string): MarksOf {
  const byIndex = new Map(answer.citations.map((citation) => [citation.index, citation]));
  const sentences = byStart(answer.verified.map((verified) => ({ verified, ...sentenceSpan(answer.text, verified) })));
  const uncited = byStart(answer.uncited.map((sentence) => sentenceSpan(answer.text, sentence)));
  // The unverified part of a long answer is one span over many blocks.
  const [longest, longestUncited] = [longestOf(sentences), longestOf(uncited)];
  return ({ start, end }: Span): Marks => {
    const touching = within(sentences, start - longest, end).filter((sentence) => sentence.end > start);
    const bare = within(uncited, start - longestUncited, end).filter((sentence) => sentence.end > start);
    const target = (index: number, at: number | null) => {
      const citation = byIndex.get(index);
      if (citation === undefined) return null;
      const before = touching.filter((sentence) => sentence.verified.index === index && (at === null || sentence.start <= at));
      return { citation, verified: before.at(-1)?.verified ?? null };
    };
    const placed = touching.flatMap(({ verified, end: at }) => {
      const citation = byIndex.get(verified.index);
      return hasMarkers || at > end || citation === undefined ? [] : [{ at, target: { citation, verified } }];
    });
    const version = `${byIndex.size}/${touching.length}/${placed.length}/${bare.length}/${language}`;
    return { target, placed, uncited: bare, version };
  };
}

function byStart<S extends Span>(spans: S[]): S[] {
  return spans.every((span, at) => at === 0 || spans[at - 1]!.start <= span.start) ? spans : spans.toSorted((a, b) => a.start - b.start);
}

function longestOf(spans: Span[]): number {
  return spans.reduce((most, { start, end }) => Math.max(most, end - start), 0);
}

/** The marks that begin in a range, in order. */
function within<S extends Span>(spans: S[], from: number, to: number): S[] {
  const first = lowerBound(spans, from);
  let last = first;
  while (last < spans.length && spans[last]!.start <= to) last++;
  return spans.slice(first, last);
}

function lowerBound(spans: Span[], start: number): number {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle]!.start < start) low = middle + 1;
    else high = middle;
  }
  return low;
}
