// Retries of requests that are safe to repeat, in browsers and in Node.

const RETRIED = new Set([429, 502, 503, 504]);
const FIRST_WAIT_MS = 500;
const LONGEST_BACKOFF_MS = 8_000;
const LONGEST_WAIT_MS = 60_000;

/** The number of retries and the pauses before them. */
export interface Retries {
  /** Number of retries after the first try. */
  many: number;
  wait: (ms: number) => Promise<void>;
}

/**
 * Sends a request until it gets a response that shouldn't be retried, or until the tries are used up; then it returns or throws the
 * last result. If a server asks for more than a minute, it doesn't wait.
 */
export async function tried(
  send: () => Promise<Response>, { many, wait }: Retries, signal?: AbortSignal | null,
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    let response: Response | null = null;
    try {
      response = await send();
      if (!RETRIED.has(response.status) || attempt > many) return response;
    } catch (error) {
      if (signal?.aborted || attempt > many) throw error;
    }
    const asked = Number(response?.headers.get("Retry-After") ?? NaN) * 1000;
    if (asked > LONGEST_WAIT_MS && response !== null) return response;
    await response?.body?.cancel();
    const backoff = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_BACKOFF_MS) * (0.5 + Math.random() / 2);
    await wait(Number.isNaN(asked) ? backoff : asked);
    signal?.throwIfAborted();
  }
}

/** Whether a request may be repeated: it only reads or has a key that the server recognises, and its body can be sent again. */
export function isRepeatable(init: RequestInit): boolean {
  const isRead = ["GET", "HEAD"].includes((init.method ?? "GET").toUpperCase());
  return (isRead || new Headers(init.headers).has("Idempotency-Key")) && !(init.body instanceof ReadableStream);
}
