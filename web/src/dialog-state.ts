// The dialog that is open on top of the page.
import type { Document } from "@citewire/client";
import { signal } from "@preact/signals";

export type OpenDialog =
  | { kind: "sharing"; conversation: string; title: string }
  | { kind: "grants"; collection: string }
  | { kind: "readers"; document: Document; onSaved: (document: Document) => void };

export const dialog = signal<OpenDialog | null>(null);
