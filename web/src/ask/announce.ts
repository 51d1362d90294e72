// The answer for screen readers: complete sentences, in one polite region. The growing text is not live.
import { findMarkers } from "@citewire/client";
import { signal } from "@preact/signals";

export const announced = signal("");
const SENTENCE_END = /[.!?](?=\s)|[。！？]|\n/g;
let told = 0;
let heard = 0; // no further sentence ends in this part of the text
let whole = "";

/** Takes the text written so far and announces new complete sentences. */
export function announce(text: string): void {
  if (text.length < told) told = heard = 0;
  whole = text;
  let end = told;
  for (const match of text.slice(heard).matchAll(SENTENCE_END)) end = heard + match.index + match[0].length;
  if (end > told) say(text.slice(told, end));
  told = end;
  heard = Math.max(end, text.length - 1); // the last character may end a sentence if white space follows
}

/** Announces the rest, and starts over. */
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
