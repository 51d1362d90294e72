// The conversation that is shown: its questions and answers, and the one that is being written.
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

/** The one that cites claim by claim; the server's own default where there is no such profile. */
const BEST_PROFILE = "grounded";
/** How long an answer goes on for a page that is loaded anew. */
const GRACE_SECONDS = 15;
/** How long sources and steps wait to be shown, so that one frame can show them and the first text. */
const BEFORE_TEXT_MS = 60;

/** So many characters of stored answers are written in a frame. */
const PER_FRAME = 16_000;

const OPTIONAL_EVENTS = ["step", "citation", "uncited"] as const;

export const turns = signal<Turn[]>([]);
export const profiles = signal<Profile[]>([]);
export const chosenProfile = signal<string>(remembered("profile") ?? BEST_PROFILE);
export const collections = signal<string[]>([]);
export const chosenCollection = signal<string>("");
/** The caller's own chat models, where there is a choice. */
export const models = signal<ProviderInfo[]>([]);
export const chosenTags = signal<string[]>([]);
export const chosenDocuments = signal<ChosenDocument[]>([]);
export const draft = signal("");
export const owner = signal<string | null>(null);
export const running = signal<AbortController | null>(null);
export const isBusy = computed(() => running.value !== null);

/** What can be chosen, while it is being loaded. */
let loading: Promise<void> | null = null;
let lastKey = 0;
let shownId: string | null = null;
let runId: string | null = null;
/** The conversation that the answer being written is stored in; null: in none, or in one that is yet to begin. */
let keptIn: string | null = null;

export function chooseProfile(name: string): void {
  chosenProfile.value = name;
  remember("profile", name);
}

/** Loads what can be chosen beside the question; one that is asked meanwhile waits for it. */
export function loadChoices(): Promise<void> {
  const load = readChoices();
  const ended = load.catch(() => undefined).finally(() => { // who called is told
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

/** The next questions are answered by another of the caller's own models. */
export async function chooseModel(name: string): Promise<void> {
  await client.call("POST", `/v1/providers/chat/${name}:activate`);
  await loadChoices();
}

/** Shows a stored conversation, or none. One that is shown already stays as it is. */
export async function show(id: string | null): Promise<void> {
  if (id === shownId) return;
  leave();
  shownId = id;
  turns.value = [];
  owner.value = null;
  if (id === null) return;
  try {
    const page = await readAll(id);
    if (shownId !== id) return; // somebody went on meanwhile
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

/** Shows stored turns, in each frame as much as can be written in it; those that are asked meanwhile come after them. */
async function unfold(stored: Turn[]): Promise<void> {
  const id = shownId;
  for (let from = 0, to = 0; to < stored.length; from = to) {
    if (from > 0) await new Promise<void>(inNextFrame);
    if (shownId !== id) return;
    for (let length = 0; to < stored.length && length < PER_FRAME; to++) length += stored[to]!.answer.value.text.length;
    turns.value = [...stored.slice(0, to), ...turns.value.slice(from)];
  }
}

/** Goes on with an answer that was being written when the page was left. */
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
      // Without an answer it was cut off, or is still being written.
      const answer = signal<Answer>({ ...NEW, status: "stopped" });
      stored.push({ key: ++lastKey, question: message.content, answer });
    } else if (last !== undefined) {
      last.answer.value = fromStored(message, id);
    }
  }
  return stored;
}

/** Asks; the answer is written into a new turn. */
export async function ask(question: string): Promise<void> {
  if (isBusy.value || question.trim() === "") return;
  card.value = null;
  const turn: Turn = { key: ++lastKey, question, answer: signal<Answer>(NEW) };
  // The request goes out first: the page is written anew while it is on its way.
  const written = write(turn.answer, async function* (aborted) {
    if (loading !== null) await loading;
    const asked = request(question);
    keptIn = asked.conversation_id ?? null;
    yield* client.chat(asked, aborted, (run) => (runId = run));
  });
  turns.value = [...turns.value.filter((shown) => shown.answer.value.status !== "failed" || shown.answer.value.text), turn];
  const error = await written;
  if (error instanceof ApiError && error.status === 401 && turn.answer.value.text === "") {
    // Nobody was asked: the question waits in its field until somebody has signed in.
    turns.value = turns.value.filter((shown) => shown !== turn);
    draft.value ||= question;
  }
}

/** Writes an answer from its events, until it is complete or stopped; returns what went wrong. */
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
        void loadHistory(); // not before: the first text comes first
      }
      if (event.event === "done" && keptIn !== null && runId !== null) {
        latest = { ...latest, place: { conversation: keptIn, exchange: runId } };
      }
      if (event.event === "error") complain(new ApiError(0, "", messageOfFault(event.data)));
      // What comes before the first text waits a little for it: a frame for it alone would delay the text by one.
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

/** Stops the answer that is being written, at its provider too. */
export function stop(): void {
  const run = runId;
  leave();
  if (run !== null) void client.cancel(run).catch(complain);
}

/** Reads on no longer: the answer goes on for a while, for who comes back. */
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

/** Paints once per frame, however many events come, and after a wait if asked; a page in the background paints rarely. */
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
