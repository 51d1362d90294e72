// The client for programs: every route with its types, lists page by page, uploads with progress, and retries.
import { CitewireClient, type ClientOptions, errorOf } from "./client.ts";
import { isRepeatable, type Retries, tried } from "./retries.ts";
import type { paths } from "./schema.d.ts";
import type { Document } from "./types.ts";

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathOf<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Parameters<O, Place extends "path" | "query"> =
  O extends { parameters: { [K in Place]?: infer V } } ? Exclude<V, undefined> : never;
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
type Body<O> = O extends { requestBody?: infer R } ? Json<Exclude<R, undefined>> : never;
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never;
type Entries<T> = { [K in keyof T]: T[K] extends readonly (infer E)[] ? E : never }[keyof T];

/** The arguments of a call: path parameters, query and body. */
export interface CallOptions<O> {
  path?: Parameters<O, "path">;
  query?: Parameters<O, "query">;
  body?: Partial<Body<O>>;
  /** Lets the server recognise a repeated request, so that it may be retried. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export interface CitewireOptions extends ClientOptions {
  /** Number of retries for requests that are safe to repeat; 2 by default. */
  retries?: number;
  wait?: Retries["wait"];
}

export interface UploadOptions {
  /** With its extension, which determines the file's type; a `File` has a name. */
  fileName?: string;
  collection?: string;
  tags?: string[];
  /** Other fields of the form, such as `valid_until`. */
  fields?: Record<string, string>;
  /** Called with the number of bytes sent and the total; starts over if the upload is retried. */
  onProgress?: (sent: number, total: number) => void;
  /** Generated if absent, so that a retried upload is stored only once. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/** An uploaded document. */
export type Stored = Answer<Operation<"/v1/documents", "post">>;

const FINISHED = new Set(["ready", "failed"]);
const LONGEST_PAUSE_MS = 2_000;

export class Citewire extends CitewireClient {
  readonly #base: string;
  readonly #plain: typeof fetch;
  readonly #retries: Retries;

  constructor(options: CitewireOptions = {}) {
    const plain = options.fetch ?? fetch.bind(globalThis);
    const wait = options.wait ?? ((ms: number) => new Promise<void>((wake) => setTimeout(wake, ms)));
    const retries = { many: options.retries ?? 2, wait };
    const again = (input: RequestInfo | URL, init: RequestInit = {}) =>
      isRepeatable(init) ? tried(() => plain(input, init), retries, init.signal) : plain(input, init);
    super({ ...options, fetch: again as typeof fetch });
    this.#base = options.baseUrl ?? "";
    this.#plain = plain;
    this.#retries = retries;
  }

  /** Calls a route; parameters, body and response have the types from the API's document. */
  async request<M extends Method, P extends PathOf<M>>(
    method: M, path: P, options: CallOptions<Operation<P, M>> = {},
  ): Promise<Answer<Operation<P, M>>> {
    const more: Record<string, string> = options.idempotencyKey ? { "Idempotency-Key": options.idempotencyKey } : {};
    const response = await this.send(
      method.toUpperCase(), addressOf(path, options.path as object | undefined, options.query as object | undefined), options.body,
      options.signal, more,
    );
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as Answer<Operation<P, M>>;
  }

  /** Yields the entries of a list and requests further pages as needed: `client.list("/v1/documents", "documents")`. */
  async *list<P extends PathOf<"get">, K extends string & keyof Answer<Operation<P, "get">>>(
    path: P, member: K, options: CallOptions<Operation<P, "get">> = {},
  ): AsyncGenerator<Entries<Pick<Answer<Operation<P, "get">>, K>>> {
    for (let token = ""; ; ) {
      const query = { ...(options.query as object), ...(token && { page_token: token }) };
      const page = (await this.call("GET", addressOf(path, options.path as object | undefined, query), undefined, options.signal)) as
        Record<string, unknown>;
      yield* page[member] as Entries<Pick<Answer<Operation<P, "get">>, K>>[];
      token = String(page["next_page_token"] ?? "");
      if (token === "") return;
    }
  }

