import { describe, expect, test } from "vitest";

import { badgeText, findMarkers, MarkerParser, type Segment, splitMarkers } from "../src/index";

const known = (index: number) => index >= 1 && index <= 12;

/** The text that a reader sees after each piece. */
function show(pieces: string[]): { segments: Segment[]; seen: string[] } {
  const parser = new MarkerParser(known);
  const segments: Segment[] = [];
  const seen: string[] = [];
  for (const piece of pieces) {
    segments.push(...parser.push(piece));
    seen.push(segments.map((segment) => (segment.kind === "text" ? segment.text : badgeText(segment.index))).join(""));
  }
  segments.push(...parser.end());
  return { segments, seen };
}

function joined(segments: Segment[]): Segment[] {
  const result: Segment[] = [];
  for (const segment of segments) {
    const last = result.at(-1);
    if (last?.kind === "text" && segment.kind === "text") last.text += segment.text;
    else result.push({ ...segment });
  }
  return result;
}

describe.each(["Revenue grew.[ref:3] More.", "[ref:12]", "a [ref:1][ref:2] b", "Grew. [SOURCE 4] So."])("%j", (text) => {
  const whole = splitMarkers(text, known);

  test("is the same however it is split in three, and no half marker is ever shown", () => {
    for (let first = 0; first <= text.length; first++) {
      for (let second = first; second <= text.length; second++) {
        const { segments, seen } = show([text.slice(0, first), text.slice(first, second), text.slice(second)]);
        expect(joined(segments)).toEqual(whole);
        for (const shown of seen) expect(shown).not.toMatch(/\[(?!\d+\])/);
      }
    }
  });

  test("is the same character by character", () => {
    expect(joined(show([...text]).segments)).toEqual(whole);
  });
});

test("a number that isn't there stays as the model wrote it", () => {
  for (const text of ["[ref:0]", "[ref:13]", "[ref:9999999]", "[SOURCE 99]"]) {
    expect(joined(show([...text]).segments)).toEqual([{ kind: "text", text }]);
  }
});

test("what only looks like one is shown, at the latest at the end", () => {
  for (const text of ["items[1] and [x](y)", "[re", "[ref:", "[ref:1", "[ref:x]", "[", "[SOURCE"]) {
    expect(joined(show([...text]).segments)).toEqual([{ kind: "text", text }]);
  }
});

test("badges are circled up to ten", () => {
  expect([1, 10, 11].map(badgeText)).toEqual(["①", "⑩", "[11]"]);
});

test("places count what isn't known, too", () => {
  expect(findMarkers("a[ref:1]b[ref:77]")).toEqual([
    { index: 1, at: 1, length: 7 },
    { index: 77, at: 9, length: 8 },
  ]);
});
