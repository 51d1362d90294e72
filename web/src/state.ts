// State shared by the whole page: the caller, the location, errors.
import { ApiError, type CallerInfo, CitewireClient } from "@citewire/client";
import { computed, effect, signal } from "@preact/signals";

import { remember, remembered } from "./storage";
import { language, words } from "./words";

const KEY = "citewire.key";

export const apiKey = signal<string | null>(sessionStorage.getItem(KEY));
export const client = new CitewireClient({
  bearer: () => apiKey.value,
  onMalformedFrame: (data) => console.warn("a frame of the answer can't be read", data.slice(0, 200)),
});

/** Undefined until it is known, null if a sign-in is required. */
export const caller = signal<CallerInfo | null | undefined>(undefined);
/** Whether the caller must sign in again. Their work stays unchanged meanwhile, but hidden. */
export const hasEnded = signal(false);

export interface Toast {
  id: number;
  text: string;
  kind: "error" | "note";
}

const TOAST_MS = 8000;
export const toasts = signal<Toast[]>([]);
let lastToast = 0;

export function toast(text: string, kind: Toast["kind"] = "error"): void {
  const id = ++lastToast;
  toasts.value = [...toasts.value.filter((shown) => shown.text !== text), { id, text, kind }];
  setTimeout(() => dismiss(id), TOAST_MS);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((shown) => shown.id !== id);
}

/** Shows an error, unless the caller cancelled the call. */
export function complain(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  if (error instanceof ApiError) {
    if (error.status === 401) endSession();
    toast(error.status === 401 ? words.value.ended : error.message);
  } else {
    toast(words.value.offline);
    console.error(error);
  }
}

/** Runs a call and shows its error as a toast. Returns whether it succeeded. */
export async function attempt(run: () => Promise<unknown>): Promise<boolean> {
  try {
    await run();
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

function endSession(): void {
  forgetKey();
  if (caller.value) hasEnded.value = true;
  else caller.value = null;
}

export function forgetKey(): void {
  sessionStorage.removeItem(KEY);
  apiKey.value = null;
}

/** Identifies the caller, with a key if one is given; returns whether access is allowed. */
export async function identify(key?: string): Promise<boolean> {
  if (key !== undefined) {
    apiKey.value = key;
  }
  try {
    const [before, now] = [caller.value, await client.caller()];
    if (apiKey.value !== null) sessionStorage.setItem(KEY, apiKey.value);
    if (before && !isSame(before, now)) location.reload(); // nothing remains for the next user
    caller.value = now;
    hasEnded.value = false;
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      endSession();
      if (key !== undefined) toast(error.message);
    } else {
      complain(error);
    }
    return false;
  }
}

export function isSame(one: CallerInfo, other: Pick<CallerInfo, "user" | "org">): boolean {
  return one.user === other.user && one.org === other.org;
}

/** The page's location: the parts of the URL's fragment. */
export const place = signal<string[]>(parts());
export const conversationId = computed(() => (place.value[0] === "c" ? (place.value[1] ?? null) : null));

function parts(): string[] {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
}

addEventListener("hashchange", () => (place.value = parts()));

/** Navigates to a location; with `replace`, going back doesn't lead here. */
export function go(path: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", `#${path}`);
    place.value = parts();
  } else {
    location.hash = path;
  }
}

export type Theme = "system" | "light" | "dark";
const chosen = remembered("theme");
export const theme = signal<Theme>(chosen === "light" || chosen === "dark" ? chosen : "system");

effect(() => {
  document.documentElement.lang = language.value;
});
effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
});

export function chooseTheme(name: Theme): void {
  theme.value = name;
  remember("theme", name);
}