  /** Uploads a file. In browsers and in Node it reports progress, and retries use the same key. */
  async upload(file: Blob, options: UploadOptions = {}): Promise<Stored> {
    const name = options.fileName ?? (file instanceof File ? file.name : "");
    if (name === "") throw new TypeError("fileName is required: its extension determines the file's type");
    const headers = { ...this.authorization(), "Idempotency-Key": options.idempotencyKey ?? crypto.randomUUID() };
    const send = (): Promise<Response> => {
      const form = new FormData();
      for (const [field, value] of Object.entries(options.fields ?? {})) form.set(field, value);
      if (options.collection !== undefined) form.set("collection", options.collection);
      if (options.tags !== undefined) form.set("tags", JSON.stringify(options.tags));
      form.set("file", file, name);
      return this.#post(form, headers, options);
    };
    const response = await tried(send, this.#retries, options.signal);
    if (!response.ok) throw await errorOf(response);
    return (await response.json()) as Stored;
  }

  /** Waits until a document is `ready` or `failed`, and returns it; `signal` ends the wait. */
  async waitForDocument(id: number, signal?: AbortSignal): Promise<Document> {
    for (let pause = 100; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      const document = await this.call<Document>("GET", `/v1/documents/${id}`, undefined, signal);
      if (FINISHED.has(document.status)) return document;
      await this.#retries.wait(pause);
      signal?.throwIfAborted();
    }
  }

  #post(form: FormData, headers: Record<string, string>, options: UploadOptions): Promise<Response> {
    const url = `${this.#base}/v1/documents`;
    const signal = options.signal ?? null;
    if (options.onProgress === undefined) return this.#plain(url, { method: "POST", headers, body: form, signal });
    if (typeof XMLHttpRequest === "function") return byRequest(url, form, headers, options.onProgress, signal);
    return measured(this.#plain, url, form, headers, options.onProgress, signal);
  }
}

/** Reports how much of the body has been sent, which a browser's fetch doesn't. */
function byRequest(
  url: string, form: FormData, headers: Record<string, string>, onProgress: (sent: number, total: number) => void,
  signal: AbortSignal | null,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    request.onerror = () => reject(new TypeError("the upload didn't reach the server"));
    request.onabort = () => reject(signal?.reason ?? new DOMException("The upload was aborted", "AbortError"));
    request.onload = () => {
      const more: Record<string, string> = {};
      for (const name of ["Retry-After", "X-Request-Id"]) {
        const value = request.getResponseHeader(name);
        if (value !== null) more[name] = value;
      }
      resolve(new Response(request.responseText, { status: request.status, statusText: request.statusText, headers: more }));
    };
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    if (signal?.aborted) request.abort();
    else request.send(form);
  });
}

/** Node sends a body as a stream, whose bytes are counted. */
async function measured(
  plain: typeof fetch, url: string, form: FormData, headers: Record<string, string>,
  onProgress: (sent: number, total: number) => void, signal: AbortSignal | null,
): Promise<Response> {
  const whole = new Response(form);
  const file = form.get("file") as File;
  const frame = new FormData(); // the rest of the form has the same length without the file
  for (const [name, value] of form) {
    if (value instanceof File) frame.set(name, new Blob([], { type: value.type }), value.name);
    else frame.set(name, value);
  }
  const total = (await new Response(frame).arrayBuffer()).byteLength + file.size;
  let sent = 0;
  const counted = whole.body!.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        sent += piece.byteLength;
        onProgress(sent, total);
        controller.enqueue(piece);
      },
    }),
  );
  const type = whole.headers.get("Content-Type") ?? "";
  const init = { method: "POST", headers: { ...headers, "Content-Type": type }, body: counted, signal, duplex: "half" };
  return plain(url, init as RequestInit);
}

/** Fills in a route's parameters; rejects a value that would change the path. */
function addressOf(path: string, parameters: object | undefined, query: object | undefined): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String((parameters as Record<string, unknown> | undefined)?.[name] ?? "");
    if (["", ".", ".."].includes(value)) throw new TypeError(`${name} must not be ${JSON.stringify(value)}`);
    return encodeURIComponent(value);
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) search.append(name, String(each));
    }
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}
