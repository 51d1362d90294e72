// Calls to the HTTP API: JSON, chats as streams, and the API's errors.
import { readFrames } from "./sse.ts";
import type { CallerInfo, ChatEvent, ChatRequest, Problem } from "./types.ts";

/** A rejected field: its name and the expected value. */
export interface WrongField {
  readonly field: string;
  readonly message: string;
}

/** The details of an error response besides status, reason and message. */
export interface ErrorDetails {
  errors?: readonly WrongField[];
  requestId?: string;
  retryAfter?: number | null;
}

/** An error response, or a stream that failed. `reason` is for programs, `message` for people. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The rejected fields. */
  readonly errors: readonly WrongField[];
  /** The server's id of the request, for its logs; "" if it sent none. */
  readonly requestId: string;
  /** Seconds to wait before retrying; null if the server didn't specify it. */
  readonly retryAfter: number | null;

  constructor(
    /** The HTTP status; 0 for a stream that failed. */
    readonly status: number,
    /** A stable code in upper case; "" if the response isn't the API's. */
    readonly reason: string,
    message: string,
    details: ErrorDetails = {},
  ) {
    super(message);
    this.errors = details.errors ?? [];
    this.requestId = details.requestId ?? "";
    this.retryAfter = details.retryAfter ?? null;
  }
}

export interface ClientOptions {
  /** The URL of the API; "" is the page's own origin. */
  baseUrl?: string;
  /** An API key or token, requested before each call; none if a cookie identifies the caller. */
  bearer?: () => string | null;
  /** Called for frames that can't be read; the stream continues. */
  onMalformedFrame?: (data: string) => void;
  fetch?: typeof fetch;
}

/** A session is refreshed before a stream if it was last checked longer ago than this. */
const FRESH_MS = 25_000;
const AGAIN_MS = 1000;
const MAX_TRIES = 5;
const CHAT_EVENTS = new Set<string>([
  "conversation", "step", "decision", "citations", "token", "tool_call", "citation", "uncited", "sources", "assessment",
  "usage", "error", "done",
] satisfies ChatEvent["event"][]);

export class CitewireClient {
  readonly #base: string;
  readonly #fetch: typeof fetch;
  #freshAt = 0;
  #hasSession = false;

  constructor(private readonly options: ClientOptions = {}) {
    this.#base = options.baseUrl ?? "";
    this.#fetch = options.fetch ?? fetch.bind(globalThis);
  }

  /** Returns the caller. Later streams keep a browser's session fresh. */
  async caller(): Promise<CallerInfo> {
    return this.#seen(await this.call<CallerInfo>("GET", "/v1/auth/session"));
  }

