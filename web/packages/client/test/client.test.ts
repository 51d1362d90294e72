import { expect, test, vi } from "vitest";

import { ApiError, type ChatEvent, CitewireClient, readFrames } from "../src/index";

const encoder = new TextEncoder();

function body(pieces: Uint8Array[], onCancel?: () => void): ReadableStream<Uint8Array> {
  const rest = [...pieces];
  return new ReadableStream({
    pull(controller) {
      const piece = rest.shift();
      if (piece === undefined) controller.close();
      else controller.enqueue(piece);
    },
    ...(onCancel && { cancel: onCancel }),
  });
}

const STREAM = [
  ": heartbeat", "", "event: token", "id: 1", 'data: {"text": "Größe ☕ 😀 [ref:1]"}', "",
  "event: token", 'data: {"text":', 'data: "two lines"}', "", "event: done", "id: 3", "data: {}", "", "",
];

/** A server with scripted responses, and the requests it received. */
function server(answers: (() => Response)[]): { fetch: typeof fetch; asked: { url: string; init: RequestInit }[] } {
  const asked: { url: string; init: RequestInit }[] = [];
  const answer = async (url: unknown, init?: RequestInit) => {
    asked.push({ url: String(url), init: init ?? {} });
    const next = answers.shift();
    if (next === undefined) throw new Error(`nobody expected ${String(url)}`);
    return next();
  };
  return { fetch: answer as typeof fetch, asked };
}

async function events(client: CitewireClient): Promise<ChatEvent[]> {
  const seen: ChatEvent[] = [];
  for await (const event of client.chat({ question: "q" })) seen.push(event);
  return seen;
}

test.each(["\n", "\r\n", "\r"])("frames are the same wherever the network cuts them, lines ending in %j", async (end) => {
  const bytes = encoder.encode(STREAM.join(end));
  const whole = [];
  for await (const frame of readFrames(body([bytes]))) whole.push(frame);
  expect(whole.map((frame) => frame.event)).toEqual(["token", "token", "done"]);
  expect(JSON.parse(whole[0]!.data)).toEqual({ text: "Größe ☕ 😀 [ref:1]" });
  expect(JSON.parse(whole[1]!.data)).toEqual({ text: "two lines" });
  for (let at = 0; at <= bytes.length; at++) {
    const frames = [];
    for await (const frame of readFrames(body([bytes.slice(0, at), bytes.slice(at)]))) frames.push(frame);
    expect(frames).toEqual(whole);
  }
  const single = [];
  for await (const frame of readFrames(body([...bytes].map((byte) => Uint8Array.of(byte))))) single.push(frame);
  expect(single).toEqual(whole);
});

test("a question is on its way before anything is waited for", () => {
  const { fetch, asked } = server([() => new Response(body([]))]);
  void new CitewireClient({ fetch }).chat({ question: "q" }).next().catch(() => undefined);
  expect(asked.map(({ url }) => url)).toEqual(["/v1/chat"]);
});

test("leaving the loop cancels the body", async () => {
  let cancelled = false;
  const pieces = [encoder.encode(STREAM.join("\n")), encoder.encode("event: token\n")];
  for await (const _ of readFrames(body(pieces, () => (cancelled = true)))) break;
  expect(cancelled).toBe(true);
});

test("malformed and unknown frames are passed over", async () => {
  const stream = [
    "event: token\ndata: {broken\n\n", "event: token\ndata: [1]\n\n", "event: token\ndata: null\n\n", "no colon here\n\n",
    "event: later\ndata: {}\n\n", 'event: token\ndata: {"text": "whole"}\n\n', "event: done\ndata: {}\n\n",
  ].join("");
  const malformed: string[] = [];
  const { fetch } = server([() => new Response(stream)]);
  const client = new CitewireClient({ fetch, onMalformedFrame: (data) => malformed.push(data) });
  expect((await events(client)).map((event) => event.event)).toEqual(["token", "done"]);
  expect(malformed).toEqual(["{broken", "[1]", "null"]);
});

test("a stream that ends without `done` is an error", async () => {
  const { fetch } = server([() => new Response('event: token\ndata: {"text": "half"}\n\n')]);
  await expect(events(new CitewireClient({ fetch }))).rejects.toMatchObject({ reason: "STREAM_CUT" });
});

test("an error response gives its message", async () => {
  const problem = { detail: "top_k: must be between 1 and 30", reason: "INVALID_FIELD" };
  const { fetch } = server([
    () => Response.json(problem, { status: 422 }),
    () => new Response("<html>bad gateway", { status: 502, statusText: "Bad Gateway" }),
  ]);
  const client = new CitewireClient({ fetch });
  await expect(events(client)).rejects.toEqual(new ApiError(422, "INVALID_FIELD", problem.detail));
  await expect(events(client)).rejects.toMatchObject({ status: 502, message: "502 Bad Gateway" });
});

