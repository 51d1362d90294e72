// The document that is open beside the answer.
import { signal } from "@preact/signals";

import type { Span } from "./ask/answer";

export interface OpenDocument {
  documentId: number;
  version: number;
  title: string;
  place: string;
  /** What to mark, in code points of the stored text. */
  points: Span | null;
  /** Whether the original is shown, page by page, and not its text; null: it has no pages. */
  original: boolean | null;
  /** The page that the original opens at, from 1. */
  page: number;
  opener: HTMLElement | null;
  /** False where something else has the focus, as the card of a link that was followed. */
  takesFocus: boolean;
}

export const opened = signal<OpenDocument | null>(null);

export function openReader(document: OpenDocument): void {
  opened.value = document;
}

/** Shows the original in place of the text, or the text again. */
export function showOriginal(original: boolean): void {
  if (opened.value !== null) opened.value = { ...opened.value, original };
}

/** Closes it; the focus goes back to where it was opened. */
export function closeReader(): void {
  const opener = opened.value?.opener;
  opened.value = null;
  opener?.focus();
}
