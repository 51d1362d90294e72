// Navigation: the conversations, the library, the account.
import type { Conversation } from "@citewire/client";
import { signal } from "@preact/signals";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";

import { conversations, exportAs, loadHistory, nextPage, ofOthers, remove, rename, search } from "./ask/history";
import { dialog } from "./dialog-state";
import { conversationId, place } from "./state";
import { useFocus } from "./use-focus";
import { words } from "./words";

/** Whether it is shown in a narrow window. */
export const menuOpen = signal(false);
const SEARCH_MS = 200;
let timer: ReturnType<typeof setTimeout> | undefined;

export function Sidebar() {
  const find = (text: string) => {
    search.value = text;
    clearTimeout(timer);
    timer = setTimeout(() => void loadHistory(), SEARCH_MS);
  };
  const list = (shared: boolean) => {
    ofOthers.value = shared;
    conversations.value = [];
    void loadHistory();
  };
  const here = place.value[0];
  return (
    <nav id="menu" class={menuOpen.value ? "sidebar open" : "sidebar"} aria-label={words.value.menu} onKeyDown={(event) => event.key === "Escape" && (menuOpen.value = false)}>
      <a class="brand" href="#/"><img src="./icon.svg" alt="" width="26" height="26" />{words.value.app}</a>
      <a class="new" href="#/" onClick={() => (menuOpen.value = false)} aria-current={here === undefined ? "page" : undefined}>{words.value.newChat}</a>
      <a href="#/library" aria-current={here === "library" ? "page" : undefined} onClick={() => (menuOpen.value = false)}>{words.value.library}</a>
      <h2>{words.value.history}</h2>
      <div class="whose" role="group" aria-label={words.value.whose}>
        <button type="button" aria-pressed={!ofOthers.value} onClick={() => list(false)}>{words.value.own}</button>
        <button type="button" aria-pressed={ofOthers.value} onClick={() => list(true)}>{words.value.sharedWithMe}</button>
      </div>
      <input type="search" value={search.value} placeholder={words.value.searchHistory} aria-label={words.value.searchHistory} onInput={(event) => find(event.currentTarget.value)} />
      <ul class="conversations">
        {conversations.value.map((conversation) => <Entry key={conversation.id} conversation={conversation} isHere={conversation.id === conversationId.value} />)}
        {conversations.value.length === 0 && <li class="quiet">{search.value !== "" ? words.value.nothingMatches : ofOthers.value ? words.value.nothingShared : words.value.noHistory}</li>}
        {nextPage.value !== "" && <li><button type="button" class="link" onClick={() => void loadHistory(true)}>{words.value.more}</button></li>}
      </ul>
      <a class="account-link" href="#/account" aria-current={here === "account" ? "page" : undefined} onClick={() => (menuOpen.value = false)}>{words.value.account}</a>
    </nav>
  );
}

type Doing = "nothing" | "menu" | "renaming" | "deleting";

const Entry = memo(({ conversation, isHere }: { conversation: Conversation; isHere: boolean }) => {
  const [doing, setDoing] = useState<Doing>("nothing");
  const [title, setTitle] = useState(conversation.title);
  const field = useFocus<HTMLInputElement>(doing === "renaming");
  const { id } = conversation;
  const act = (run: () => Promise<void>) => {
    setDoing("nothing");
    void run();
  };
  const own = conversation.user === undefined;
  const share = () => {
    setDoing("nothing");
    dialog.value = { kind: "sharing", conversation: id, title: conversation.title };
  };
  if (doing === "renaming") {
    return (
      <li>
        <form class="row" onSubmit={(event) => { event.preventDefault(); act(() => rename(id, title)); }} onKeyDown={(event) => event.key === "Escape" && setDoing("nothing")}>
          <input value={title} maxLength={200} required dir="auto" aria-label={words.value.title} ref={field} onInput={(event) => setTitle(event.currentTarget.value)} />
          <button type="submit">{words.value.save}</button>
        </form>
      </li>
    );
  }
  return (
    <li class={isHere ? "here" : ""} onKeyDown={(event) => event.key === "Escape" && setDoing("nothing")}>
      <div class="row">
        <a href={`#/c/${id}`} dir="auto" aria-current={isHere ? "page" : undefined} onClick={() => (menuOpen.value = false)}>{conversation.title}</a>
        <button type="button" class="icon" aria-label={`${words.value.more}: ${conversation.title}`} aria-expanded={doing !== "nothing"} onClick={() => setDoing(doing === "nothing" ? "menu" : "nothing")}>⋯</button>
      </div>
      {doing === "menu" && (
        <div class="entry-menu">
          {own && <button type="button" onClick={() => { setTitle(conversation.title); setDoing("renaming"); }}>{words.value.rename}</button>}
          {own && <button type="button" onClick={share}>{words.value.share}</button>}
          <button type="button" onClick={() => act(() => exportAs(id, "markdown"))}>{words.value.exportMarkdown}</button>
          <button type="button" onClick={() => act(() => exportAs(id, "json"))}>{words.value.exportJson}</button>
          {own && <button type="button" class="danger" onClick={() => setDoing("deleting")}>{words.value.delete}</button>}
        </div>
      )}
      {doing === "deleting" && (
        <div class="entry-menu">
          <p>{words.value.deleteConversation(conversation.title)}</p>
          <button type="button" class="danger" onClick={() => act(() => remove(id))}>{words.value.delete}</button>
          <button type="button" onClick={() => setDoing("nothing")}>{words.value.cancel}</button>
        </div>
      )}
    </li>
  );
});
