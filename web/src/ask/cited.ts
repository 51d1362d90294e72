// Links to a citation: `#/c/CONVERSATION/EXCHANGE/NUMBER`, followed by the sentence's beginning if a sentence cites it.
import { computed } from "@preact/signals";

import { conversationId, place, toast } from "../state";
import { words } from "../words";
import { openBeside } from "./beside";
import { type BadgeTarget, card, targetOf } from "./card-state";
import { fetchChunk, spanOf } from "./passages";

/** Windows with room for the original beside the answer; see style.css. */
const WIDE = "(min-width: 70.01rem)";

interface Cited {
  exchange: string;
  index: number;
  sentence: number | null;
}

/** The citation in the URL. */
const cited = computed<Cited | null>(() => {
  const [, , exchange, index, sentence] = place.value;
  if (conversationId.value === null || exchange === undefined || !/^\d+$/.test(index ?? "")) return null;
  return { exchange, index: Number(index), sentence: /^\d+$/.test(sentence ?? "") ? Number(sentence) : null };
});

export const citedAddress = computed(() => (cited.value === null ? "" : place.value.join("/")));

/** The URL of the citation that a badge or source opens; null while its answer isn't stored. */
export function linkTo(anchor: HTMLElement, { citation, verified }: BadgeTarget): string | null {
  const exchange = anchor.closest<HTMLElement>("[data-exchange]")?.dataset["exchange"];
  if (exchange === undefined || conversationId.value === null) return null;
  const sentence = verified === null ? "" : `/${verified.sentence.start}`;
  return `${location.origin}${location.pathname}#/c/${conversationId.value}/${exchange}/${citation.index}${sentence}`;
}

/** Opens the citation in the URL once its conversation is shown: the passage beside the answer, and the card. */
export async function openCited(): Promise<void> {
  const [wanted, address] = [cited.value, citedAddress.value];
  if (wanted === null) return;
  await new Promise(requestAnimationFrame); // the turns have been rendered
  await new Promise(requestAnimationFrame);
  const anchor = anchorOf(wanted);
  if (anchor === null) {
    toast(words.value.citationGone, "note");
    return;
  }
  const target = targetOf(anchor)!;
  if (matchMedia(WIDE).matches) {
    const chunk = await fetchChunk(target.citation.chunk_id).catch(() => null); // the card reports that it no longer exists
    const span = spanOf(target.verified, chunk);
    if (citedAddress.value !== address || !anchor.isConnected) return; // the user has moved on meanwhile
    if (span !== null) openBeside(anchor, target, span, { original: true, takesFocus: false });
    await new Promise(requestAnimationFrame); // the lines have become narrower
  }
  anchor.scrollIntoView({ block: "center" });
  card.value = { anchor, target, pinned: true };
}

/** The sentence's badge, or else the first one that opens the source. */
function anchorOf({ exchange, index, sentence }: Cited): HTMLElement | null {
  const answer = [...document.querySelectorAll<HTMLElement>("[data-exchange]")].find(({ dataset }) => dataset["exchange"] === exchange);
  const anchors = [...(answer?.querySelectorAll<HTMLElement>("[aria-haspopup=dialog]") ?? [])];
  const same = anchors.filter((anchor) => targetOf(anchor)?.citation.index === index);
  return same.find((anchor) => targetOf(anchor)?.verified?.sentence.start === sentence) ?? same[0] ?? null;
}
