// The conversation on display: its questions and answers, including the one being written.
import { ApiError, type ChatEvent, type ChatRequest, type ConversationPage, holdBack, type ProfileList, type ProviderInfo, type ProviderList } from "@citewire/client";
import { computed, type Signal, signal } from "@preact/signals";

import { client, complain, conversationId, go } from "../state";
import { remember, remembered } from "../storage";
import { words } from "../words";
import { announce, endAnnouncing } from "./announce";
import { type Answer, applyEvent, fromStored, NEW } from "./answer";
import { card } from "./card-state";
import { loadHistory } from "./history";

export interface Turn {
  key: number;
  question: string;
  answer: Signal<Answer>;
}

export interface ChosenDocument {
  id: number;
  title: string;
}

type Profile = ProfileList["profiles"][number];

/** The profile that cites claim by claim; the server's own default if that doesn't exist. */
const BEST_PROFILE = "grounded";
/** How long an answer continues for a page that is reloaded. */
const GRACE_SECONDS = 15;
/** How long sources and steps wait, so that one frame can show them together with the first text. */
const BEFORE_TEXT_MS = 60;

/** Number of characters of stored answers rendered per frame. */
const PER_FRAME = 16_000;

const OPTIONAL_EVENTS = ["step", "citation", "uncited"] as const;

export const turns = signal<Turn[]>([]);
export const profiles = signal<Profile[]>([]);
export const chosenProfile = signal<string>(remembered("profile") ?? BEST_PROFILE);
export const collections = signal<string[]>([]);
export const chosenCollection = signal<string>("");
/** The caller's own chat models, if there is a choice. */
export const models = signal<ProviderInfo[]>([]);
export const chosenTags = signal<string[]>([]);
export const chosenDocuments = signal<ChosenDocument[]>([]);
export const draft = signal("");
export const owner = signal<string | null>(null);
export const running = signal<AbortController | null>(null);
export const isBusy = computed(() => running.value !== null);

/** The choices, while they are being loaded. */
let loading: Promise<void> | null = null;
let lastKey = 0;
let shownId: string | null = null;
let runId: string | null = null;
/** The conversation that will store the answer being written; null: none, or one that hasn't begun. */
let keptIn: string | null = null;

export function chooseProfile(name: string): void {
  chosenProfile.value = name;
  remember("profile", name);
}

/** Loads the choices beside the question; a question asked meanwhile waits for them. */
export function loadChoices(): Promise<void> {
  const load = readChoices();
  const ended = load.catch(() => undefined).finally(() => { // the caller is told
    if (loading === ended) loading = null;
  });
  loading = ended;
  return load;
}

async function readChoices(): Promise<void> {
  const [offered, named, own] = await Promise.all([
    client.call<ProfileList>("GET", "/v1/profiles?page_size=200"),
    client.call<{ collections: { name: string }[] }>("GET", "/v1/collections?page_size=200"),
    client.call<ProviderList>("GET", "/v1/providers?page_size=200&q=chat"),
  ]);
  models.value = own.providers.filter((provider) => provider.type === "chat" && provider.scope === "user");
  profiles.value = offered.profiles;
  collections.value = named.collections.map((collection) => collection.name);
  if (!collections.value.includes(chosenCollection.value)) chosenCollection.value = "";
}

/** Chooses another of the caller's own models for the next questions. */
export async function chooseModel(name: string): Promise<void> {
  await client.call("POST", `/v1/providers/chat/${name}:activate`);
  await loadChoices();
}

/** Shows a stored conversation, or none. If it is already shown, nothing changes. */
export async function show(id: string | null): Promise<void> {
  if (id === shownId) return;
  leave();
  shownId = id;
  turns.value = [];
  owner.value = null;
  if (id === null) return;
  try {
    const page = await readAll(id);
    if (shownId !== id) return; // the user has moved on meanwhile
    owner.value = page.user ?? null;
    await unfold(storedTurns(page));
    if (shownId === id && page.run_id !== undefined) void follow(page.run_id);
  } catch (error) {
    if (shownId !== id) return;
    if (error instanceof ApiError && error.status === 404) {
      complain(new ApiError(404, error.reason, words.value.questionGone));
      go("/", true);
    } else {
      complain(error);
    }
  }
}

/** Shows stored turns, as many per frame as can be rendered in it; questions asked meanwhile follow them. */
async function unfold(stored: Turn[]): Promise<void> {
  const id = shownId;
  for (let from = 0, to = 0; to < stored.length; from = to) {
    if (from > 0) await new Promise<void>(inNextFrame);
    if (shownId !== id) return;
    for (let length = 0; to < stored.length && length < PER_FRAME; to++) length += stored[to]!.answer.value.text.length;
    turns.value = [...stored.slice(0, to), ...turns.value.slice(from)];
  }
}

/** Continues an answer that was being written when the page was left. */
async function follow(run: string): Promise<void> {
  const last = turns.value.at(-1);
  if (last === undefined || last.answer.value.status !== "stopped") return;
  last.answer.value = NEW;
  [runId, keptIn] = [run, shownId];
  await write(last.answer, (aborted) => client.resume(run, 0, aborted));
}

async function readAll(id: string): Promise<ConversationPage> {
  const path = `/v1/conversations/${id}?page_size=200`;
  const first = await client.call<ConversationPage>("GET", path);
  for (let page = first; page.next_page_token !== ""; ) {
    page = await client.call("GET", `${path}&page_token=${encodeURIComponent(page.next_page_token)}`);
    first.messages.push(...page.messages);
  }
  return first;
}

