// How much of a long answer is written anew when it grows by a piece: counted, not timed.
import type { Tokens } from "marked";
import { isValidElement, type VNode } from "preact";
import { expect, test, vi } from "vitest";

import { type Answer, NEW } from "../src/ask/answer";
import { BlockReader } from "../src/ask/blocks";
import { isSamePart, Part, type PartProps, Renderer } from "../src/ask/Markdown";
import { marksReader } from "../src/ask/marks";

vi.mock("../src/ask/Badge", () => ({ Badge: () => null })); // these two need a browser
vi.mock("../src/words", () => ({ words: { value: {} } }));

const ITEMS = Array.from({ length: 300 }, (_, number) => `- Item ${number} says something. [ref:1]\n`);

function answerOf(text: string, sentences: [number, number][] = []): Answer {
  const verified = sentences.map(([start, end]) => ({ index: 1, sentence: { start, end } }));
  return { ...NEW, status: "writing", text, citations: [{ index: 1 }], verified, uncited: [] } as unknown as Answer;
}

/** The parts that a block's writing consists of. */
function partsOf(written: unknown): PartProps[] {
  if (Array.isArray(written)) return written.flatMap(partsOf);
  if (!isValidElement(written)) return [];
  const { type, props } = written as VNode<{ children?: unknown }>;
  return (type as unknown) === Part ? [props as unknown as PartProps] : partsOf(props.children);
}

function listParts(reader: BlockReader, answer: Answer): PartProps[] {
  const block = reader.read(answer.text).find(({ token }) => token.type === "list")!;
  const marksOf = marksReader(answer, "en");
  const span = { start: block.start, end: block.start + block.token.raw.length };
  return partsOf(new Renderer(block, marksOf(span), marksOf).block(block.token as Tokens.List));
}

test("a list that grows writes its last items anew, and no others", () => {
  const reader = new BlockReader();
  let before: PartProps[] = [];
  let most = 0;
  for (let count = 10; count <= ITEMS.length; count += 7) {
    const after = listParts(reader, answerOf(ITEMS.slice(0, count).join("") + "- Ite"));
    expect(after.length).toBe(count + 1);
    const anew = after.filter((part, at) => before[at] === undefined || !isSamePart(before[at], part));
    most = Math.max(most, before.length === 0 ? 0 : anew.length);
    before = after;
  }
  expect(most).toBeLessThanOrEqual(7 + 2);
});

test("a citation that was verified has its own item written anew, and no other", () => {
  const reader = new BlockReader();
  const text = ITEMS.join("");
  const before = listParts(reader, answerOf(text));
  const start = text.indexOf("Item 40 ");
  const after = listParts(reader, answerOf(text, [[start, text.indexOf("[ref:1]", start)]]));
  const anew = after.flatMap((part, at) => (isSamePart(before[at]!, part) ? [] : [at]));
  expect(anew).toEqual([40]);
});

test("a long answer reads its last blocks anew, and no others", () => {
  const reader = new BlockReader();
  const text = Array.from({ length: 500 }, (_, number) => `Sentence ${number} of it. [ref:1]\n\n`).join("");
  reader.read(text);
  const before = reader.read(text + "More");
  const after = reader.read(text + "More of it");
  expect(after.filter((block, at) => block !== before[at]).length).toBeLessThanOrEqual(3);
});

test("a sentence over two items is marked in both", () => {
  const text = "- one\n- two\n";
  const answer = { ...answerOf(text), uncited: [{ sentence: { start: 2, end: 11 } }] } as unknown as Answer;
  expect(listParts(new BlockReader(), answer).map((part) => part.marks.uncited.length)).toEqual([1, 1]);
});
