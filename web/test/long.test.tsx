// The part of a long answer that is rendered again when it grows by a piece: counted, not timed.
import { Lexer, type Tokens } from "marked";
import { isValidElement, type VNode } from "preact";
import { expect, test, vi } from "vitest";

import { type Answer, NEW } from "../src/ask/answer";
import { BlockReader } from "../src/ask/blocks";
import { isSamePart, PartView, type PartProps, Renderer } from "../src/ask/Markdown";
import { marksReader } from "../src/ask/marks";

vi.mock("../src/ask/Badge", () => ({ Badge: () => null })); // these two need a browser
vi.mock("../src/words", () => ({ words: { value: {} } }));

const ITEMS = Array.from({ length: 300 }, (_, number) => `- Item ${number} says something. [ref:1]\n`);

function answerOf(text: string, sentences: [number, number][] = []): Answer {
  const verified = sentences.map(([start, end]) => ({ index: 1, sentence: { start, end } }));
  return { ...NEW, status: "writing", text, citations: [{ index: 1 }], verified, uncited: [] } as unknown as Answer;
}

/** The parts of a rendered block. */
function partsOf(written: unknown): PartProps[] {
  if (Array.isArray(written)) return written.flatMap(partsOf);
  if (!isValidElement(written)) return [];
  const { type, props } = written as VNode<{ children?: unknown; bodies?: unknown }>;
  return (type as unknown) === PartView ? [props as unknown as PartProps] : partsOf(props.bodies ?? props.children);
}

function longParts(reader: BlockReader, answer: Answer): PartProps[] {
  const block = reader.read(answer.text).find(({ parts }) => parts !== null);
  if (block === undefined) return [];
  const marksOf = marksReader(answer, true, "en");
  const span = { start: block.start, end: block.start + block.token.raw.length };
  return partsOf(new Renderer(block, marksOf(span), marksOf).block(block.token as Tokens.List));
}

const LONG: [string, (number: number) => string, string][] = [
  ["list", (number) => `- Item ${number} says something. [ref:1]\n`, ""],
  ["loose list", (number) => `- Item ${number} says something. [ref:1]\n${number === 3 ? "\n" : ""}`, ""],
  ["table", (number) => `| row ${number} | says something [ref:1] |\n`, "| a | b |\n|---|--:|\n"],
  ["code", (number) => `line ${number} says something [ref:1]\n`, "```py\n"],
  ["line of code", (number) => `word ${number} says something [ref:1] `, "~~~\n"],
];

test.each(LONG)("a long %s that grows writes its last part anew, and no other", (_, entry, begin) => {
  const reader = new BlockReader();
  const entries = Array.from({ length: 600 }, (_, number) => entry(number));
  let before: PartProps[] = [];
  for (let count = 0; count <= entries.length; count += 7) {
    const after = longParts(reader, answerOf(begin + entries.slice(0, count).join("")));
    const anew = after.filter((part, at) => before[at] === undefined || !isSamePart(before[at], part));
    if (before.length > 0) expect(anew.length).toBeLessThanOrEqual(2);
    expect(Math.max(0, ...anew.map(({ part }) => part.token.raw.length))).toBeLessThan(9000);
    before = after;
  }
  expect(before.length).toBeGreaterThan(3);
});

test("a citation that was verified has its own part written anew, and no other", () => {
  const reader = new BlockReader();
  const text = ITEMS.join("");
  const before = longParts(reader, answerOf(text));
  const start = text.indexOf("Item 40 ");
  const after = longParts(reader, answerOf(text, [[start, text.indexOf("[ref:1]", start)]]));
  const anew = after.flatMap((part, at) => (isSamePart(before[at]!, part) ? [] : [part]));
  expect(anew.length).toBe(1);
  expect(anew[0]!.part.token.raw).toContain("Item 40 ");
});

test("a sentence over two parts is marked in both", () => {
  const text = ITEMS.join("");
  const second = longParts(new BlockReader(), answerOf(text))[1]!.part.start;
  const answer = { ...answerOf(text), uncited: [{ sentence: { start: second - 9, end: second + 9 } }] } as unknown as Answer;
  expect(longParts(new BlockReader(), answer).map((part) => part.marks.uncited.length)).toEqual([1, 1, ...Array(8).fill(0)]);
});

test("a long answer reads its last blocks anew, and no others", () => {
  const reader = new BlockReader();
  const text = Array.from({ length: 500 }, (_, number) => `Sentence ${number} of it. [ref:1]\n\n`).join("");
  reader.read(text);
  const before = reader.read(text + "More");
  const after = reader.read(text + "More of it");
  expect(after.filter((block, at) => block !== before[at]).length).toBeLessThanOrEqual(3);
});

