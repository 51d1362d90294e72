// Files being added to the library, uploaded or by URL: each with its progress, and the reason if it fails.
import type { Document } from "@citewire/client";
import { signal } from "@preact/signals";

import { client } from "../state";
import { words } from "../words";
import { isFinished, LOOK_MS } from "./progress";

export interface Upload {
  key: number;
  name: string;
  /** Null while only the server knows: it fetches the file. */
  bytes: number | null;
  /** Percentage sent; null once the server has the whole file. */
  percent: number | null;
  document: Document | null;
  error: string | null;
}

/** Number of files sent at once; the rest wait. */
const AT_ONCE = 2;

export const uploads = signal<Upload[]>([]);
let lastKey = 0;
let sending = 0;
const waiting: (() => Promise<void>)[] = [];

/** Common to all files of an upload: a collection ("" for none) and tags. */
export interface Into {
  collection: string;
  tags: string[];
}

/** Sends files; `onReady` is called whenever one has been processed. */
export function upload(files: Iterable<File>, into: Into, onReady: () => void): void {
  for (const file of files) {
    queue({ name: file.name, bytes: file.size, percent: 0 }, (key) => send(key, file, into), onReady);
  }
}

/** Has the server fetch the file from a URL. */
export function uploadFrom(url: string, into: Into, onReady: () => void): void {
  const body = { url, ...(into.collection !== "" && { collection: into.collection }), ...(into.tags.length > 0 && { tags: into.tags }) };
  queue({ name: url, bytes: null, percent: null }, () => client.call<Document>("POST", "/v1/documents", body), onReady);
}

function queue(from: Pick<Upload, "name" | "bytes" | "percent">, store: (key: number) => Promise<Document>, onReady: () => void): void {
  const key = ++lastKey;
  uploads.value = [{ key, ...from, document: null, error: null }, ...uploads.value];
  waiting.push(() => follow(key, store).then(onReady));
  next();
}

function next(): void {
  while (sending < AT_ONCE && waiting.length > 0) {
    sending++;
    void waiting.shift()!().finally(() => {
      sending--;
      next();
    });
  }
}

function change(key: number, changes: Partial<Upload>): void {
  uploads.value = uploads.value.map((entry) => (entry.key === key ? { ...entry, ...changes } : entry));
}

/** Stores a file and watches it until it is processed. */
async function follow(key: number, store: (key: number) => Promise<Document>): Promise<void> {
  try {
    const stored = await store(key);
    change(key, { percent: null, document: stored });
    await watch(key, stored.id);
  } catch (error) {
    change(key, { error: error instanceof TypeError ? words.value.offline : (error as Error).message });
  }
}

function send(key: number, file: File, into: Into): Promise<Document> {
  const form = new FormData();
  if (into.collection !== "") form.set("collection", into.collection);
  if (into.tags.length > 0) form.set("tags", JSON.stringify(into.tags));
  form.set("file", file);
  return post(form, (percent) => change(key, { percent }));
}

/** Reports how much of the body has been sent, which a fetch doesn't. */
function post(form: FormData, onProgress: (percent: number) => void): Promise<Document> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/v1/documents");
    for (const [name, value] of Object.entries(client.authorization())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(Math.floor((100 * event.loaded) / Math.max(1, event.total)));
    request.onerror = () => reject(new Error(words.value.offline));
    request.onload = () => {
      try {
        const body = JSON.parse(request.responseText) as Document & { detail?: string };
        if (request.status < 300) resolve(body);
        else reject(new Error(body.detail ?? `${request.status} ${request.statusText}`));
      } catch {
        reject(new Error(`${request.status} ${request.statusText}`));
      }
    };
    request.send(form);
  });
}

async function watch(key: number, id: number): Promise<void> {
  for (;;) {
    const document = await client.call<Document>("GET", `/v1/documents/${id}`);
    change(key, { document });
    if (isFinished(document)) return;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
