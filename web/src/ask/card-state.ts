// Which card is open: by the mouse for as long as it stays, by click, tap and keyboard until it is closed.
import { signal } from "@preact/signals";

import type { BadgeTarget } from "./Badge";

export interface OpenCard {
  anchor: HTMLElement;
  target: BadgeTarget;
  /** Opened on purpose: it takes the focus and stays. */
  pinned: boolean;
}

const OPEN_MS = 120;
const CLOSE_MS = 220;
export const card = signal<OpenCard | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

/** Where the mouse was last; an element that comes to it, as text grows, wasn't pointed at. */
let pointer = "";
addEventListener("pointermove", (event) => (pointer = placeOf(event)), { capture: true, passive: true });

function placeOf(event: PointerEvent): string {
  return `${event.screenX} ${event.screenY}`;
}

export function hoverIn(event: PointerEvent & { currentTarget: HTMLElement }, target: BadgeTarget): void {
  if (event.pointerType !== "mouse" || placeOf(event) === pointer) return;
  const anchor = event.currentTarget;
  clearTimeout(timer);
  if (card.value?.pinned) return;
  timer = setTimeout(() => (card.value = { anchor, target, pinned: false }), OPEN_MS);
}

export function hoverOut(): void {
  clearTimeout(timer);
  if (card.value !== null && !card.value.pinned) timer = setTimeout(() => (card.value = null), CLOSE_MS);
}

/** The mouse is on the card itself. */
export function keepOpen(): void {
  clearTimeout(timer);
}

export function togglePinned(anchor: HTMLElement, target: BadgeTarget): void {
  clearTimeout(timer);
  const again = card.value?.pinned && card.value.anchor === anchor;
  card.value = again ? null : { anchor, target, pinned: true };
}

/** Closes the card; the focus goes back to the badge if the card had it. */
export function closeCard(): void {
  clearTimeout(timer);
  const open = card.value;
  card.value = null;
  if (open?.pinned) open.anchor.focus();
}
