// The card of a source: the passage verbatim, and the verdict in words.
import { type Chunk, type Citation, type Document, type VerifiedCitation } from "@citewire/client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { saveResponse } from "../files";
import { languageColor } from "../language-colors";
import { nameText, safeUrl } from "../links";
import { apiKey, attempt, client, toast } from "../state";
import { shortCount, words } from "../words";
import { quoteSpan, type Span } from "./answer";
import { hasPages, openBeside } from "./beside";
import { card, closeCard, hoverOut, keepOpen, type OpenCard, pin } from "./card-state";
import { linkTo } from "./cited";
import { fetchChunk, fetchDocument, locate, spanOf } from "./passages";
import { atQuote, contentPath, placeText } from "./places";

const CONTEXT = 180; // characters of the passage on either side of the quote
const EDGE = 12; // between card and window, in pixels
const GAP = 8; // between card and badge
const BORDERS = 2; // above and below the scrolling part
const LEAST = 96; // minimum height of a card

export function Card() {
  const open = card.value;
  return open === null ? null : <CardOf key={`${open.target.citation.chunk_id}:${open.target.verified?.sentence.start}`} open={open} />;
}

function CardOf({ open }: { open: OpenCard }) {
  const { verified } = open.target;
  const citation = atQuote(open.target.citation, verified);
  const box = useRef<HTMLDivElement>(null);
  const [chunk, setChunk] = useState<Chunk | null | undefined>(undefined);
  useEffect(() => {
    let gone = false;
    fetchChunk(citation.chunk_id).then((got) => gone || setChunk(got), () => gone || setChunk(null));
    return () => {
      gone = true;
    };
  }, [citation.chunk_id]);
  const span = spanOf(verified, chunk ?? null);
  useEffect(() => {
    // Requested now, so that the page is marked as soon as it is shown; the component that shows it reports errors.
    if (span !== null && hasPages(citation)) locate(citation.document_id, citation.version, span).catch(() => undefined);
  }, [citation.document_id, span?.start, span?.end]);
  useLayoutEffect(() => {
    if (box.current !== null) placeBy(box.current, open.anchor);
  });
  useEffect(() => {
    if (open.pinned) box.current?.focus();
  }, [open.pinned, open.anchor]);
  useEffect(() => {
    const away = (event: Event) => {
      const target = event.target as Node;
      if (!box.current?.contains(target) && !open.anchor.contains(target)) card.value = null;
    };
    const move = () => box.current !== null && placeBy(box.current, open.anchor);
    document.addEventListener("pointerdown", away);
    addEventListener("scroll", move, true);
    addEventListener("resize", move);
    return () => {
      document.removeEventListener("pointerdown", away);
      removeEventListener("scroll", move, true);
      removeEventListener("resize", move);
    };
  }, [open.anchor]);
  const title = nameText(citation.title || citation.file_name);
  return (
    <div
      ref={box}
      class="card"
      role="dialog"
      aria-label={words.value.source(citation.index, title)}
      tabIndex={-1}
      onPointerEnter={keepOpen}
      onPointerLeave={hoverOut}
      onFocusIn={() => pin(open)}
    >
      <button type="button" class="icon card-close" aria-label={words.value.close} onClick={closeCard}>×</button>
      {citation.type === "repository" ? (
        <Repository citation={citation} />
      ) : (
        <>
          <h2 dir="auto">{title}</h2>
          <p class="quiet" dir="auto">{placeText(citation)}</p>
        </>
      )}
      {verified !== null && <Verdict verified={verified} />}
      <Passage citation={citation} verified={verified} chunk={chunk} />
      <div class="card-actions">
        <button type="button" onClick={() => show(open, span, false)}>{words.value.openText}</button>
        <OriginalLink open={open} citation={citation} span={span} />
        <CopyLink open={open} />
        {citation.score !== null && <span class="quiet score">{words.value.similarity(Math.round(citation.score * 100))}</span>}
      </div>
    </div>
  );
}

function Verdict({ verified }: { verified: VerifiedCitation }) {
  return (
    <p class={`verdict ${verified.verdict}`}>
      <strong>{words.value.verdict[verified.verdict]}.</strong> {words.value.verdictText[verified.verdict]}
      {verified.mismatches.length > 0 && <span dir="auto"> {words.value.mismatches(verified.mismatches.join(", "))}</span>}
    </p>
  );
}

/** The quote in its context; the passage's beginning while it is fetched or if there is no quote. */
function Passage({ citation, verified, chunk }: { citation: Citation; verified: VerifiedCitation | null; chunk: Chunk | null | undefined }) {
  if (chunk === null) return <p class="quiet">{words.value.passageGone}</p>;
  const text = citation.computed ? citation.snippet : (chunk?.content ?? citation.snippet); // not words of the document
  const span = verified === null ? null : quoteSpan(text, verified);
  if (span === null) return <p class="passage three-lines" dir="auto">{plain(text, 0, text.length)}</p>;
  const from = wordStart(text, Math.max(0, span.start - CONTEXT));
  const to = wordEnd(text, Math.min(text.length, span.end + CONTEXT));
  return (
    <blockquote class="passage" dir="auto">
      {from > 0 && "… "}
      {plain(text, from, span.start)}
      <mark>{plain(text, span.start, span.end)}</mark>
      {plain(text, span.end, to)}
      {to < text.length && " …"}
    </blockquote>
  );
}

