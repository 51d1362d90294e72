// The list of conversations: search, rename, delete, export.
import type { Conversation, ConversationList } from "@citewire/client";
import { signal } from "@preact/signals";

import { attempt, client, conversationId, go } from "../state";
import { saveResponse } from "../files";

export const conversations = signal<Conversation[]>([]);
export const search = signal("");
export const nextPage = signal("");
/** Whether the list shows conversations shared by others, instead of the user's own. */
export const ofOthers = signal(false);

/** Loads the first page of search results, or with `more` the next one. */
export async function loadHistory(more = false): Promise<void> {
  const [asked, shared] = [search.value, ofOthers.value];
  const query = new URLSearchParams({ page_size: "50" });
  if (asked.trim() !== "") query.set("q", asked.trim());
  if (shared) query.set("shared", "true");
  if (more) query.set("page_token", nextPage.value);
  await attempt(async () => {
    const page = await client.call<ConversationList>("GET", `/v1/conversations?${query}`);
    if (asked !== search.value || shared !== ofOthers.value) return; // a later search replaces this one
    conversations.value = more ? [...conversations.value, ...page.conversations] : page.conversations;
    nextPage.value = page.next_page_token;
  });
}

export async function rename(id: string, title: string): Promise<void> {
  await attempt(() => client.call("PATCH", `/v1/conversations/${id}`, { title }));
  await loadHistory();
}

export async function remove(id: string): Promise<void> {
  const gone = await attempt(() => client.call("DELETE", `/v1/conversations/${id}`));
  if (gone && conversationId.value === id) go("/");
  await loadHistory();
}

export async function exportAs(id: string, format: "json" | "markdown"): Promise<void> {
  const suffix = format === "json" ? "json" : "md";
  await attempt(async () => {
    const response = await client.send("GET", `/v1/conversations/${id}/export?format=${format}`);
    await saveResponse(response, `conversation-${id}.${suffix}`);
  });
}
