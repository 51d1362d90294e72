// The answer for those who listen: whole sentences, in one polite region. The text that grows is not live.
import { findMarkers } from "@citewire/client";
import { signal } from "@preact/signals";

export const announced = signal("");
const SENTENCE_END = /[.!?](?=\s)|[。！？]|\n/g;
let told = 0;
let heard = 0; // in this much of the text, no further sentence ends
let whole = "";

/** Takes the text as far as it is written, and announces the sentences that are new and whole. */
export function announce(text: string): void {
  if (text.length < told) told = heard = 0;
  whole = text;
  let end = told;
  for (const match of text.slice(heard).matchAll(SENTENCE_END)) end = heard + match.index + match[0].length;
  if (end > told) say(text.slice(told, end));
  told = end;
  heard = Math.max(end, text.length - 1); // the last sign may end a sentence when there is space behind it
}

/** Announces what is left, and begins anew. */
export function endAnnouncing(): void {
  if (whole.length > told) say(whole.slice(told));
  told = heard = 0;
  whole = "";
}

function say(text: string): void {
  let plain = "";
  let end = 0;
  for (const marker of findMarkers(text)) {
    plain += text.slice(end, marker.at);
    end = marker.at + marker.length;
  }
  plain = (plain + text.slice(end)).replace(/[*_`#>]+/g, "").trim();
  if (plain !== "") announced.value = plain;
}
