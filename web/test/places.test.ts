import { expect, test, vi } from "vitest";

import type { Citation, VerifiedCitation } from "@citewire/client";

import { atQuote, contentPath, placeText } from "../src/ask/places";

vi.mock("../src/words", () => ({ // they need a browser
  words: { value: { row: (row: number) => `Row ${row}`, rows: (first: number, last: number) => `Rows ${first}–${last}` } },
}));

const PASSAGE = { document_id: 7, version: 2, title: "fees.csv", file_name: "fees.csv", row_number: 5, end_row_number: 8 } as Citation;
const VERIFIED = { quote: "Pier: Gull", row_number: 6 } as VerifiedCitation;

test("a passage of several rows names them all, and a quote its own", () => {
  expect(placeText(PASSAGE)).toBe("Rows 5–8");
  expect(contentPath(PASSAGE)).toBe("/v1/documents/7/content?version=2#row=5-8");
  const quote = atQuote(PASSAGE, VERIFIED);
  expect(placeText(quote)).toBe("Row 6");
  expect(contentPath(quote)).toBe("/v1/documents/7/content?version=2#row=6");
});
