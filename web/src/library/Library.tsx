// The library: the source of answers. `#/library/ID` is one document.
import type { Document, DocumentList } from "@citewire/client";
import { memo } from "preact/compat";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { chosenDocuments, chosenTags, collections, loadChoices } from "../ask/chat";
import { dialog } from "../dialog-state";
import { nameText } from "../links";
import { attempt, client, go, place } from "../state";
import { day, size, words } from "../words";
import { DocumentPage } from "./DocumentPage";
import { Facts } from "./Facts";
import { isFinished, Progress, stateText, updated, useLookAgain } from "./progress";
import { readTags } from "./tags";
import { type Into, type Upload, upload, uploadFrom, uploads } from "./uploads";

const SEARCH_MS = 200;
const LISTED = 50;

export function Library() {
  const id = Number(place.value[1]);
  return Number.isSafeInteger(id) && id > 0 ? <DocumentPage key={id} id={id} /> : <Documents />;
}

function Documents() {
  const [documents, setDocuments] = useState<Document[] | null>(null);
  const [next, setNext] = useState("");
  const [text, setText] = useState("");
  const [collection, setCollection] = useState("");
  const [tag, setTag] = useState("");
  const asked = useRef(0);
  const list = async (number: number, onList: (page: DocumentList) => void, token = "") => {
    const query = new URLSearchParams({ page_size: String(LISTED) });
    if (text.trim() !== "") query.set("q", text.trim());
    if (collection !== "") query.set("collection", collection);
    if (tag !== "") query.set("tag", tag);
    if (token !== "") query.set("page_token", token);
    await attempt(async () => {
      const page = await client.call<DocumentList>("GET", `/v1/documents?${query}`);
      if (number === asked.current) onList(page); // else a later search has its own answer
    });
  };
  const load = (token = "") => list(++asked.current, (page) => {
    setDocuments((before) => (token === "" ? page.documents : [...(before ?? []), ...page.documents]));
    setNext(page.next_page_token);
  }, token);
  const first = documents?.slice(0, LISTED) ?? [];
  useLookAgain(first.every(isFinished) ? null : documents, () => void list(asked.current, (page) => {
    const after = updated(first, page.documents);
    if (after === null) void load(); // one was deleted, or is on a later page now
    else setDocuments([...after, ...(documents ?? []).slice(LISTED)]);
  }));
  useEffect(() => {
    const timer = setTimeout(() => void load(), documents === null ? 0 : SEARCH_MS);
    return () => clearTimeout(timer);
  }, [text, collection, tag]);
  const changed = () => {
    void load();
    void attempt(loadChoices);
  };
  const latest = useRef(changed);
  latest.current = changed;
  const onChange = useCallback(() => latest.current(), []); // the same for all rows that are already rendered
  return (
    <main class="page" id="main" tabIndex={-1}>
      <h1>{words.value.library}</h1>
      <p class="quiet">{words.value.libraryText}</p>
      <DropArea onFiles={(files, into) => upload(files, into, changed)} onUrl={(url, into) => uploadFrom(url, into, changed)} />
      {uploads.value.length > 0 && (
        <>
          <h2>{words.value.uploads}</h2>
          <ul class="rows">{uploads.value.map((entry) => <UploadRow key={entry.key} upload={entry} />)}</ul>
        </>
      )}
      <h2 class="hidden">{words.value.library}</h2>
      <div class="tools">
        <input type="search" aria-label={words.value.searchLibrary} placeholder={words.value.searchLibrary} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {collections.value.length > 0 && (
          <select aria-label={words.value.collection} value={collection} onChange={(event) => setCollection(event.currentTarget.value)}>
            <option value="">{words.value.allCollections}</option>
            {collections.value.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        )}
        {collection !== "" && <button type="button" onClick={() => (dialog.value = { kind: "grants", collection })}>{words.value.permissions}</button>}
        {tag !== "" && (
          <span class="tag">
            {nameText(tag)}
            <button type="button" class="icon" aria-label={words.value.removeTag(tag)} onClick={() => setTag("")}>×</button>
          </span>
        )}
        {tag !== "" && <button type="button" onClick={() => askTagged(tag)}>{words.value.askTag}</button>}
      </div>
      {documents === null ? (
        <p class="quiet">{words.value.loading}</p>
      ) : (
        <ul class="rows documents">
          {documents.map((document) => <DocumentRow key={document.id} document={document} onChange={onChange} onTag={setTag} />)}
          {documents.length === 0 && <li class="quiet">{text === "" && collection === "" && tag === "" ? words.value.emptyLibrary : words.value.nothingMatches}</li>}
        </ul>
      )}
      {next !== "" && <p><button type="button" onClick={() => void load(next)}>{words.value.moreDocuments}</button></p>}
    </main>
  );
}

interface DropProps {
  onFiles: (files: File[], into: Into) => void;
  onUrl: (url: string, into: Into) => void;
}

function DropArea({ onFiles, onUrl }: DropProps) {
  const [isOver, setOver] = useState(false);
  const [into, setInto] = useState("");
  const [tags, setTags] = useState("");
  const [url, setUrl] = useState("");
  const common = (): Into => ({ collection: into.trim(), tags: readTags(tags) });
  const take = (files: FileList | null | undefined) => onFiles([...(files ?? [])], common());
  const takeUrl = () => {
    onUrl(url.trim(), common());
    setUrl("");
  };
  return (
    <>
      <label
        class={isOver ? "drop over" : "drop"}
        onDragOver={(event) => { event.preventDefault(); setOver(true); }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => { event.preventDefault(); setOver(false); take(event.dataTransfer?.files); }}
      >
        {isOver ? words.value.dropped : words.value.dropHere}
        <span class="quiet">{words.value.formats}</span>
        <input
          class="hidden"
          type="file"
          multiple
          aria-label={words.value.addDocuments}
          onChange={(event) => { take(event.currentTarget.files); event.currentTarget.value = ""; }}
        />
      </label>
      <form class="tools" onSubmit={(event) => { event.preventDefault(); takeUrl(); }}>
        <label class="quiet" for="from-address">{words.value.fromAddress}</label>
        <input id="from-address" type="url" required pattern="https?://.+" maxLength={2048} placeholder="https://" title={words.value.addressRule} value={url} onInput={(event) => setUrl(event.currentTarget.value)} />
        <button type="submit">{words.value.fetchAddress}</button>
      </form>
      <div class="tools">
        <label class="quiet" for="into">{words.value.intoCollection}</label>
        <input id="into" list="collections" maxLength={128} placeholder={words.value.noCollection} value={into} onInput={(event) => setInto(event.currentTarget.value)} />
        <label class="quiet" for="with-tags">{words.value.withTags}</label>
        <input id="with-tags" placeholder={words.value.tagsBetween} value={tags} onInput={(event) => setTags(event.currentTarget.value)} />
        <datalist id="collections">{collections.value.map((name) => <option key={name} value={name} />)}</datalist>
      </div>
    </>
  );
}

function UploadRow({ upload: { name, bytes, percent, document, error } }: { upload: Upload }) {
  const failed = error ?? document?.error?.message ?? null;
  const state = failed !== null ? "failed" : (document?.status ?? "pending");
  const length = bytes ?? document?.size_bytes;
  return (
    <li>
      <span class="name"><bdi>{nameText(name)}</bdi> {length !== undefined && <span class="quiet">{size(length)}</span>}</span>
      <span class={`state ${state}`}>
        {percent !== null && failed === null ? words.value.uploading(percent) : stateText(state, document?.progress)}
      </span>
      {percent !== null && failed === null && <progress max={100} value={percent} aria-label={name} />}
      {document !== null && failed === null && <Progress document={document} name={name} />}
      {failed !== null && <p class="fault" dir="auto">{failed}</p>}
    </li>
  );
}

interface RowProps {
  document: Document;
  onChange: () => void;
  onTag: (tag: string) => void;
}

const DocumentRow = memo(({ document, onChange, onTag }: RowProps) => {
  const [asks, setAsks] = useState(false);
  const title = nameText(document.title || document.file_name);
  const facts = [
    document.title && document.title !== document.file_name ? nameText(document.file_name) : "",
    document.collection ?? "",
    document.pages === undefined ? "" : words.value.pages(document.pages),
    document.status === "failed" ? "" : words.value.chunks(document.chunks),
    document.created_at === undefined ? "" : day(document.created_at),
  ];
  const remove = async () => {
    if (await attempt(() => client.call("DELETE", `/v1/documents/${document.id}`))) onChange();
  };
  return (
    <li>
      <span class="name">
        <a href={`#/library/${document.id}`}><bdi>{title}</bdi></a>
        <br />
        <span class="quiet"><Facts facts={facts} /></span>
        {document.tags.length > 0 && (
          <span class="tags">
            {document.tags.map((tag) => <button key={tag} type="button" class="tag" aria-label={words.value.onlyTag(nameText(tag))} onClick={() => onTag(tag)}>{nameText(tag)}</button>)}
          </span>
        )}
      </span>
      <span class={`state ${document.status}`}>{stateText(document.status, document.progress)}</span>
      {asks ? (
        <span class="row">
          <span>{words.value.deleteDocument(title)}</span>
          <button type="button" class="danger" onClick={() => void remove()}>{words.value.delete}</button>
          <button type="button" onClick={() => setAsks(false)}>{words.value.cancel}</button>
        </span>
      ) : (
        <span class="row">
          {document.live_version !== null && <button type="button" onClick={() => askOnly(document)}>{words.value.askDocument}</button>}
          <button type="button" class="link" aria-label={`${words.value.delete}: ${title}`} onClick={() => setAsks(true)}>{words.value.delete}</button>
        </span>
      )}
      <Progress document={document} name={title} />
      {document.error !== undefined && <p class="fault" dir="auto">{document.error.message}</p>}
    </li>
  );
});

/** Adds this document to the scope of the next question. */
export function askOnly(document: Document): void {
  const others = chosenDocuments.value.filter((chosen) => chosen.id !== document.id);
  chosenDocuments.value = [...others, { id: document.id, title: nameText(document.title || document.file_name) }];
  go("/");
}

/** Adds this tag to the scope of the next question. */
function askTagged(tag: string): void {
  chosenTags.value = [...new Set([...chosenTags.value, tag])];
  go("/");
}
