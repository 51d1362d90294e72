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
  opener: HTMLElement | null;
}

export const opened = signal<OpenDocument | null>(null);

export function openReader(document: OpenDocument): void {
  opened.value = document;
}

/** Closes it; the focus goes back to where it was opened. */
export function closeReader(): void {
  const opener = opened.value?.opener;
  opened.value = null;
  opener?.focus();
}
