// The conversation, and the field for the next question.
import type { DocumentList } from "@citewire/client";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { opened } from "../reader-state";
import { attempt, client, conversationId, toast } from "../state";
import { useFocus } from "../use-focus";
import { words } from "../words";
import { AnswerView } from "./AnswerView";
import { announced } from "./announce";
import { Card } from "./Card";
import { ask, isBusy, owner, show, type Turn, turns } from "./chat";
import { citedAddress, openCited } from "./cited";
import { Composer } from "./Composer";
import { layOutInFull } from "./in-full";

const NEAR_END = 120; // pixels

export function AskPage() {
  const main = useRef<HTMLElement>(null);
  const list = useRef<HTMLDivElement>(null);
  // Before anything can be typed: if it were shown later, it would replace a question asked meanwhile.
  useLayoutEffect(() => void show(conversationId.value).then(openCited), [conversationId.value, citedAddress.value]);
  const count = turns.value.length;
  useEffect(() => followEnd(main.current!, list.current!), []);
  // Before the browser's layout: the reader beside makes all lines narrower.
  useLayoutEffect(() => (isBusy.value ? undefined : layOutInFull(list.current!)), [isBusy.value, turns.value, opened.value === null]);
  return (
    <main ref={main} id="main" tabIndex={-1} class={count === 0 ? "ask empty" : "ask"}>
      <div class="turns" ref={list}>
        {count === 0 ? (
          <Hello />
        ) : (
          <h1 class="hidden">{turns.value[0]!.question}</h1>
        )}
        {owner.value !== null && <p class="quiet">{words.value.shared(owner.value)}</p>}
        {turns.value.map((turn) => <TurnView key={turn.key} turn={turn} />)}
      </div>
      {owner.value === null && <Composer />}
      <div class="hidden" role="status" aria-live="polite">{announced.value}</div>
      <Card />
    </main>
  );
}

/** The start of a new conversation; without documents, it shows where to add them. */
function Hello() {
  const [isEmpty, setEmpty] = useState(false);
  useEffect(() => void attempt(async () => {
    const { documents } = await client.call<DocumentList>("GET", "/v1/documents?page_size=1");
    setEmpty(documents.length === 0);
  }), []);
  return (
    <div class="hello">
      <h1>{words.value.hello}</h1>
      <p>{words.value.helloText}</p>
      {isEmpty && <p>{words.value.emptyLibrary} <a href="#/library">{words.value.addDocuments}</a></p>}
    </div>
  );
}

/** Keeps the end in view while it grows, unless the reader has scrolled up; a new question is always scrolled into view. */
function followEnd(main: HTMLElement, list: HTMLElement): () => void {
  let follows = true;
  let count = list.childElementCount;
  const onScroll = () => (follows = main.scrollHeight - main.scrollTop - main.clientHeight < NEAR_END);
  const observer = new ResizeObserver(() => {
    const asked = list.childElementCount > count && isBusy.peek();
    count = list.childElementCount;
    if (asked || (follows && isBusy.peek())) main.scrollTop = main.scrollHeight;
  });
  observer.observe(list);
  main.addEventListener("scroll", onScroll, { passive: true });
  return () => {
    observer.disconnect();
    main.removeEventListener("scroll", onScroll);
  };
}

const TurnView = memo(({ turn }: { turn: Turn }) => {
  const [edited, setEdited] = useState<string | null>(null);
  const field = useFocus<HTMLTextAreaElement>(edited !== null);
  const submit = () => {
    if (edited === null || edited.trim() === "") return;
    if (isBusy.value) return toast(words.value.writing, "note");
    setEdited(null);
    void ask(edited);
  };
  return (
    <article class="turn">
      <h2 class="hidden">{words.value.you}</h2>
      {edited === null ? (
        <div class="asked">
          <p class="question" dir="auto">{turn.question}</p>
          {owner.value === null && <button type="button" class="link" onClick={() => setEdited(turn.question)}>{words.value.edit}</button>}
        </div>
      ) : (
        <form class="asked editing" onSubmit={(event) => { event.preventDefault(); submit(); }}>
          <textarea
            dir="auto"
            aria-label={words.value.editQuestion}
            value={edited}
            ref={field}
            onInput={(event) => setEdited(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Escape" && setEdited(null)}
          />
          <div class="row">
            <button type="submit" class="primary">{words.value.send}</button>
            <button type="button" onClick={() => setEdited(null)}>{words.value.cancel}</button>
          </div>
        </form>
      )}
      <AnswerView answer={turn.answer} question={turn.question} />
    </article>
  );
});
