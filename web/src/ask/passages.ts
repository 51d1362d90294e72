// Passages and documents for cards, fetched when a card opens and cached for a while.
import type { Chunk, Document, SpanPlaces, VerifiedCitation } from "@citewire/client";

import { client } from "../state";
import type { Span } from "./answer";

const MOST_KEPT = 200;
/** Maximum number of code points in a span that can be located. */
const MOST_LOCATED = 8000;

/** Caches results; failed requests are repeated. */
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

/** The places of a span of a version's text on the original's pages. */
export function locate(documentId: number, version: number, span: Span): Promise<SpanPlaces> {
  const end = Math.min(span.end, span.start + MOST_LOCATED);
  return fetchPlaces(`/v1/documents/${documentId}/locate?version=${version}&char_start=${span.start}&char_end=${end}`);
}

/** The part of the stored text for a card: the quote, else the passage; null while it isn't known. */
export function spanOf(verified: VerifiedCitation | null, chunk: Chunk | null): Span | null {
  if (verified?.document_start !== undefined && verified.document_end !== undefined) {
    return { start: verified.document_start, end: verified.document_end };
  }
  return chunk === null ? null : { start: chunk.char_start, end: chunk.char_end };
}
