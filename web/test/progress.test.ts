import { expect, test, vi } from "vitest";

import type { Document } from "@citewire/client";

import { Progress, stateText, updated } from "../src/library/progress";

vi.mock("../src/words", async () => { // the rest needs a browser
  const { de } = await import("../src/words/de");
  return { words: { value: de } };
});

function document(id: number, status: Document["status"], progress?: Document["progress"]): Document {
  return { id, status, ...(progress && { progress }) } as Document;
}

test("a document tells how many pages are read, then how many passages", () => {
  const pages = document(1, "processing", { stage: "parse", done: 12, total: 300 });
  expect(stateText("processing", pages.progress)).toBe("Wird gelesen, 12 von 300 Seiten");
  expect(Progress({ document: pages, name: "tides.pdf" })?.props).toMatchObject({
    value: 12, max: 300, "aria-label": "tides.pdf", "aria-valuetext": "Wird gelesen, 12 von 300 Seiten",
  });
  expect(stateText("processing", { stage: "embed", done: 0, total: 1 })).toBe("Wird gelesen, 0 von 1 Stelle");
});

test.each([
  document(1, "pending"),
  document(1, "processing", { stage: "parse", done: 0, total: null }), // no PDF: nobody knows how long it is
  document(1, "ready"),
])("there is no bar where there is nothing to count", (document) => {
  expect(Progress({ document, name: "tides.md" })).toBeNull();
  expect(stateText(document.status, document.progress)).not.toMatch(/\d/);
});

test("a later list changes what was unfinished, and tells if it lacks it", () => {
  const before = [document(3, "processing"), document(2, "ready"), document(1, "pending")];
  const later = [document(4, "ready"), document(3, "ready"), document(2, "failed"), document(1, "processing")];
  expect(updated(before, later)).toEqual([later[1], before[1], later[3]]);
  expect(updated(before, later.slice(0, 3))).toBeNull();
});
