// The original beside the answer, page by page, with the quote marked where the server found it.
import type { SpanPlaces } from "@citewire/client";
import type { PDFDocumentProxy } from "pdfjs-dist";
import { useEffect, useRef, useState } from "preact/hooks";

import { locate } from "../ask/passages";
import { saveResponse } from "../files";
import { closeReader, type OpenDocument, showOriginal } from "../reader-state";
import { apiKey, attempt, client, complain, toast } from "../state";
import { words } from "../words";
import { Page } from "./Page";
import { openPdf } from "./pdf";

const ZOOMS = [1, 1.5, 2, 3];

export function Original({ open }: { open: OpenDocument }) {
  const { documentId, version, points } = open;
  const path = `/v1/documents/${documentId}/content?version=${version}`;
  const [pdf, setPdf] = useState<PDFDocumentProxy | null>(null);
  const [places, setPlaces] = useState<SpanPlaces["places"] | null>(null);
  const [page, setPage] = useState(open.page);
  const [zoom, setZoom] = useState(0);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => void (open.takesFocus && panel.current?.focus()), [documentId, version]);
  useEffect(() => {
    const control = new AbortController();
    let end = () => {};
    setPdf(null);
    const load = async () => {
      const response = await client.send("GET", path, undefined, control.signal);
      const data = await response.arrayBuffer();
      if (control.signal.aborted) return;
      const opened = openPdf(data);
      end = opened.end;
      setPdf(await opened.task.promise);
    };
    load().catch((error: unknown) => {
      if (control.signal.aborted) return;
      if (error instanceof Error && error.name.endsWith("Exception")) toast(words.value.notShown); // pdf.js's own names
      else complain(error);
      showOriginal(false);
    });
    return () => {
      control.abort();
      end();
    };
  }, [path]);
  useEffect(() => {
    let gone = false;
    setPage(open.page);
    setPlaces(null);
    if (points === null) return;
    locate(documentId, version, points).then(
      (found) => {
        if (gone) return;
        setPlaces(found.places);
        setPage(found.places[0]?.page_number ?? open.page);
      },
      (error: unknown) => gone || complain(error),
    );
    return () => {
      gone = true;
    };
  }, [documentId, version, points?.start, points?.end]);
  const here = places?.find((place) => place.page_number === page);
  const isUnmarked = places !== null && places.every((place) => !place.boxes?.boxes.length);
  return (
    <aside class="reader" ref={panel} tabIndex={-1} aria-label={words.value.originalOf(open.title)}>
      <header>
        <div>
          <h2 dir="auto">{open.title}</h2>
          <p class="quiet" dir="auto">{open.place}</p>
        </div>
        <button type="button" onClick={() => showOriginal(false)}>{words.value.showText}</button>
        {apiKey.value === null
          ? <a href={`${path}#page=${page}`} target="_blank" rel="noopener">{words.value.openFile}</a>
          : <button type="button" onClick={() => void attempt(save)}>{words.value.openFile}</button>}
        <button type="button" class="icon" aria-label={words.value.close} onClick={closeReader}>×</button>
      </header>
      <div class="original-tools">
        <button type="button" class="icon" aria-label={words.value.previousPage} disabled={page <= 1} onClick={() => setPage(page - 1)}>‹</button>
        <span role="status">{words.value.pageOf(page, pdf?.numPages ?? page)}</span>
        <button type="button" class="icon" aria-label={words.value.nextPage} disabled={page >= (pdf?.numPages ?? 0)} onClick={() => setPage(page + 1)}>›</button>
        <button type="button" class="icon" aria-label={words.value.smaller} disabled={zoom === 0} onClick={() => setZoom(zoom - 1)}>−</button>
        <button type="button" class="icon" aria-label={words.value.larger} disabled={zoom === ZOOMS.length - 1} onClick={() => setZoom(zoom + 1)}>+</button>
      </div>
      {isUnmarked && <p class="quiet original-tools">{words.value.notMarked}</p>}
      <div class="original-pages" tabIndex={0} role="region" aria-label={words.value.originalOf(open.title)}>
        {pdf === null ? <p class="quiet">{words.value.loading}</p> : <Page key={page} pdf={pdf} number={page} zoom={ZOOMS[zoom] ?? 1} marks={here?.boxes ?? null} />}
      </div>
    </aside>
  );

  async function save(): Promise<void> {
    await saveResponse(await client.send("GET", path), open.title.endsWith(".pdf") ? open.title : `${open.title}.pdf`);
  }
}
