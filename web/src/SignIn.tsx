// Shown if the server requires a sign-in.
import type { CallerInfo } from "@citewire/client";
import { useState } from "preact/hooks";

import { chosenCollection, chosenDocuments, chosenTags, draft } from "./ask/chat";
import { caller, identify, isSame } from "./state";
import { words } from "./words";

const PLACE = "citewire.place";
const DRAFT = "citewire.draft";

type Draft = Pick<CallerInfo, "user" | "org"> & Record<"text" | "collection", string> & { documents: typeof chosenDocuments.value; tags: string[] };

/** After a sign-in, the browser returns without the URL's fragment. */
export function restorePlace(): void {
  const hash = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (hash !== null && location.hash === "") location.replace(hash);
}

/** The text and choices of a person who had to sign in again; no one else gets them. */
export function restoreDraft(who: CallerInfo): void {
  const kept = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null") as Draft | null;
  sessionStorage.removeItem(DRAFT);
  if (kept === null || !isSame(who, kept)) return;
  draft.value ||= kept.text;
  chosenCollection.value = kept.collection;
  chosenDocuments.value = kept.documents;
  chosenTags.value = kept.tags;
}

function keep(): void {
  sessionStorage.setItem(PLACE, location.hash);
  if (!caller.value) return;
  const { user, org } = caller.value;
  const kept: Draft = { user, org, text: draft.value, collection: chosenCollection.value, documents: chosenDocuments.value, tags: chosenTags.value };
  sessionStorage.setItem(DRAFT, JSON.stringify(kept));
}

export function SignIn() {
  const [key, setKey] = useState("");
  return (
    <main class="sign-in">
      <h1>{words.value.signIn}</h1>
      <p>{words.value.signInText}</p>
      <a class="primary" href="/v1/auth/login?return_to=/" onClick={keep}>{words.value.signInProvider}</a>
      <form onSubmit={(event) => { event.preventDefault(); void identify(key.trim()); }}>
        <label for="key">{words.value.apiKey}</label>
        <input id="key" type="password" autocomplete="off" required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        <p class="quiet">{words.value.keyNote}</p>
        <button type="submit">{words.value.useKey}</button>
      </form>
    </main>
  );
}
