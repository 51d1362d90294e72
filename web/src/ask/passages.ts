// Passages and documents that cards show, fetched when one opens and kept for a while.
import type { Chunk, Citation, Document, SpanPlaces, VerifiedCitation } from "@citewire/client";

import { client } from "../state";
import type { Span } from "./answer";

const MOST_KEPT = 200;
/** Code points of a span that can be located. */
const MOST_LOCATED = 8000;

/** Remembers what was fetched; what failed is fetched again. */
function kept<K, T>(fetchIt: (id: K) => Promise<T>): (id: K) => Promise<T> {
  const cache = new Map<K, Promise<T>>();
  return (id) => {
    const known = cache.get(id);
    if (known !== undefined) return known;
    if (cache.size >= MOST_KEPT) cache.delete(cache.keys().next().value!);
    const fetched = fetchIt(id);
    cache.set(id, fetched);
    fetched.catch(() => cache.delete(id));
    return fetched;
  };
}

export const fetchChunk = kept((id: number) => client.call<Chunk>("GET", `/v1/chunks/${id}`));
export const fetchDocument = kept((id: number) => client.call<Document>("GET", `/v1/documents/${id}`));

const fetchPlaces = kept((path: string) => client.call<SpanPlaces>("GET", path));

/** Where a span of a version's text stands on the original's pages. */
export function locate(documentId: number, version: number, span: Span): Promise<SpanPlaces> {
  const end = Math.min(span.end, span.start + MOST_LOCATED);
  return fetchPlaces(`/v1/documents/${documentId}/locate?version=${version}&char_start=${span.start}&char_end=${end}`);
}

/** What of the stored text a card shows: the quote, else the passage; null while that isn't known. */
export function spanOf(verified: VerifiedCitation | null, chunk: Chunk | null): Span | null {
  if (verified?.document_start !== undefined && verified.document_end !== undefined) {
    return { start: verified.document_start, end: verified.document_end };
  }
  return chunk === null ? null : { start: chunk.char_start, end: chunk.char_end };
}

const PLACE = [
  "page_number", "slide", "sheet", "cell_range", "row_number", "cell", "record_path", "start_seconds", "start_line", "end_line", "part",
] as const satisfies (keyof Citation & keyof VerifiedCitation)[];

/** A citation with the place of its quote, which is often a part of the passage's. */
export function atQuote(citation: Citation, verified: VerifiedCitation | null): Citation {
  if (verified === null || verified.quote === "") return citation;
  const known = PLACE.filter((name) => verified[name] !== undefined);
  return { ...citation, ...Object.fromEntries(known.map((name) => [name, verified[name]])) };
}

/** Where an original without pages opens: at its part, slide, cells, row, path or time where that is known. */
export function contentPath(citation: Citation): string {
  const path = `/v1/documents/${citation.document_id}/content?version=${citation.version}`;
  if (citation.part !== undefined) return `${path}#part=${encodeURIComponent(citation.part)}`;
  if (citation.cell !== undefined) return `${path}#cell=${citation.cell}`;
  if (citation.record_path !== undefined) return `${path}#path=${encodeURIComponent(citation.record_path)}`;
  if (citation.start_seconds !== undefined) return `${path}#t=${citation.start_seconds}`;
  if (citation.slide !== undefined) return `${path}#slide=${citation.slide}`;
  if (citation.sheet !== undefined) return `${path}#sheet=${encodeURIComponent(citation.sheet)}&range=${citation.cell_range ?? ""}`;
  return citation.row_number === undefined ? path : `${path}#row=${citation.row_number}`;
}
