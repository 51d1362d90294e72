// Sends a question with Vercel's AI SDK and prints the message that it builds from the answer, as one line of JSON.
// Run in a folder where `ai` is installed: node ai_sdk_client.mjs URL QUESTION [FILE_URL MEDIA_TYPE]
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, question, fileUrl, mediaType] = process.argv.slice(2);
const files = fileUrl === undefined ? [] : [{ type: "file", url: fileUrl, mediaType, filename: "picture" }];
const found = createRequire(`${process.cwd()}/`).resolve("ai");
const { DefaultChatTransport, readUIMessageStream } = await import(pathToFileURL(found));

const transport = new DefaultChatTransport({ api: url });
const stream = await transport.sendMessages({
  chatId: "chat-1",
  trigger: "submit-message",
  messageId: undefined,
  abortSignal: undefined,
  messages: [{ id: "m-1", role: "user", parts: [...files, { type: "text", text: question }] }],
});
let last;
const errors = [];
for await (const message of readUIMessageStream({ stream, onError: (error) => errors.push(String(error)) })) {
  last = message;
}
console.log(JSON.stringify({ message: last, errors }));
