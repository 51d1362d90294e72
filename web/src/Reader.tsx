// The stored text of a document beside the answer, with the quote marked.
import { useEffect, useRef, useState } from "preact/hooks";

import { type Span, toUnits } from "./ask/answer";
import { closeReader, type OpenDocument, showOriginal } from "./reader-state";
import { apiKey, client, complain } from "./state";
import { words } from "./words";

/** The amount of text shown at first on either side of the quote: a browser lays out all the text that it gets. */
const AROUND = 30_000;

export function Reader({ open }: { open: OpenDocument }) {
  const { documentId, version, points } = open;
  const [text, setText] = useState<string | null>(null);
  const [whole, setWhole] = useState(false);
  const panel = useRef<HTMLElement>(null);
  const mark = useRef<HTMLElement>(null);
  useEffect(() => {
    const control = new AbortController();
    setText(null);
    setWhole(false);
    if (open.takesFocus) panel.current?.focus();
    client
      .send("GET", `/v1/documents/${documentId}/text?version=${version}`, undefined, control.signal)
      .then((response) => response.text())
      .then(setText)
      .catch((error: unknown) => {
        if (control.signal.aborted) return;
        complain(error);
        closeReader();
      });
    return () => control.abort();
  }, [documentId, version]);
  useEffect(() => mark.current?.scrollIntoView({ block: "center" }), [text, whole, points]);
  return (
    <aside class="reader" ref={panel} tabIndex={-1} aria-label={words.value.textOf(open.title)}>
      <header>
        <div>
          <h2 dir="auto">{open.title}</h2>
          <p class="quiet" dir="auto">{open.place}</p>
        </div>
        {open.original !== null && <button type="button" onClick={() => showOriginal(true)}>{words.value.showOriginal}</button>}
        {apiKey.value === null && (
          <a href={`/v1/documents/${documentId}/content?version=${version}`} target="_blank" rel="noopener">{words.value.openFile}</a>
        )}
        <button type="button" class="icon" aria-label={words.value.close} onClick={closeReader}>×</button>
      </header>
      <div class="reader-text" tabIndex={0} role="region" aria-label={words.value.textOf(open.title)}>
        {text === null ? <p class="quiet">{words.value.loading}</p> : part(text)}
      </div>
    </aside>
  );

  function part(stored: string) {
    const span: Span = points === null ? { start: 0, end: 0 } : { start: toUnits(stored, points.start), end: toUnits(stored, points.end) };
    const from = whole ? 0 : Math.max(0, span.start - AROUND);
    const to = whole ? stored.length : Math.min(stored.length, span.end + AROUND);
    return (
      <>
        {to - from < stored.length && (
          <p class="quiet">{words.value.truncated} <button type="button" class="link" onClick={() => setWhole(true)}>{words.value.showAll}</button></p>
        )}
        <pre dir="auto">
          {stored.slice(from, span.start)}
          {span.end > span.start && <mark ref={mark}>{stored.slice(span.start, span.end)}</mark>}
          {stored.slice(span.end, to)}
        </pre>
      </>
    );
  }
}
