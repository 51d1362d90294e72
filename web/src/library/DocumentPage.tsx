// One document: its details and its passages.
import type { Document, SearchResults } from "@citewire/client";
import { useEffect, useState } from "preact/hooks";

import { dialog } from "../dialog-state";
import { saveResponse } from "../files";
import { nameText } from "../links";
import { openReader } from "../reader-state";
import { apiKey, attempt, client } from "../state";
import { useFocus } from "../use-focus";
import { day, number, size, words } from "../words";
import { Facts } from "./Facts";
import { askOnly } from "./Library";
import { isFinished, Progress, stateText, useLookAgain } from "./progress";
import { readTags, tagsText } from "./tags";

/** Maximum number of passages from a search. */
const MOST_PASSAGES = 200;
type Passage = SearchResults["results"][number];

export function DocumentPage({ id }: { id: number }) {
  const [document, setDocument] = useState<Document | null>(null);
  const [passages, setPassages] = useState<Passage[]>([]);
  const load = async () => {
    const stored = await client.call<Document>("GET", `/v1/documents/${id}`);
    setDocument(stored);
    if (stored.live_version !== null) setPassages(await passagesOf(stored));
  };
  const look = async () => {
    const stored = await client.call<Document>("GET", `/v1/documents/${id}`);
    if (isFinished(stored)) await load();
    else setDocument(stored);
  };
  useEffect(() => void attempt(load), []);
  useLookAgain(document === null || isFinished(document) ? null : document, () => void attempt(look));
  if (document === null) return <main class="page" id="main" tabIndex={-1}><p><a href="#/library">{words.value.back}</a></p></main>;
  const title = nameText(document.title || document.file_name);
  const retry = () => attempt(async () => {
    await client.call("POST", `/v1/documents/${id}:retry`);
    await load();
  });
  const path = `/v1/documents/${id}/content`;
  const save = async () => saveResponse(await client.send("GET", path), document.file_name || "document"); // a link can't carry a key
  const facts = [
    nameText(document.file_name), document.collection ?? "", document.media_type, size(document.size_bytes),
    document.status === "failed" ? "" : words.value.tokens(number(document.tokens)),
    document.created_at === undefined ? "" : day(document.created_at),
  ];
  const hasPages = document.media_type === "application/pdf";
  const read = (opener: HTMLElement, original: boolean) => openReader({
    documentId: id, version: document.version, title, place: nameText(document.file_name), points: null, original: hasPages ? original : null, page: 1, opener, takesFocus: true,
  });
  return (
    <main class="page" id="main" tabIndex={-1}>
      <p><a href="#/library">{words.value.back}</a></p>
      <h1><bdi>{title}</bdi></h1>
      <p class="quiet"><Facts facts={facts} /></p>
      <Tags key={document.tags.join()} document={document} onSaved={setDocument} />
      <p><span class={`state ${document.status}`}>{stateText(document.status, document.progress)}</span></p>
      <Progress document={document} name={title} />
      {document.error !== undefined && <p class="fault" dir="auto">{document.error.message}</p>}
      <div class="tools">
        {document.live_version !== null && <button type="button" onClick={() => askOnly(document)}>{words.value.askDocument}</button>}
        {document.live_version !== null && <button type="button" onClick={(event) => read(event.currentTarget, false)}>{words.value.readText}</button>}
        {hasPages && document.live_version !== null && (
          <button type="button" onClick={(event) => read(event.currentTarget, true)}>{words.value.openOriginal}</button>
        )}
        {apiKey.value === null && !hasPages && <a href={path} target="_blank" rel="noopener">{words.value.openOriginal}</a>}
        {apiKey.value !== null && !hasPages && <button type="button" onClick={() => void attempt(save)}>{words.value.openOriginal}</button>}
        <button type="button" onClick={() => (dialog.value = { kind: "readers", document, onSaved: setDocument })}>{words.value.permissions}</button>
        {document.status === "failed" && <button type="button" onClick={() => void retry()}>{words.value.processAgain}</button>}
      </div>
      {passages.length > 0 && <h2>{words.value.passages}: {words.value.chunks(document.chunks)}</h2>}
      {passages.map((passage) => (
        <div key={passage.chunk_id} class="chunk" dir="auto">
          {passage.section !== undefined && <p class="quiet" dir="auto">{passage.section}</p>}
          {passage.content}
        </div>
      ))}
    </main>
  );
}

/** The document's tags, which can be changed. */
function Tags({ document, onSaved }: { document: Document; onSaved: (document: Document) => void }) {
  const [text, setText] = useState<string | null>(null);
  const field = useFocus<HTMLInputElement>(text !== null);
  const save = () => attempt(async () => {
    onSaved(await client.call<Document>("PATCH", `/v1/documents/${document.id}`, { tags: readTags(text ?? "") }));
    setText(null);
  });
  if (text === null) {
    return (
      <p class="tags">
        <span class="quiet">{words.value.tags}:</span>
        {document.tags.map((tag) => <span key={tag} class="tag" dir="auto">{nameText(tag)}</span>)}
        <button type="button" class="link" onClick={() => setText(tagsText(document.tags))}>{document.tags.length > 0 ? words.value.changeTags : words.value.addTags}</button>
      </p>
    );
  }
  return (
    <form class="tools" onSubmit={(event) => { event.preventDefault(); void save(); }} onKeyDown={(event) => event.key === "Escape" && setText(null)}>
      <input ref={field} dir="auto" aria-label={words.value.tags} placeholder={words.value.tagsBetween} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit">{words.value.save}</button>
      <button type="button" onClick={() => setText(null)}>{words.value.cancel}</button>
    </form>
  );
}

/** The document's passages in order: a search only in it, which finds all of them. */
async function passagesOf(document: Document): Promise<Passage[]> {
  const query = document.title || document.file_name;
  const body = { query, document_ids: [document.id], top_k: MOST_PASSAGES, mode: "dense" };
  const { results } = await client.call<SearchResults>("POST", "/v1/search", body);
  return results.sort((one, other) => one.chunk_index - other.chunk_index);
}
