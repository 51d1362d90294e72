// The open card: opened by hovering until the mouse leaves; by click, tap or keyboard until it is closed.
import type { Citation, VerifiedCitation } from "@citewire/client";
import { effect, signal } from "@preact/signals";

export interface BadgeTarget {
  citation: Citation;
  /** The quote and verdict for this sentence; null if they are unknown or not yet known. */
  verified: VerifiedCitation | null;
}

export interface OpenCard {
  anchor: HTMLElement;
  target: BadgeTarget;
  /** Opened deliberately: it takes the focus and stays. */
  pinned: boolean;
}

const OPEN_MS = 120;
const CLOSE_MS = 220;
/** Windows whose cards are at the bottom, possibly over their badge: only a click opens them there. Matches the style sheet. */
const NARROW = "(max-width: 46rem)";
export const card = signal<OpenCard | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

/** The mouse's last position; an element that moves under it as text grows wasn't pointed at. */
let pointer = "";
addEventListener("pointermove", (event) => (pointer = placeOf(event)), { capture: true, passive: true });

function placeOf(event: PointerEvent): string {
  return `${event.screenX} ${event.screenY}`;
}

/** The elements that open cards, badges and sources: an answer listens for all of its own. */
const anchors = new WeakMap<HTMLElement, BadgeTarget>();

export function anchorRef(target: BadgeTarget): (element: HTMLElement | null) => void {
  return (element) => {
    if (element !== null) anchors.set(element, target);
  };
}

/** The card that an element opens, if any. */
export function targetOf(anchor: HTMLElement): BadgeTarget | undefined {
  return anchors.get(anchor);
}

type TargetedEvent = MouseEvent & { target: EventTarget | null };

function anchorOf(event: TargetedEvent): { anchor: HTMLElement; target: BadgeTarget } | null {
  const anchor = (event.target as Element).closest<HTMLElement>("[aria-haspopup=dialog]");
  const target = anchor === null ? undefined : anchors.get(anchor);
  return anchor === null || target === undefined ? null : { anchor, target };
}

export const anchorEvents = {
  onClick(event: TargetedEvent): void {
    const found = anchorOf(event);
    if (found !== null) togglePinned(found.anchor, found.target);
  },
  onPointerOver(event: PointerEvent): void {
    const found = anchorOf(event);
    if (found !== null && !found.anchor.contains(event.relatedTarget as Node | null)) hoverIn(event, found.anchor, found.target);
  },
  onPointerOut(event: PointerEvent): void {
    const found = anchorOf(event);
    if (found !== null && !found.anchor.contains(event.relatedTarget as Node | null)) hoverOut();
  },
};

let expanded: HTMLElement | null = null;
effect(() => {
  expanded?.setAttribute("aria-expanded", "false");
  expanded = card.value?.pinned ? card.value.anchor : null;
  expanded?.setAttribute("aria-expanded", "true");
});

function hoverIn(event: PointerEvent, anchor: HTMLElement, target: BadgeTarget): void {
  if (event.pointerType !== "mouse" || placeOf(event) === pointer) return;
  clearTimeout(timer);
  if (card.value?.pinned || matchMedia(NARROW).matches) return;
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

/** The reader moved into the card: it stays, even if the mouse has just left it. */
export function pin(open: OpenCard): void {
  clearTimeout(timer);
  if (!open.pinned) card.value = { ...open, pinned: true };
}

function togglePinned(anchor: HTMLElement, target: BadgeTarget): void {
  clearTimeout(timer);
  const again = card.value?.pinned && card.value.anchor === anchor;
  card.value = again ? null : { anchor, target, pinned: true };
}

/** Closes the card; the focus returns to the badge if the card had it. */
export function closeCard(): void {
  clearTimeout(timer);
  const open = card.value;
  card.value = null;
  if (open?.pinned) open.anchor.focus();
}
