import { expect, test } from "vitest";

import { ApiError, Citewire, type CitewireOptions } from "../src/index";

interface Asked {
  url: string;
  init: RequestInit;
  body: string;
}

/** A server with scripted responses, a client for it that never waits, and the received requests. */
function server(answers: (() => Response)[], options: CitewireOptions = {}) {
  const asked: Asked[] = [];
  const waits: number[] = [];
  const answer = async (url: unknown, init: RequestInit = {}) => {
    asked.push({ url: String(url), init, body: init.body ? await new Response(init.body).text() : "" });
    const next = answers.shift();
    if (next === undefined) throw new Error(`nobody expected ${String(url)}`);
    return next();
  };
  const wait = async (ms: number) => void waits.push(ms);
  return { client: new Citewire({ baseUrl: "http://x", fetch: answer as typeof fetch, wait, ...options }), asked, waits };
}

const busy = (after?: string) => () =>
  Response.json({ detail: "busy", reason: "OVERLOADED" }, { status: 503, headers: after ? { "Retry-After": after } : {} });

test("a list asks for the next page when it is needed", async () => {
  const { client, asked } = server([
    () => Response.json({ documents: [{ id: 3 }, { id: 2 }], next_page_token: "a/b" }),
    () => Response.json({ documents: [{ id: 1 }], next_page_token: "" }),
  ]);
  const ids: number[] = [];
  for await (const document of client.list("/v1/documents", "documents", { query: { collection: "a b" } })) {
    if (ids.length === 1) expect(asked.length).toBe(1);
    ids.push(document.id);
  }
  expect(ids).toEqual([3, 2, 1]);
  expect(asked.map(({ url }) => url)).toEqual([
    "http://x/v1/documents?collection=a+b", "http://x/v1/documents?collection=a+b&page_token=a%2Fb",
  ]);
});

test("reads are tried again, after as long as the server says", async () => {
  const { client, waits } = server([
    busy("3"), () => { throw new TypeError("fetch failed"); }, () => Response.json({ id: 7, title: "t" }),
  ]);
  const document = await client.request("get", "/v1/documents/{document_id}", { path: { document_id: "7" } });
  expect(document.title).toBe("t");
  expect(waits[0]).toBe(3000);
  expect(waits.length).toBe(2);
});

test("a change without a key is sent once, one with a key again", async () => {
  const body = { name: "n", role: "reader" } as const;
  const once = server([busy()]);
  await expect(once.client.request("post", "/v1/keys", { body })).rejects.toBeInstanceOf(ApiError);
  expect(once.asked.length).toBe(1);
  const again = server([busy(), busy(), () => Response.json({}, { status: 201 })]);
  await again.client.request("post", "/v1/keys", { body, idempotencyKey: "k" });
  expect(again.asked.map(({ init }) => new Headers(init.headers).get("Idempotency-Key"))).toEqual(["k", "k", "k"]);
  const never = server([busy("3600")]);
  await expect(never.client.call("GET", "/v1/limits")).rejects.toMatchObject({ status: 503 });
  expect(never.waits).toEqual([]);
});

test("an upload says how far it is, and is sent again whole under one key", async () => {
  const { client, asked } = server([busy(), () => Response.json({ id: 7, status: "queued" }, { status: 202 })]);
  const told: [number, number][] = [];
  const file = new File(["words ".repeat(50_000)], "long.txt", { type: "text/plain" });
  const stored = await client.upload(file, {
    collection: "c", tags: ["a", "b"], onProgress: (sent, total) => told.push([sent, total]),
  });
  expect(stored).toMatchObject({ id: 7 });
  const [first, second] = asked.map(({ init }) => new Headers(init.headers).get("Idempotency-Key"));
  expect(first).toBe(second);
  expect(first).toMatch(/^[0-9a-f-]{36}$/);
  for (const { body, init } of asked) {
    expect(new Headers(init.headers).get("Content-Type")).toContain("multipart/form-data; boundary=");
    expect(body).toContain('filename="long.txt"');
    expect(body).toContain('["a","b"]');
    expect(body.length).toBeGreaterThan(300_000);
  }
  const [sent, total] = told.at(-1)!;
  expect(sent).toBe(total);
  expect(total).toBe(asked[1]!.body.length);
  expect(told.filter(([part, whole]) => part === whole).length).toBe(2);
  await expect(client.upload(new Blob(["x"]))).rejects.toThrow("fileName");
});

test("a document is waited for, as long as the signal allows", async () => {
  const states = ["queued", "embedding", "ready"];
  const { client } = server(states.map((status) => () => Response.json({ id: 7, status })));
  expect((await client.waitForDocument(7)).status).toBe("ready");
  const gone = server([() => Response.json({ id: 7, status: "queued" })]);
  await expect(gone.client.waitForDocument(7, AbortSignal.abort())).rejects.toMatchObject({ name: "AbortError" });
});

test.each(["", ".", ".."])("no value reaches another path: %j", async (name) => {
  const { client, asked } = server([]);
  const path = { collection: name, name };
  await expect(client.request("delete", "/v1/collections/{name}", { path })).rejects.toThrow("must not be");
  expect(asked).toEqual([]);
});

test("an error says which fields were refused, which request it was, and when to try again", async () => {
  const problem = {
    detail: "name: must not be empty", reason: "INVALID_FIELD", request_id: "r-1",
    errors: [{ field: "name", message: "must not be empty" }],
  };
  const headers = { "X-Request-Id": "r-1", "Retry-After": "7" };
  const { client } = server([
    () => Response.json(problem, { status: 422, headers }),
    () => Response.json(problem, { status: 422 }),
    () => new Response("<html>", { status: 502, headers: { "X-Request-Id": "r-2" } }),
  ], { retries: 0 });
  const failed = () => client.request("get", "/v1/limits").catch((error: unknown) => error);
  const first = await failed();
  if (!(first instanceof ApiError)) throw new Error("it must be an ApiError");
  expect([first.name, first.status, first.reason, first.message]).toEqual(["ApiError", 422, "INVALID_FIELD", problem.detail]);
  expect(first.errors.map(({ field, message }) => [field, message])).toEqual([["name", "must not be empty"]]);
  expect([first.requestId, first.retryAfter]).toEqual(["r-1", 7]);
  expect(await failed()).toMatchObject({ requestId: "r-1", retryAfter: null });
  expect(await failed()).toMatchObject({ status: 502, reason: "", errors: [], requestId: "r-2" });
});
