import { Lexer, type Tokens } from "marked";
import { expect, test } from "vitest";

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

const ROWS = Array.from({ length: 60 }, (_, number) => `| ${number} | ${ITEM}${number % 9 === 4 ? " | too many" : ""} |\n`).join("");
const LINES = Array.from({ length: 60 }, (_, number) => ["x = 1", "", "  `y`", "``", "~~~", "```z", "\t- z"][number % 7]).join("\n");
test.each([
  ["a table", `| a | b |\n|:--|--:|\n${ROWS}\nAfter it.\n`],
  ["a table before a list", `a | b\n--|--\n${ROWS}- one\n- two\n`],
  ["code", `\`\`\`py title\n${LINES}\n\`\`\`\nAfter it.\n`],
  ["code that isn't closed", `~~~\n${LINES.replaceAll("~", "-")}\n`],
  ["code with blank lines at its end", `\`\`\`\`\n${LINES}\n\n\n\`\`\`\`\n\n\n- one\n- two\n`],
  ["two of them", `\`\`\`\n${LINES}\n\`\`\`\n| a | b |\n|---|---|\n${ROWS}`],
])("long blocks that grow are read as the whole is: %s", (_, text) => {
  const reader = new BlockReader();
  for (let end = 0; end <= text.length; end += 3) {
    const whole = new Lexer({ gfm: true, breaks: true }).lex(text.slice(0, end));
    const blocks = reader.read(text.slice(0, end));
    expect(JSON.stringify(blocks.map(({ token }) => token))).toBe(JSON.stringify(whole));
    for (const { parts, start, token } of blocks) {
      if (parts === null) continue;
      const begin = parts[0]!.start;
      expect(parts.map((part) => part.token.raw).join("")).toBe(token.raw.slice(begin - start));
      if (token.type === "code") expect(parts.map((part) => (part.token as Tokens.Code).text).join("")).toBe(token.text);
    }
  }
});

test("a paragraph that is very long is cut at sentences, at the same places however it comes", () => {
  const sentence = "One *sentence* of it, with `code. Of` its own and [a link. To it](https://example.org). ";
  const text = `Before it.\n\n${sentence.repeat(150)}\n\nAfter it.\n`;
  const whole = new BlockReader().read(text);
  const reader = new BlockReader();
  for (let end = 0; end <= text.length; end += 31) reader.read(text.slice(0, end), true);
  const grown = reader.read(text);
  expect(shape(grown)).toEqual(shape(whole));
  const pieces = whole.filter((block) => block.token.type === "paragraph").slice(1, -1);
  expect(pieces.length).toBeGreaterThan(4);
  expect(pieces.map(({ goesOn }) => goesOn)).toEqual([null, ...Array(pieces.length - 1).fill("ltr")]);
  expect(pieces.slice(0, -1).every(({ token }) => token.raw.endsWith("(https://example.org). "))).toBe(true);
});

test("what is read goes on in the direction of its beginning", () => {
  const hebrew = "\u05d4\u05d7\u05d6\u05e8 \u05d4\u05d5\u05e6\u05d0\u05d5\u05ea. Latin follows here. ";
  const [first, second] = new BlockReader().read(hebrew.repeat(200));
  expect([first!.goesOn, second!.goesOn]).toEqual([null, "rtl"]);
});

test.each(["> ", "- ", "1. "])("signs without end are text in the end: %s", (sign) => {
  expect(new BlockReader().read(sign.repeat(20_000)).length).toBe(1);
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
