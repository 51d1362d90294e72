// Asks with Vercel's AI SDK, disconnects after the first text, and reconnects with `reconnectToStream`; then asks again
// in the same chat. Prints the received data as one line of JSON.
// Run in a folder where `ai` is installed: node ai_sdk_resume.mjs ORIGIN CHAT_ID
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [origin, chatId] = process.argv.slice(2);
const found = createRequire(`${process.cwd()}/`).resolve("ai");
const { DefaultChatTransport, readUIMessageStream } = await import(pathToFileURL(found));

const transport = new DefaultChatTransport({
  api: `${origin}/v1/chat?dialect=ui-message`,
  body: { grace_seconds: 15 },
  prepareReconnectToStreamRequest: ({ id }) => ({ api: `${origin}/v1/chat/${id}/stream` }),
});

function send(text, signal) {
  return transport.sendMessages({
    chatId, trigger: "submit-message", messageId: undefined, abortSignal: signal,
    messages: [{ id: "m-1", role: "user", parts: [{ type: "text", text }] }],
  });
}

async function read(stream) {
  let last;
  for await (const message of readUIMessageStream({ stream })) last = message;
  return last;
}

const control = new AbortController();
const reader = (await send("How much did it grow?", control.signal)).getReader();
let first = "";
while (first === "") {
  const { value } = await reader.read();
  if (value.type === "text-delta") first = value.delta;
}
control.abort();
console.log("left"); // the parent process lets the answer continue
const resumed = await read(await transport.reconnectToStream({ chatId }));
const after = await transport.reconnectToStream({ chatId });
const second = await read(await send("And before?"));
console.log(JSON.stringify({ first, resumed, after, second }));