/** A part of a passage, without the characters that begin a Markdown heading. */
function plain(text: string, from: number, to: number): string {
  const isLineStart = from === 0 || text[from - 1] === "\n";
  return text.slice(from, to).replace(/(^|\n)#{1,6}[ \t]+(?=\S)/g, (signs, lineEnd: string, at: number) => (at > 0 || isLineStart ? lineEnd : signs));
}

function wordStart(text: string, at: number): number {
  const space = text.slice(0, at).search(/\S+$/);
  return space < 0 || at - space > 24 ? at : space;
}

function wordEnd(text: string, at: number): number {
  const rest = text.slice(at).search(/\s|$/);
  return rest > 24 ? at : at + rest;
}

function Repository({ citation }: { citation: Citation }) {
  const [found, setFound] = useState<Document | null>(null);
  useEffect(() => {
    let gone = false;
    fetchDocument(citation.document_id).then((got) => gone || setFound(got), () => undefined);
    return () => {
      gone = true;
    };
  }, [citation.document_id]);
  const text = (name: string): string => {
    const value = (found?.metadata as Record<string, unknown> | undefined)?.[name];
    return typeof value === "string" ? value : "";
  };
  const stars = (found?.metadata as Record<string, unknown> | undefined)?.["stargazers_count"];
  const owner = text("owner_login");
  const color = languageColor(text("language"));
  return (
    <div class="repository">
      {/* The avatar's URL leads to a third party: the owner's initials serve the purpose without a request to it. */}
      {owner !== "" && <span class="avatar" aria-hidden="true">{[...owner].slice(0, 2).join("").toUpperCase()}</span>}
      <div>
        <h2 dir="auto">{nameText(citation.title)}</h2>
        <p class="quiet" dir="auto">{owner}</p>
      </div>
      {text("description") !== "" && <p class="two-lines" dir="auto">{text("description")}</p>}
      <p class="quiet facts">
        {text("language") !== "" && (
          <span><svg class="dot" viewBox="0 0 8 8" aria-hidden="true"><circle cx="4" cy="4" r="4" fill={color} /></svg> {text("language")}</span>
        )}
        {typeof stars === "number" && <span aria-label={words.value.stars(shortCount(stars))}>★ {shortCount(stars)}</span>}
      </p>
    </div>
  );
}

/** Opens the stored file, with pages beside the answer. A link can't carry a key, so with a key other files are saved instead. */
function OriginalLink({ open, citation, span }: { open: OpenCard; citation: Citation; span: Span | null }) {
  const url = citation.url === undefined ? null : safeUrl(citation.url);
  if (url !== null) return <a href={url} target="_blank" rel="noopener noreferrer">{words.value.openLink}</a>;
  if (hasPages(citation)) return <button type="button" onClick={() => show(open, span, true)}>{words.value.openOriginal}</button>;
  const path = contentPath(citation);
  if (apiKey.value === null) return <a href={path} target="_blank" rel="noopener">{words.value.openOriginal}</a>;
  const save = async () => saveResponse(await client.send("GET", path), citation.file_name || "document");
  return <button type="button" onClick={() => attempt(save)}>{words.value.openOriginal}</button>;
}

function show({ anchor, target }: OpenCard, points: Span | null, original: boolean): void {
  openBeside(anchor, target, points, { original, takesFocus: true });
}

/** Copies the URL that opens this card; the card stays open, so that its reader can continue. */
function CopyLink({ open: { anchor, target } }: { open: OpenCard }) {
  const link = linkTo(anchor, target);
  if (link === null) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(link);
    toast(words.value.citationCopied, "note");
  };
  return <button type="button" onClick={() => void copy()}>{words.value.copyLink}</button>;
}

/** Places the card below its badge, or above it if there is more room, never on it; narrow windows show it at the bottom (by CSS). */
function placeBy(box: HTMLElement, anchor: HTMLElement): void {
  const at = anchor.getBoundingClientRect();
  const left = Math.min(Math.max(EDGE, at.left + at.width / 2 - box.offsetWidth / 2), innerWidth - box.offsetWidth - EDGE);
  const below = innerHeight - at.bottom - GAP - EDGE;
  const above = at.top - GAP - EDGE;
  const isBelow = box.scrollHeight + BORDERS <= below || below >= above;
  box.style.setProperty("--room", `${Math.max(LEAST, isBelow ? below : above)}px`); // longer content scrolls
  box.style.left = `${left}px`;
  box.style.top = `${isBelow ? at.bottom + GAP : at.top - GAP - box.offsetHeight}px`;
}
