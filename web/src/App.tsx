// The page: what is where.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

import { AskPage } from "./ask/AskPage";
import { card, closeCard } from "./ask/card-state";
import { draft, isBusy, loadChoices, stop } from "./ask/chat";
import { loadHistory } from "./ask/history";
import { closeReader, opened, type OpenDocument } from "./reader-state";
import { menuOpen, Sidebar } from "./Sidebar";
import { SignIn } from "./SignIn";
import { attempt, caller, complain, place } from "./state";
import { Toasts } from "./Toasts";
import { words } from "./words";

/** A part of the page that is loaded when it is first shown. */
function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Later(props: P) {
    const [, setReady] = useState(loaded !== undefined);
    useEffect(() => {
      if (loaded !== undefined) return;
      load().then((component) => {
        loaded = component;
        setReady(true);
      }, complain);
    }, []);
    const Loaded = loaded;
    return Loaded === undefined ? <p class="quiet later">{words.value.loading}</p> : <Loaded {...props} />;
  };
}

const Reader = later<{ open: OpenDocument }>(async () => (await import("./Reader")).Reader);
const Original = later<{ open: OpenDocument }>(async () => (await import("./original/Original")).Original);
const Library = later<object>(async () => (await import("./library/Library")).Library);
const Account = later<object>(async () => (await import("./account/Account")).Account);

export function App() {
  const who = caller.value;
  useEffect(() => {
    if (who) void attempt(async () => Promise.all([loadChoices(), loadHistory()]));
  }, [who?.user, who?.org]);
  useEffect(() => {
    // A link to a question (`/?q=`) fills the field and asks nothing: who follows it decides.
    const question = new URLSearchParams(location.search).get("q");
    if (question) draft.value = question;
    if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  }, []);
  useEffect(() => {
    addEventListener("keydown", onEscape);
    return () => removeEventListener("keydown", onEscape);
  }, []);
  if (who === undefined) return <Toasts />;
  if (who === null) return <><SignIn /><Toasts /></>;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>{words.value.skip}</a>
      <header class="top">
        <button type="button" class="icon" aria-label={words.value.menu} aria-expanded={menuOpen.value} aria-controls="menu" onClick={() => (menuOpen.value = !menuOpen.value)}>☰</button>
        <span class="brand">{words.value.app}</span>
      </header>
      <div class={opened.value === null ? "layout" : "layout with-reader"}>
        <Sidebar />
        {menuOpen.value && <div class="shade" onClick={() => (menuOpen.value = false)} />}
        <Page />
        {opened.value !== null && (opened.value.original ? <Original open={opened.value} /> : <Reader open={opened.value} />)}
      </div>
      <Toasts />
    </>
  );
}

function Page() {
  switch (place.value[0]) {
    case "library":
      return <Library />;
    case "account":
      return <Account />;
    default:
      return <AskPage />;
  }
}

/** Esc closes what is on top: the card, the text beside, the menu; then it stops the answer. */
function onEscape(event: KeyboardEvent): void {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  if (card.value !== null) closeCard();
  else if (opened.value !== null) closeReader();
  else if (menuOpen.value) menuOpen.value = false;
  else if (isBusy.value) stop();
}

function skip(event: Event): void {
  event.preventDefault(); // the address behind # is where the page is
  (document.getElementById("question") ?? document.getElementById("main"))?.focus();
}
