// The server's progress with a document.
import type { Document } from "@citewire/client";
import { useEffect } from "preact/hooks";

import { words } from "../words";

/** Milliseconds between two requests for an unfinished document. */
export const LOOK_MS = 1000;

export function isFinished({ status }: Document): boolean {
  return status === "ready" || status === "failed";
}

/** Calls `look` again after a while; `seen` is the last result, null if nothing is unfinished. */
export function useLookAgain(seen: unknown, look: () => void): void {
  useEffect(() => {
    if (seen === null) return;
    const timer = setTimeout(look, LOOK_MS);
    return () => clearTimeout(timer);
  }, [seen]);
}

/** The listed documents, with unfinished ones as in a later list; null if that lacks one of them. */
export function updated(before: Document[], later: Document[]): Document[] | null {
  const byId = new Map(later.map((document) => [document.id, document]));
  const after = before.map((document) => (isFinished(document) ? document : byId.get(document.id)));
  return after.includes(undefined) ? null : (after as Document[]);
}

/** A document's state, and how many of its pages or passages are done. */
export function stateText(status: string, progress?: Document["progress"]): string {
  if (status === "processing" && progress?.total) {
    if (progress.stage === "parse") return words.value.pagesRead(progress.done, progress.total);
    if (progress.stage === "embed") return words.value.chunksRead(progress.done, progress.total);
  }
  return words.value.states[status] ?? status;
}

/** The same as a bar; nothing while the total is unknown. */
export function Progress({ document, name }: { document: Document; name: string }) {
  const { status, progress } = document;
  if (status !== "processing" || !progress?.total) return null;
  return <progress max={progress.total} value={progress.done} aria-label={name} aria-valuetext={stateText(status, progress)} />;
}
