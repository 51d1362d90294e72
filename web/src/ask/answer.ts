// The state of an answer while it is written, and its changes by each event of the stream.
import {
  type ChatEvent, type Citation, type FeedbackInfo, findMarkers, type StoredAnswer, type Step, type TokenUsage, type UncitedSentence,
  type VerifiedCitation,
} from "@citewire/client";

export type Status = "waiting" | "writing" | "done" | "stopped" | "failed";

export interface Answer {
  status: Status;
  text: string;
  citations: Citation[];
  verified: VerifiedCitation[];
  uncited: UncitedSentence[];
  steps: Step[];
  decision: { needs_retrieval: boolean; reason: string } | null;
  assessment: { supported: boolean; utility: number } | null;
  usage: TokenUsage | null;
  model: string | null;
  error: string | null;
  /** The place where it is stored, once it is. */
  place: StoredPlace | null;
  feedback: FeedbackInfo | null;
}

/** A stored answer, identified as in feedback. */
export interface StoredPlace {
  conversation: string;
  exchange: string;
}

export const NEW: Answer = {
  status: "waiting", text: "", citations: [], verified: [], uncited: [], steps: [], decision: null, assessment: null,
  usage: null, model: null, error: null, place: null, feedback: null,
};

/** The answer after an event. */
export function applyEvent(answer: Answer, event: ChatEvent): Answer {
  switch (event.event) {
    case "step":
      return { ...answer, steps: [...answer.steps, event.data] };
    case "decision":
      return { ...answer, decision: event.data };
    case "citations":
      return { ...answer, citations: event.data.citations ?? [] };
    case "token":
      return { ...answer, status: "writing", text: answer.text + (event.data.text ?? "") };
    case "citation":
      return { ...answer, verified: [...answer.verified, event.data] };
    case "uncited":
      return { ...answer, uncited: [...answer.uncited, event.data] };
    case "assessment":
      return { ...answer, assessment: event.data };
    case "usage":
      return { ...answer, usage: event.data };
    case "error":
      return { ...answer, status: "failed", error: event.data.text };
    case "done":
      return answer.status === "failed" ? answer : { ...answer, status: "done" };
    default:
      return answer;
  }
}

const STATES: Record<StoredAnswer["state"], Status> = { complete: "done", cancelled: "stopped", failed: "failed" };

/** A stored answer; one from an older release may lack parts. */
export function fromStored(stored: StoredAnswer, conversation: string): Answer {
  return {
    ...NEW,
    status: STATES[stored.state],
    text: stored.content,
    citations: stored.citations ?? [],
    verified: stored.verified ?? [],
    uncited: stored.uncited ?? [],
    steps: stored.steps ?? [],
    decision: stored.decision ?? null,
    assessment: stored.assessment ?? null,
    usage: stored.usage ?? null,
    model: stored.model ?? null,
    place: { conversation, exchange: stored.exchange_id },
    feedback: stored.feedback ?? null,
  };
}

/** The numbers cited by the answer, in the order of the list. */
export function citedNumbers(answer: Answer): Set<number> {
  const numbers = [...findMarkers(answer.text).map((marker) => marker.index), ...answer.verified.map((v) => v.index)];
  return new Set(numbers.filter((number) => answer.citations.some((citation) => citation.index === number)));
}

/** Converts an offset in Unicode code points, as in the API, to UTF-16 units, as in JavaScript. */
export function toUnits(text: string, points: number): number {
  let units = 0;
  for (let left = points; left > 0 && units < text.length; left--) {
    units += text.codePointAt(units)! > 0xffff ? 2 : 1;
  }
  return units;
}

/** A marked part of a text. */
export interface Span {
  start: number;
  end: number;
}

/** The position of a sentence in an answer. The text only grows, so it is computed once. */
export function sentenceSpan(text: string, of: VerifiedCitation | UncitedSentence): Span {
  let span = spans.get(of);
  if (span === undefined) {
    const { start, end } = of.sentence;
    span = ASTRAL.test(text) ? { start: toUnits(text, start), end: toUnits(text, end) } : { start, end };
    spans.set(of, span);
  }
  return span;
}

const spans = new WeakMap<object, Span>();
const ASTRAL = /[\ud800-\udbff]/; // only these take two units

/** The position of a quote in its passage; found by its words if the offsets don't fit. */
export function quoteSpan(passage: string, verified: VerifiedCitation): Span | null {
  if (verified.quote === "") return null;
  const span = { start: toUnits(passage, verified.quote_start), end: toUnits(passage, verified.quote_end) };
  if (passage.slice(span.start, span.end) === verified.quote) return span;
  const start = passage.indexOf(verified.quote);
  return start < 0 ? null : { start, end: start + verified.quote.length };
}