const lines = (line: (number: number) => string) => (length: number) => {
  let text = "";
  for (let number = 0; text.length < length; number++) text += `${line(number)}\n`;
  return text;
};
const WORDS = "Some words of it, with *emphasis* and a source [ref:1]. ";
const HEBREW = "\u05d4\u05d7\u05d6\u05e8 \u05d4\u05d5\u05e6\u05d0\u05d5\u05ea, 62 \u05d0\u05d9\u05e8\u05d5 \u05dc\u05d9\u05d5\u05dd [ref:1]. ";
const HOSTILE: [string, (length: number) => string][] = [
  ["lines of code", (length) => "```\n" + lines((number) => `call(${number})  # ${WORDS}`)(length)],
  ["one line of code", (length) => "```\n" + WORDS.repeat(length / WORDS.length)],
  ["code that is closed too early", lines((number) => (number % 90 === 0 ? "```" : `call(${number})`))],
  ["rows", (length) => "| a | b |\n|---|---|\n" + lines((number) => `| ${number} | ${WORDS} |`)(length)],
  ["a head of many cells", (length) => `${"| a ".repeat(length / 8)}|\n${"|---".repeat(length / 8)}|\n`],
  ["a row of many cells", (length) => `| a | b |\n|---|---|\n${"| c ".repeat(length / 4)}|\n`],
  ["one line", (length) => WORDS.repeat(length / WORDS.length)],
  ["one line without a space", (length) => "word".repeat(length / 4)],
  ["one line of Hebrew", (length) => HEBREW.repeat(length / HEBREW.length)],
  ["one line of Chinese", (length) => "\u6bcf\u5929\u7684\u9910\u8d39\u6d25\u8d34\u662f62\u6b27\u5143\u3002".repeat(length / 14)],
  ["lines of one paragraph", lines(() => WORDS)],
  ["emphasis that doesn't end", (length) => `**${WORDS.replaceAll("*", "")}`.repeat(length / WORDS.length)],
  ["brackets", (length) => "[".repeat(length)],
  ["a loose list", (length) => "- first\n\n" + lines((number) => `- ${number} ${WORDS}`)(length)],
  ["lists in lists", lines((number) => `${"  ".repeat(number % 100)}- ${WORDS}`)],
  ["quotes in quotes", lines((number) => `${"> ".repeat(1 + (number % 100))}${WORDS}`)],
  ["quote signs", (length) => "> ".repeat(length / 2)],
  ["a quote", lines(() => `> ${WORDS}`)],
  ["a table in a list", (length) => "- item\n\n  | a | b |\n  |---|---|\n" + lines((number) => `  | ${number} | ${WORDS} |`)(length)],
  ["code in a list", (length) => "- item\n  ```\n" + lines((number) => `  call(${number})`)(length)],
  ["HTML", (length) => "<div>\n" + lines(() => `<p>${WORDS}</p>`)(length)],
  ["lines that end as Windows' do", lines(() => `${WORDS}\r`)],
];

/** The characters that the lexer is given while a text grows by pieces of 500. */
function lexed(text: string): number {
  let characters = 0;
  const spies = [vi.spyOn(Lexer.prototype, "blockTokens"), vi.spyOn(Lexer.prototype, "inlineTokens")];
  const reader = new BlockReader();
  for (let end = 500; end < text.length; end += 500) reader.read(text.slice(0, end), true);
  reader.read(text);
  for (const spy of spies) {
    for (const [source] of spy.mock.calls) characters += source.length;
    spy.mockRestore();
  }
  return characters;
}

test.each(HOSTILE)("twice as much text is twice as much to read: %s", (_, text) => {
  const [less, more] = [lexed(text(20_000)), lexed(text(40_000))];
  expect(more / less).toBeLessThan(2.5);
});

const DEEP: [string, string, (number: number) => string][] = [
  ["a table in a list", "- item\n\n  | a | b |\n  |---|---|\n", (number) => `  | row ${number} | says something [ref:1] |\n`],
  ["a table in quotes", "> > | a | b |\n> > |---|---|\n", (number) => `> > | row ${number} | says something [ref:1] |\n`],
  ["a list in a list", "- item\n", (number) => `  - Item ${number} says something. [ref:1]\n`],
  ["blocks in a list", "1. item\n\n", (number) => `    Part ${number} says something. [ref:1]\n\n   \`\`\`\n   x\n   \`\`\`\n\n`],
  ["paragraphs in a quote", "", (number) => `> Part ${number} says something. [ref:1]\n>\n`],
];

test.each(DEEP)("what is settled of %s isn't written again, and each source has its place", (_, begin, entry) => {
  const entries = Array.from({ length: 600 }, (_, number) => entry(number));
  const partsAt = (count: number) => {
    const text = begin + entries.slice(0, count).join("");
    const parts = [...new BlockReader().read(text)].flatMap((block) => {
      const marksOf = marksReader(answerOf(text), true, "en");
      return partsOf(new Renderer(block, marksOf({ start: 0, end: text.length }), marksOf).block(block.token));
    });
    return { text, parts };
  };
  const [before, after] = [partsAt(590), partsAt(600)];
  expect(after.parts.length).toBeGreaterThan(4);
  const anew = after.parts.filter((part, at) => before.parts[at] === undefined || !isSamePart(before.parts[at], part));
  expect(anew.length).toBeLessThanOrEqual(3);
  for (const { part: { start, token } } of after.parts) {
    expect(after.text.slice(start, start + token.raw.length)).toBe(token.raw);
  }
  expect(after.parts.map(({ part }) => part.token.raw).join("\n").match(/something/g)?.length).toBe(600);
});
