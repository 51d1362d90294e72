// The place of a passage or quote: in words, and as a URL of the original.
import type { Citation, VerifiedCitation } from "@citewire/client";

import { nameText } from "../links";
import { words } from "../words";

const ROOT = "$"; // the path of a data file's whole content

const PLACE = [
  "page_number", "slide", "sheet", "cell_range", "row_number", "cell", "record_path", "start_seconds", "start_line", "end_line", "part",
] as const satisfies (keyof Citation & keyof VerifiedCitation)[];

/** A citation with the place of its quote, which is often a part of the passage's. */
export function atQuote(citation: Citation, verified: VerifiedCitation | null): Citation {
  if (verified === null || verified.quote === "") return citation;
  const known = PLACE.filter((name) => verified[name] !== undefined);
  // A quote is in one row, while its passage may contain several.
  const { end_row_number, ...rest } = citation;
  const passage = verified.row_number === undefined && end_row_number !== undefined ? citation : rest;
  return { ...passage, ...Object.fromEntries(known.map((name) => [name, verified[name]])) };
}

/** The position at which an original without pages opens: its part, slide, cells, row, path or time, if known. */
export function contentPath(citation: Citation): string {
  const path = `/v1/documents/${citation.document_id}/content?version=${citation.version}`;
  if (citation.part !== undefined) return `${path}#part=${encodeURIComponent(citation.part)}`;
  if (citation.cell !== undefined) return `${path}#cell=${citation.cell}`;
  if (citation.record_path !== undefined) return `${path}#path=${encodeURIComponent(citation.record_path)}`;
  if (citation.start_seconds !== undefined) return `${path}#t=${citation.start_seconds}`;
  if (citation.slide !== undefined) return `${path}#slide=${citation.slide}`;
  const rows = citation.row_number === undefined ? "" : `row=${citation.row_number}${citation.end_row_number === undefined ? "" : `-${citation.end_row_number}`}`;
  if (citation.sheet === undefined) return rows === "" ? path : `${path}#${rows}`;
  const inside = citation.cell_range === undefined ? rows : `range=${citation.cell_range}`;
  return `${path}#sheet=${encodeURIComponent(citation.sheet)}&${inside}`;
}

/** A time from the beginning, in the format of media players. */
function clock(seconds: number): string {
  return [seconds / 3600, (seconds / 60) % 60, seconds % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
}

function rowText(first: number, last: number): string {
  return first === last ? words.value.row(first) : words.value.rows(first, last);
}

/** The place of a passage in words. */
export function placeText(citation: Citation): string {
  const section = citation.section?.split(" > ").at(-1) ?? "";
  const parts = [citation.file_name && citation.file_name !== citation.title ? nameText(citation.file_name) : "", nameText(citation.part ?? ""), section === citation.sheet ? "" : section];
  if (citation.page_number !== undefined) parts.push(words.value.page(citation.page_number));
  else if (citation.slide !== undefined) parts.push(words.value.slide(citation.slide));
  else if (citation.sheet !== undefined && citation.cell_range !== undefined) parts.push(`${citation.sheet}!${citation.cell_range}`);
  else if (citation.row_number !== undefined) parts.push(nameText(citation.sheet ?? ""), rowText(citation.row_number, citation.end_row_number ?? citation.row_number));
  else if (citation.cell !== undefined) parts.push(words.value.cell(citation.cell));
  else if (citation.record_path !== undefined) parts.push(citation.record_path === ROOT ? "" : citation.record_path);
  else if (citation.start_seconds !== undefined) parts.push(clock(citation.start_seconds));
  else if (citation.start_line !== undefined) parts.push(words.value.lines(citation.start_line, citation.end_line ?? citation.start_line));
  return parts.filter((part, number) => part !== "" && parts.indexOf(part) === number).join(" · ");
}