test("a session about to end is refreshed before a stream; one that is over sends no question", async () => {
  const soon = new Date(Date.now() + 5_000).toISOString();
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const done = () => new Response("event: done\ndata: {}\n\n");
  const { fetch, asked } = server([
    () => Response.json({ kind: "session", expires_at: soon }),
    () => Response.json({ kind: "session", expires_at: later }),
    done,
    done,
  ]);
  const client = new CitewireClient({ fetch });
  await client.caller();
  await events(client);
  await events(client);
  expect(asked.map((call) => call.url)).toEqual(["/v1/auth/session", "/v1/auth/refresh", "/v1/chat", "/v1/chat"]);

  const over = server([
    () => Response.json({ kind: "session", expires_at: soon }),
    () => Response.json({ detail: "the session is over", reason: "SESSION_EXPIRED" }, { status: 401 }),
  ]);
  const late = new CitewireClient({ fetch: over.fetch });
  await late.caller();
  await expect(events(late)).rejects.toMatchObject({ status: 401 });
  expect(over.asked.at(-1)?.url).toBe("/v1/auth/refresh");
});

test("a key goes with every call, and isn't refreshed", async () => {
  const { fetch, asked } = server([
    () => Response.json({ kind: "key", expires_at: null }),
    () => new Response("event: done\ndata: {}\n\n"),
  ]);
  const client = new CitewireClient({ fetch, bearer: () => "cw_key" });
  await client.caller();
  await events(client);
  expect(asked.map((call) => new Headers(call.init.headers).get("Authorization"))).toEqual(["Bearer cw_key", "Bearer cw_key"]);
});

test("an answer whose stream breaks goes on after its last frame", async () => {
  const broken = () => {
    let sent = false;
    const cut = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent) return controller.error(new TypeError("network error"));
        sent = true;
        controller.enqueue(encoder.encode('event: token\nid: 2\ndata: {"text": "one "}\n\n'));
      },
    });
    return new Response(cut, { headers: { "Citewire-Run": "run-1" } });
  };
  const rest = 'event: token\nid: 3\ndata: {"text": "two"}\n\nevent: done\nid: 4\ndata: {}\n\n';
  const { fetch, asked } = server([broken, () => new Response(rest), () => Response.json({ run_id: "run-1", state: "done" })]);
  const client = new CitewireClient({ fetch, bearer: () => "cw_key" });
  const seen: ChatEvent[] = [];
  const runs: string[] = [];
  for await (const event of client.chat({ question: "q", grace_seconds: 15 }, undefined, (run) => runs.push(run))) seen.push(event);
  expect(seen.map((event) => event.id)).toEqual([2, 3, 4]);
  expect(runs).toEqual(["run-1"]);
  expect(asked[1]!.url).toBe("/v1/chat/run-1/events");
  const headers = new Headers(asked[1]!.init.headers);
  expect([headers.get("Last-Event-ID"), headers.get("Authorization")]).toEqual(["2", "Bearer cw_key"]);
  await client.cancel("run-1");
  expect([asked[2]!.init.method, asked[2]!.url]).toEqual(["POST", "/v1/chat/run-1/cancel"]);

  const without = server([broken]);
  await expect(events(new CitewireClient({ fetch: without.fetch }))).rejects.toMatchObject({ message: "network error" });
});

test("a server that can't be reached for a while is asked again; one that refuses isn't", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 500 });
  const half = () => new Response('event: token\nid: 1\ndata: {"text": "half"}\n\n', { headers: { "Citewire-Run": "r1" } });
  const away = () => {
    throw new TypeError("fetch failed");
  };
  const rest = () => new Response('event: token\nid: 2\ndata: {"text": " and half"}\n\nevent: done\nid: 3\ndata: {}\n\n');
  const { fetch, asked } = server([half, away, () => new Response("", { status: 503 }), away, rest]);
  const seen = [];
  for await (const event of new CitewireClient({ fetch }).chat({ question: "q", grace_seconds: 15 })) seen.push(event.id);
  expect(seen).toEqual([1, 2, 3]);
  expect(asked).toHaveLength(5);

  const gone = server([half, () => Response.json({ detail: "there is no run r1", reason: "RUN_NOT_FOUND" }, { status: 404 })]);
  const reading = async () => {
    for await (const _ of new CitewireClient({ fetch: gone.fetch }).chat({ question: "q", grace_seconds: 15 }));
  };
  await expect(reading()).rejects.toMatchObject({ reason: "RUN_NOT_FOUND" });
  vi.useRealTimers();
});

test("a session is refreshed before a stream is read on", async () => {
  const session = { kind: "session", user: "ada", org: "acme", expires_at: new Date(Date.now() + 1000).toISOString() };
  const half = new Response('event: token\nid: 1\ndata: {"text": "half"}\n\n', { headers: { "Citewire-Run": "r1" } });
  const rest = new Response('event: token\nid: 2\ndata: {"text": " and half"}\n\nevent: done\nid: 3\ndata: {}\n\n');
  const { fetch, asked } = server([
    () => Response.json(session), () => Response.json(session), () => half, () => Response.json(session), () => rest,
  ]);
  const client = new CitewireClient({ fetch });
  await client.caller();
  const seen = [];
  for await (const event of client.chat({ question: "q", grace_seconds: 15 })) seen.push(event.id);
  expect(seen).toEqual([1, 2, 3]);
  expect(asked.map(({ url }) => url)).toEqual([
    "/v1/auth/session", "/v1/auth/refresh", "/v1/chat", "/v1/auth/refresh", "/v1/chat/r1/events",
  ]);
});
