// Passages and documents that cards show, fetched when one opens and kept for a while.
import type { Chunk, Citation, Document } from "@citewire/client";

import { client } from "../state";

const MOST_KEPT = 200;

/** Remembers what was fetched; what failed is fetched again. */
function kept<T>(fetchIt: (id: number) => Promise<T>): (id: number) => Promise<T> {
  const cache = new Map<number, Promise<T>>();
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

export const fetchChunk = kept((id) => client.call<Chunk>("GET", `/v1/chunks/${id}`));
export const fetchDocument = kept((id) => client.call<Document>("GET", `/v1/documents/${id}`));

/** Where the original of a citation opens: a page or row where it is known. */
export function contentPath(citation: Citation): string {
  const path = `/v1/documents/${citation.document_id}/content?version=${citation.version}`;
  if (citation.page_number !== undefined) return `${path}#page=${citation.page_number}`;
  return citation.row_number === undefined ? path : `${path}#row=${citation.row_number}`;
}