function storedTurns({ id, messages }: ConversationPage): Turn[] {
  const stored: Turn[] = [];
  for (const message of messages) {
    const last = stored.at(-1);
    if (message.role === "user") {
      // A question without an answer was cut off, or its answer is still being written.
      const answer = signal<Answer>({ ...NEW, status: "stopped" });
      stored.push({ key: ++lastKey, question: message.content, answer });
    } else if (last !== undefined) {
      last.answer.value = fromStored(message, id);
    }
  }
  return stored;
}

/** Asks a question; the answer is written into a new turn. */
export async function ask(question: string): Promise<void> {
  if (isBusy.value || question.trim() === "") return;
  card.value = null;
  const turn: Turn = { key: ++lastKey, question, answer: signal<Answer>(NEW) };
  // The request is sent first: the page is rendered while it is in transit.
  const written = write(turn.answer, async function* (aborted) {
    if (loading !== null) await loading;
    const asked = request(question);
    keptIn = asked.conversation_id ?? null;
    yield* client.chat(asked, aborted, (run) => (runId = run));
  });
  turns.value = [...turns.value.filter((shown) => shown.answer.value.status !== "failed" || shown.answer.value.text), turn];
  const error = await written;
  if (error instanceof ApiError && error.status === 401 && turn.answer.value.text === "") {
    // The question wasn't sent: it waits in its field until the user has signed in.
    turns.value = turns.value.filter((shown) => shown !== turn);
    draft.value ||= question;
  }
}

/** Writes an answer from its events until it is complete or stopped; returns the error, if any. */
async function write(answer: Signal<Answer>, events: (aborted: AbortSignal) => AsyncGenerator<ChatEvent>): Promise<unknown> {
  const control = new AbortController();
  running.value = control;
  const began = shownId;
  let unlisted = false;
  let latest = NEW;
  const paint = painter(() => {
    const { shown } = holdBack(latest.text);
    answer.value = latest.status === "writing" ? { ...latest, text: shown } : latest;
    announce(answer.value.text);
  });
  try {
    for await (const event of events(control.signal)) {
      latest = applyEvent(latest, event);
      if (event.event === "conversation" && shownId === began && began !== event.data.conversation_id) {
        shownId = keptIn = event.data.conversation_id;
        go(`/c/${shownId}`, conversationId.value === null);
        unlisted = true;
      }
      if (unlisted && event.event === "token") {
        unlisted = false;
        void loadHistory(); // not earlier: the first text has priority
      }
      if (event.event === "done" && keptIn !== null && runId !== null) {
        latest = { ...latest, place: { conversation: keptIn, exchange: runId } };
      }
      if (event.event === "error") complain(new ApiError(0, "", messageOfFault(event.data)));
      // Events before the first text wait a little for it: a separate frame would delay the text by one frame.
      paint.later(latest.status === "waiting" ? BEFORE_TEXT_MS : 0);
    }
  } catch (error) {
    const stopped = control.signal.aborted;
    latest = { ...latest, status: stopped ? "stopped" : "failed", error: stopped ? null : messageOf(error) };
    if (stopped) return null;
    complain(error);
    return error;
  } finally {
    if (running.value === control) running.value = runId = null;
    paint.now();
    endAnnouncing();
    if (unlisted) void loadHistory();
  }
  return null;
}

/** Stops the answer being written, also at its provider. */
export function stop(): void {
  const run = runId;
  leave();
  if (run !== null) void client.cancel(run).catch(complain);
}

/** Stops reading: the answer continues for a while, in case the user comes back. */
function leave(): void {
  running.value?.abort();
  running.value = runId = null;
}

function request(question: string): ChatRequest {
  const profile = profiles.value.find((offered) => offered.name === chosenProfile.value);
  const shows = new Set<string>([...(profile?.events ?? []), ...(profile?.optional_events ?? [])]);
  const documents = chosenDocuments.value.map((chosen) => chosen.id);
  return {
    question,
    ...(profile && { profile: profile.name }),
    ...(shownId !== null && profile?.conversations !== "never" && { conversation_id: shownId }),
    ...(profile?.conversations === "on_request" && { keep: true }),
    ...(documents.length > 0 && { document_ids: documents }),
    ...(chosenCollection.value !== "" && { collection: chosenCollection.value }),
    ...(chosenTags.value.length > 0 && { filter: { all: chosenTags.value.map((tag) => ({ field: "tags", op: "contains", value: tag })) } }),
    include: [...OPTIONAL_EVENTS.filter((name) => shows.has(name)), "cost"],
    time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    grace_seconds: GRACE_SECONDS,
  };
}

function messageOfFault(fault: { text: string; reason?: string }): string {
  return fault.reason === "RUN_LOST" ? words.value.lost : fault.text;
}

function messageOf(error: unknown): string {
  return error instanceof ApiError ? error.message : words.value.offline;
}

/** Paints once per frame, however many events arrive, optionally after a wait; a background page paints rarely. */
function painter(paint: () => void): { later: (wait: number) => void; now: () => void } {
  let planned = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = () => {
    if (planned) paint();
    planned = false;
  };
  const plan = () => {
    clearTimeout(timer);
    timer = undefined;
    planned = true;
    inNextFrame(run);
  };
  return {
    later(wait) {
      if (planned) return;
      if (wait === 0) plan();
      else timer ??= setTimeout(plan, wait);
    },
    now() {
      clearTimeout(timer);
      planned = false;
      paint();
    },
  };
}

function inNextFrame(run: () => void): void {
  if (document.hidden) setTimeout(run, 250);
  else requestAnimationFrame(run);
}
