// The layout of the page.
import { useEffect } from "preact/hooks";

import { AskPage } from "./ask/AskPage";
import { card, closeCard } from "./ask/card-state";
import { draft, isBusy, loadChoices, stop } from "./ask/chat";
import { loadHistory } from "./ask/history";
import { dialog, type OpenDialog } from "./dialog-state";
import { later } from "./later";
import { closeReader, opened, type OpenDocument } from "./reader-state";
import { menuOpen, Sidebar } from "./Sidebar";
import { restoreDraft, SignIn } from "./SignIn";
import { attempt, caller, hasEnded, place } from "./state";
import { Toasts } from "./Toasts";
import { words } from "./words";

const Reader = later<{ open: OpenDocument }>(async () => (await import("./Reader")).Reader);
const Original = later<{ open: OpenDocument }>(async () => (await import("./original/Original")).Original);
const Library = later<object>(async () => (await import("./library/Library")).Library);
const Account = later<object>(async () => (await import("./account/Account")).Account);
const Dialogs = later<{ open: OpenDialog }>(async () => (await import("./people/Dialogs")).Dialogs, true);

export function App() {
  const who = caller.value;
  useEffect(() => {
    if (!who || hasEnded.value) return;
    restoreDraft(who);
    void attempt(async () => Promise.all([loadChoices(), loadHistory()]));
  }, [who?.user, who?.org, hasEnded.value]);
  useEffect(() => {
    // A link to a question (`/?q=`) only fills the field: the person who follows it decides whether to ask.
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
      {hasEnded.value && <SignIn />}
      <div class="whole" hidden={hasEnded.value}>
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
        {dialog.value !== null && <Dialogs open={dialog.value} />}
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

/** Esc closes the topmost thing: the card, the text beside, the menu; then it stops the answer. */
function onEscape(event: KeyboardEvent): void {
  if (event.key !== "Escape" || event.defaultPrevented || dialog.value !== null) return;
  if (card.value !== null) closeCard();
  else if (opened.value !== null) closeReader();
  else if (menuOpen.value) menuOpen.value = false;
  else if (isBusy.value) stop();
}

function skip(event: Event): void {
  event.preventDefault(); // the URL's fragment is the page's location
  (document.getElementById("question") ?? document.getElementById("main"))?.focus();
}