  /** Sends a request and returns the response's JSON, or undefined if it has none. */
  async call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.send(method, path, body, signal);
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Sends a request and returns the response; throws an `ApiError` if it isn't successful. */
  async send(
    method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {},
  ): Promise<Response> {
    const headers = new Headers({ ...this.authorization(), ...more });
    const isForm = body instanceof FormData;
    if (body !== undefined && !isForm) headers.set("Content-Type", "application/json");
    const response = await this.#fetch(this.#base + path, {
      method,
      headers,
      body: body === undefined ? null : isForm ? body : JSON.stringify(body),
      signal: signal ?? null,
    });
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  /** The header that identifies the caller, besides the browser's cookie. */
  authorization(): Record<string, string> {
    const bearer = this.options.bearer?.() ?? null;
    return bearer === null ? {} : { Authorization: `Bearer ${bearer}` };
  }

  /**
   * Asks a question and yields the events of the answer. Leaving the loop, or the signal, stops it at the provider; with
   * `grace_seconds` or `detach` it can be resumed for a while, which this method does by itself if the network fails.
   * `onRun` receives the run's id. The request is sent before the first `next()` returns, unless a session must be refreshed.
   */
  async *chat(request: ChatRequest, signal?: AbortSignal, onRun?: (run: string) => void): AsyncGenerator<ChatEvent> {
    if (this.#mayEnd()) await this.#freshen();
    const response = await this.send("POST", "/v1/chat", request, signal);
    const run = response.headers.get("Citewire-Run");
    if (run !== null) onRun?.(run);
    yield* this.#follow(response, request.grace_seconds || request.detach ? run : null, 0, signal);
  }

  /** Yields the events of a run after the one with that number. */
  async *resume(run: string, after = 0, signal?: AbortSignal): AsyncGenerator<ChatEvent> {
    if (this.#mayEnd()) await this.#freshen();
    yield* this.#follow(await this.#rest(run, after, signal), run, after, signal);
  }

  /** Stops a run for all its readers. */
  async cancel(run: string): Promise<void> {
    await this.call("POST", `/v1/chat/${run}/cancel`);
  }

  #rest(run: string, after: number, signal?: AbortSignal): Promise<Response> {
    const more = after > 0 ? { "Last-Event-ID": String(after) } : {};
    return this.send("GET", `/v1/chat/${run}/events`, undefined, signal, more);
  }

  async *#follow(
    response: Response, run: string | null, after: number, signal: AbortSignal | undefined,
  ): AsyncGenerator<ChatEvent> {
    let next: Response | null = response;
    for (let last = after, tries = 0; ; next = null) {
      try {
        if (next === null && this.#mayEnd()) await this.#freshen();
        const { body } = next ?? (await this.#rest(run!, last, signal));
        if (body === null) throw cut();
        for await (const frame of readFrames(body)) {
          const event = this.#event(frame.event ?? "message", frame.id, frame.data);
          if (event === null) continue;
          [last, tries] = [event.id, 0];
          yield event;
          if (event.event === "done") return;
        }
      } catch (error) {
        if (run === null || signal?.aborted || isRefused(error)) throw error;
      }
      if (run === null || ++tries > MAX_TRIES) throw cut();
      await new Promise((wake) => setTimeout(wake, AGAIN_MS));
    }
  }

  #event(name: string, id: string | undefined, data: string): ChatEvent | null {
    if (!CHAT_EVENTS.has(name)) return null; // from a later release
    try {
      const value: unknown = JSON.parse(data);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) {
        return { event: name, id: Number(id ?? 0), data: value } as ChatEvent;
      }
    } catch {
      // reported below
    }
    this.options.onMalformedFrame?.(data);
    return null;
  }

  /** Whether a session should be refreshed, so that a question isn't sent only to be rejected. */
  #mayEnd(): boolean {
    return this.#hasSession && Date.now() >= this.#freshAt;
  }

  async #freshen(): Promise<void> {
    this.#seen(await this.call<CallerInfo>("POST", "/v1/auth/refresh"));
  }

  #seen(caller: CallerInfo): CallerInfo {
    this.#hasSession = caller.kind === "session";
    const ends = caller.expires_at === null ? Infinity : Date.parse(caller.expires_at) - FRESH_MS;
    this.#freshAt = Math.min(Date.now() + FRESH_MS, ends);
    return caller;
  }
}

/** The error for a response; if it isn't the API's, it has only the status. */
export async function errorOf(response: Response): Promise<ApiError> {
  const after = Number(response.headers.get("Retry-After") ?? NaN);
  const details: ErrorDetails = {
    requestId: response.headers.get("X-Request-Id") ?? "", retryAfter: Number.isNaN(after) ? null : after,
  };
  try {
    const problem = (await response.json()) as Partial<Problem>;
    if (typeof problem.detail === "string") {
      const errors = Array.isArray(problem.errors) ? problem.errors : [];
      const requestId = details.requestId || (problem.request_id ?? "");
      return new ApiError(response.status, problem.reason ?? "", problem.detail, { ...details, errors, requestId });
    }
  } catch {
    // an error page of a proxy
  }
  return new ApiError(response.status, "", `${response.status} ${response.statusText}`.trim(), details);
}

/** Whether the server answered and would give the same answer again. */
function isRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
}

function cut(): ApiError {
  return new ApiError(0, "STREAM_CUT", "the answer was cut off");
}
