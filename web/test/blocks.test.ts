import { Lexer } from "marked";
import { expect, test, vi } from "vitest";

import { toUnits } from "../src/ask/answer";
import { BlockReader } from "../src/ask/blocks";

const TEXT = [
  "# Title", "", "A paragraph with *emphasis* [ref:1]", "that goes on.", "", "- one", "- two", "  - three", "", "  more", "",
  "```py", "x = items[1]", "", "y = 2", "```", "", "| a | b |", "|---|---|", "| 1 | 2 |", "", "Setext", "===", "", "> quote",
  "", "1. first", "2. second", "", "Last one, 😀 with [ref:2].", "", "<b>raw</b>", "", "end",
].join("\n");

function shape(blocks: { token: { type: string; raw: string }; start: number }[]) {
  return blocks.map(({ token, start }) => [token.type, token.raw, start]);
}

test("a text that grows is read as the whole text is, at every length", () => {
  const reader = new BlockReader();
  for (let end = 0; end <= TEXT.length; end++) {
    const text = TEXT.slice(0, end);
    let start = 0;
    const whole = new Lexer({ gfm: true, breaks: true }).lex(text).map((token) => {
      const entry = [token.type, token.raw, start];
      start += token.raw.length;
      return entry;
    });
    expect(shape(reader.read(text))).toEqual(whole);
  }
});

const ITEM = "Item with *emphasis* [ref:1]";
const nested = (number: number) => (number % 7 === 3 ? `  - below ${number}\n` : number % 11 === 5 ? "  goes on\n" : "");
test.each([
  ["tight", (number: number) => `- ${ITEM} ${number}\n${nested(number)}`, ""],
  ["loose", (number: number) => `- ${ITEM} ${number}\n\n`, "After it.\n\n- another\n"],
  ["loose at the end", (number: number) => `- ${ITEM} ${number}\n${number > 35 ? "\n" : ""}`, "After it.\n"],
  ["numbered", (number: number) => `${number + 3}. ${ITEM}\n`, "\n- another\n"],
  ["tasks", (number: number) => `- [${number % 2 ? "x" : " "}] ${ITEM}\n`, "\n# After it\n"],
  ["other bullets", (number: number) => `${number > 30 ? "*" : "-"} ${ITEM}\n`, ""],
])("a long list that grows is read as the whole is: %s", (_, item, after) => {
  const text = `Before it.\n\n${Array.from({ length: 44 }, (_, number) => item(number)).join("")}${after}`;
  const reader = new BlockReader();
  for (let end = 0; end <= text.length; end += end < 600 ? 60 : 5) { // a list is long from 20 items on
    const whole = new Lexer({ gfm: true, breaks: true }).lex(text.slice(0, end));
    expect(JSON.stringify(reader.read(text.slice(0, end)).map(({ token }) => token))).toBe(JSON.stringify(whole));
  }
});

test("of a long list that grows, the last items alone are read", () => {
  const lex = vi.spyOn(Lexer.prototype, "lex");
  const reader = new BlockReader();
  const text = `Before it.\n\n${Array.from({ length: 300 }, (_, number) => `- ${ITEM} ${number}\n`).join("")}`;
  for (let end = 0; end < text.length; end += 40) reader.read(text.slice(0, end));
  const most = Math.max(...lex.mock.calls.map(([source]) => source.length));
  lex.mockRestore();
  expect(most).toBeLessThan(1500);
});

test("blocks that can't change stay the same objects", () => {
  const reader = new BlockReader();
  const paragraphs = Array.from({ length: 40 }, (_, number) => `Paragraph ${number}.`).join("\n\n");
  const before = reader.read(paragraphs);
  const after = reader.read(`${paragraphs} More.`);
  expect(after.slice(0, -4)).toEqual(before.slice(0, -4));
  expect(after.slice(0, -4).every((block, number) => block === before[number])).toBe(true);
});

test("another text begins anew", () => {
  const reader = new BlockReader();
  reader.read(TEXT);
  expect(reader.read("other").map(({ token }) => token.raw)).toEqual(["other"]);
});

test("offsets in code points become offsets in units", () => {
  expect([0, 1, 2, 3, 9].map((points) => toUnits("a😀b", points))).toEqual([0, 1, 3, 4, 4]);
});
