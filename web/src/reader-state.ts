// The document that is open beside the answer.
import { signal } from "@preact/signals";

import type { Span } from "./ask/answer";

export interface OpenDocument {
  documentId: number;
  version: number;
  title: string;
  place: string;
  /** The span to mark, in code points of the stored text. */
  points: Span | null;
  /** Whether the original is shown page by page instead of its text; null: it has no pages. */
  original: boolean | null;
  /** The page that the original opens at, from 1. */
  page: number;
  opener: HTMLElement | null;
  /** False if something else has the focus, such as the card of a followed link. */
  takesFocus: boolean;
}

export const opened = signal<OpenDocument | null>(null);

export function openReader(document: OpenDocument): void {
  opened.value = document;
}

/** Switches between the original and the text. */
export function showOriginal(original: boolean): void {
  if (opened.value !== null) opened.value = { ...opened.value, original };
}

/** Closes it; the focus returns to the element that opened it. */
export function closeReader(): void {
  const opener = opened.value?.opener;
  opened.value = null;
  opener?.focus();
}
