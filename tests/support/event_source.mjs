// Asks, disconnects, and reads the answer with an EventSource until the server says that it is complete.
// Prints the received data as one line of JSON. Run in a folder where `eventsource` is installed: node event_source.mjs URL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url] = process.argv.slice(2);
const { EventSource } = await import(pathToFileURL(createRequire(`${process.cwd()}/`).resolve("eventsource")));

const asked = await fetch(`${url}/v1/chat`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ question: "At how many degrees does water boil?", detach: true }),
});
const run = asked.headers.get("citewire-run");
await asked.body.cancel();

const came = { ids: [], text: "", done: 0 };
const source = new EventSource(`${url}/v1/chat/${run}/events`);
const take = (event) => came.ids.push(Number(event.lastEventId));
for (const name of ["conversation", "step", "citations", "usage"]) source.addEventListener(name, take);
source.addEventListener("token", (event) => {
  take(event);
  came.text += JSON.parse(event.data).text;
});
source.addEventListener("done", (event) => {
  take(event);
  came.done += 1;
});
// It reconnects by itself after the end, with the last number; 204 makes it stop. Its wait doesn't keep the process alive.
const alive = setInterval(() => {}, 1000);
await new Promise((resolve) => {
  source.addEventListener("error", (event) => {
    if (source.readyState === EventSource.CLOSED) resolve(event);
  });
});
clearInterval(alive);
console.log(JSON.stringify(came));
