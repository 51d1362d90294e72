// Shown where the server asks who calls.
import { useState } from "preact/hooks";

import { identify } from "./state";
import { words } from "./words";

const PLACE = "citewire.place";

/** After a sign-in, the browser comes back without what stood behind `#`. */
export function restorePlace(): void {
  const hash = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (hash !== null && location.hash === "") location.replace(hash);
}

export function SignIn() {
  const [key, setKey] = useState("");
  return (
    <main class="sign-in" id="main">
      <h1>{words.value.signIn}</h1>
      <p>{words.value.signInText}</p>
      <a class="primary" href="/v1/auth/login?return_to=/" onClick={() => sessionStorage.setItem(PLACE, location.hash)}>{words.value.signInProvider}</a>
      <form onSubmit={(event) => { event.preventDefault(); void identify(key.trim()); }}>
        <label for="key">{words.value.apiKey}</label>
        <input id="key" type="password" autocomplete="off" required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        <p class="quiet">{words.value.keyNote}</p>
        <button type="submit">{words.value.useKey}</button>
      </form>
    </main>
  );
}
