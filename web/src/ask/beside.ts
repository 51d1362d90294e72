// Opens a citation's document beside the answer.
import type { Citation } from "@citewire/client";

import { nameText } from "../links";
import { openReader } from "../reader-state";
import type { Span } from "./answer";
import { type BadgeTarget, card } from "./card-state";
import { atQuote, placeText } from "./places";

/** Shows the stored text or, if it has pages, the original; the mark is given in code points of the text. */
export function openBeside(opener: HTMLElement, target: BadgeTarget, points: Span | null, how: { original: boolean; takesFocus: boolean }): void {
  const citation = atQuote(target.citation, target.verified);
  card.value = null;
  openReader({
    documentId: citation.document_id,
    version: citation.version,
    title: nameText(citation.title || citation.file_name),
    place: placeText(citation),
    points,
    original: hasPages(citation) ? how.original : null,
    page: citation.page_number ?? 1,
    opener,
    takesFocus: how.takesFocus,
  });
}

/** Whether the original is a PDF: an attachment's pages aren't the file's. */
export function hasPages(citation: Citation): boolean {
  return citation.page_number !== undefined && citation.part === undefined;
}
