// One page of a PDF: its image, the text above it, and the marks between them.
import type { SpanPlaces } from "@citewire/client";
import { type PDFDocumentProxy, type PDFPageProxy, RenderingCancelledException, TextLayer } from "pdfjs-dist";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { complain } from "../state";

type Marks = NonNullable<SpanPlaces["places"][number]["boxes"]>;
/** Browsers limit the size of a canvas; this is the lowest limit among browsers in use. */
const MOST_PIXELS = 16_000_000;

export function Page({ pdf, number, zoom, marks }: { pdf: PDFDocumentProxy; number: number; zoom: number; marks: Marks | null }) {
  const [page, setPage] = useState<PDFPageProxy | null>(null);
  const [room, setRoom] = useState(0);
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const text = useRef<HTMLDivElement>(null);
  const first = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let gone = false;
    pdf.getPage(number).then((got) => gone || setPage(got), (error: unknown) => gone || complain(error));
    return () => {
      gone = true;
    };
  }, [pdf, number]);
  useLayoutEffect(() => {
    const watched = frame.current!.parentElement!;
    const observer = new ResizeObserver(([entry]) => setRoom(Math.floor(entry!.contentRect.width)));
    observer.observe(watched);
    return () => observer.disconnect();
  }, []);
  const size = page?.getViewport({ scale: 1 });
  const scale = size === undefined ? 0 : (room / size.width) * zoom;
  useEffect(() => {
    if (page === null || scale <= 0) return;
    const viewport = page.getViewport({ scale });
    const sharpness = Math.min(devicePixelRatio, Math.sqrt(MOST_PIXELS / (viewport.width * viewport.height)));
    const drawn = page.getViewport({ scale: scale * sharpness });
    const target = canvas.current!;
    target.width = Math.floor(drawn.width);
    target.height = Math.floor(drawn.height);
    const drawing = page.render({ canvas: target, viewport: drawn });
    const container = text.current!;
    container.replaceChildren();
    container.style.setProperty("--total-scale-factor", String(scale));
    const layer = new TextLayer({ textContentSource: page.streamTextContent(), container, viewport });
    const failed = (error: unknown) => {
      const isOurs = error instanceof RenderingCancelledException || (error instanceof Error && error.name === "AbortException");
      if (!isOurs) complain(error);
    };
    drawing.promise.catch(failed);
    layer.render().catch(failed);
    return () => {
      drawing.cancel();
      layer.cancel();
    };
  }, [page, scale]);
  useEffect(() => first.current?.scrollIntoView({ block: "center" }), [marks, scale > 0]);
  return (
    <div class="original-page" ref={frame} style={size === undefined ? {} : { width: `${size.width * scale}px`, height: `${size.height * scale}px` }}>
      <canvas ref={canvas} aria-hidden="true" />
      {scale > 0 && marks?.boxes.map((box, index) => (
        <div
          key={index}
          ref={index === 0 ? first : null}
          class="quote-box"
          aria-hidden="true"
          style={{
            left: share(box.left, marks.width),
            top: share(box.top, marks.height),
            width: share(box.right - box.left, marks.width),
            height: share(box.bottom - box.top, marks.height),
          }}
        />
      ))}
      <div class="page-text" ref={text} />
    </div>
  );
}

function share(part: number, whole: number): string {
  return `${(100 * part) / whole}%`;
}
