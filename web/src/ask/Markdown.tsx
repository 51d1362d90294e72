// Renders a block of an answer as elements. Text becomes only text nodes: no HTML is ever parsed.
import { splitMarkers } from "@citewire/client";
import type { Token, Tokens } from "marked";
import { type ComponentChildren, Fragment } from "preact";
import { memo } from "preact/compat";

import { safeUrl } from "../links";
import { words } from "../words";
import type { Span } from "./answer";
import { Badge } from "./Badge";
import type { Block } from "./blocks";
import type { BadgeTarget } from "./card-state";
import { type Part, some } from "./long";
import { Table } from "./Table";

/** The marks in a part of the answer, by offsets in the whole answer. */
export interface Marks {
  /** The citation for the marker at an offset; null if there is none. */
  target: (index: number, at: number | null) => BadgeTarget | null;
  /** Badges for profiles that write no markers. */
  placed: { at: number; target: BadgeTarget }[];
  /** Sentences without citations. */
  uncited: Span[];
  /** Changes when any of these changes. */
  version: string;
}

export type MarksOf = (part: Span) => Marks;

interface BlockProps {
  block: Block;
  marks: Marks;
  marksOf: MarksOf;
}

const MarkdownBlock = memo(
  ({ block, marks, marksOf }: BlockProps) => <>{new Renderer(block, marks, marksOf).block(block.token)}</>,
  (before, after) => before.block === after.block && before.marks.version === after.marks.version,
);

export interface GroupProps {
  blocks: Block[];
  /** The key of the group as a whole. */
  marks: Marks;
  marksOf: MarksOf;
}

export const isSameGroup = (before: GroupProps, after: GroupProps): boolean =>
  before.marks.version === after.marks.version && before.blocks.length === after.blocks.length &&
  before.blocks.every((block, at) => block === after.blocks[at]);

const BlockGroup = memo(({ blocks, marksOf }: GroupProps) => (
  <Room of={blocks.map(({ token }) => token)}>
    {blocks.map((block) => <MarkdownBlock key={block.key} block={block} marks={marksOf(spanOf(block))} marksOf={marksOf} />)}
  </Room>
), isSameGroup);

/**
 * This many blocks or characters are compared as one group, and laid out as one when they are in view: in a long answer, each
 * frame changes only the last few. A browser checks every box that it may skip, so there should be few.
 */
const GROUP = 32;
const GROUP_CHARACTERS = 4000;

/** Divides consecutive blocks into groups. */
function grouped<T>(entries: T[], rawOf: (entry: T) => string): T[][] {
  const groups: T[][] = [];
  let length = GROUP_CHARACTERS;
  for (const entry of entries) {
    if (length >= GROUP_CHARACTERS || groups.at(-1)!.length >= GROUP) {
      groups.push([]);
      length = 0;
    }
    groups.at(-1)!.push(entry);
    length += rawOf(entry).length;
  }
  return groups;
}

/** The blocks of an answer. */
export function Blocks({ blocks, marksOf }: { blocks: Block[]; marksOf: MarksOf }) {
  return (
    <>
      {grouped(blocks, ({ token }) => token.raw).map((group) => {
        const span = { start: group[0]!.start, end: spanOf(group.at(-1)!).end };
        return <BlockGroup key={group[0]!.key} blocks={group} marks={marksOf(span)} marksOf={marksOf} />;
      })}
    </>
  );
}

/** Blocks that are laid out when they come into view; until then they have the estimated height of their text. */
function Room({ of, children }: { of: Token[]; children: ComponentChildren }) {
  const height = of.reduce((sum, { raw }) => sum + 1 + raw.length / 50, 0);
  return <div class="blocks" style={{ "--height": `${Math.ceil(height)}em` }}>{children}</div>;
}

function spanOf({ start, token }: { start: number; token: Token }): Span {
  return { start, end: start + token.raw.length };
}

/** A part of a long block; it isn't rendered again with the block while it stays the same. */
export interface PartProps {
  part: Part;
  /** The inputs of its rendering besides its text. */
  kind: string;
  marks: Marks;
  marksOf: MarksOf;
  write: (writer: Renderer, part: Token, kind: string) => ComponentChildren;
}

/** Nested blocks are parsed again as their parents grow, with the same result. */
export const isSamePart = (before: PartProps, after: PartProps): boolean =>
  before.part.start === after.part.start && before.part.token.raw === after.part.token.raw && before.kind === after.kind &&
  before.marks.version === after.marks.version;

export const PartView = memo(
  ({ part, kind, marks, marksOf, write }: PartProps) => <>{write(new Renderer(part, marks, marksOf), part.token, kind)}</>,
  isSamePart,
);

export class Renderer {
  #cursor = 0;
  readonly #raw: string;

  /** `marksOf` returns the marks of the parts. */
  constructor(
    private readonly whole: Part & Partial<Pick<Block, "parts" | "goesOn">>,
    private readonly marks: Marks,
    private readonly marksOf: MarksOf,
  ) {
    this.#raw = whole.token.raw;
  }

  block(token: Token): ComponentChildren {
    switch (token.type) {
      case "heading": {
        const Heading = `h${Math.min(6, (token as Tokens.Heading).depth + 2)}` as "h3";
        return <Heading dir="auto">{this.inline(token.tokens)}</Heading>;
      }
      case "paragraph":
        return this.#paragraph(token as Tokens.Paragraph);
      case "list":
        return this.#list(token as Tokens.List);
      case "blockquote":
        return <blockquote>{this.blocks(token.tokens)}</blockquote>;
      case "code":
        return this.#code(token as Tokens.Code);
      case "hr":
        return <hr />;
      case "table":
        return this.#table(token as Tokens.Table);
      case "space":
      case "def":
        return null;
      case "html":
        return <p dir="auto">{this.#text(token.raw)}</p>;
      default: // the text of a tight list
        return "tokens" in token && token.tokens ? this.inline(token.tokens) : this.#text(token.raw);
    }
  }

  blocks(tokens: Token[] = []): ComponentChildren {
    const write = (writer: Renderer, group: Token) =>
      tokensOf(group).map((token, number) => <Fragment key={number}>{writer.block(token)}</Fragment>);
    const inRoom = (writer: Renderer, group: Token) => <Room of={tokensOf(group)}>{write(writer, group)}</Room>;
    const groups = grouped(tokens, rawOf);
    if (groups.length < 2) return write(this, { type: "group", raw: "", tokens });
    return groups.map((group, at) => {
      const kind = group.map(({ type }) => type).join(); // text in a list becomes a paragraph when the list becomes loose
      return this.#part(at, group.map(rawOf), { type: "group", raw: "", tokens: group }, kind, inRoom);
    });
  }

  inline(tokens: Token[] | undefined): ComponentChildren {
    return tokens?.map((token, number) => <Fragment key={number}>{this.#inlineToken(token)}</Fragment>);
  }

  #inlineToken(token: Token): ComponentChildren {
    switch (token.type) {
      case "strong":
        return <strong>{this.inline(token.tokens)}</strong>;
      case "em":
        return <em>{this.inline(token.tokens)}</em>;
      case "del":
        return <del>{this.inline(token.tokens)}</del>;
      case "codespan":
        this.#locate(token.raw);
        return <code dir="ltr">{(token as Tokens.Codespan).text}</code>;
      case "br":
        this.#locate(token.raw);
        return <br />;
      case "link":
      case "image":
        return this.#link(token as Tokens.Link | Tokens.Image);
      case "escape":
        this.#locate(token.raw);
        return (token as Tokens.Escape).text;
      default: // text, and HTML, which is shown as written
        return this.#text(token.raw);
    }
  }

  /** A link, if it leads to the web or to a mailbox; images would be fetched from third parties, so they become links too. */
  #link(token: Tokens.Link | Tokens.Image): ComponentChildren {
    this.#locate(token.raw);
    const url = safeUrl(token.href);
    const text = decoded(token.text) || token.href;
    return url === null ? text : <a href={url} target="_blank" rel="noopener noreferrer nofollow" dir="auto">{text}</a>;
  }

  #paragraph(token: Tokens.Paragraph): ComponentChildren {
    const goesOn = this.whole.token === token ? this.whole.goesOn : null;
    return <p dir={goesOn ?? "auto"} class={goesOn ? "goes-on" : undefined}>{this.inline(token.tokens)}</p>;
  }

  #list(list: Tokens.List): ComponentChildren {
    const items = this.#parts(list, () => (list.loose ? "loose" : "tight"), (writer, part) =>
      (part as Tokens.List).items.map((item, number) => (
        <li key={number} dir="auto">
          {item.task && <input type="checkbox" checked={item.checked === true} disabled aria-label={item.text} />}
          {writer.blocks(item.tokens)}
        </li>
      )),
    );
    return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
  }

  /** Complete lines form their own box; a line that was split continues in the next part. */
  #code(code: Tokens.Code): ComponentChildren {
    if (!this.#isLong(code)) {
      this.#locate(code.raw);
      return <div class="code"><pre tabIndex={0}><code dir="ltr">{code.text}</code></pre></div>;
    }
    const parts = this.whole.parts!;
    const isCut = (at: number) => at >= 0 && at < parts.length - 1 && !parts[at]!.token.raw.endsWith("\n");
    const kindOf = (at: number) => (isCut(at - 1) || isCut(at) ? "cut" : "lines");
    const lines = this.#parts(code, kindOf, (_, part, kind) =>
      kind === "cut" ? (part as Tokens.Code).text : <span class="lines">{(part as Tokens.Code).text}</span>,
    );
    return <div class="code"><pre tabIndex={0}><code class="long" dir="ltr">{lines}</code></pre></div>;
  }

  #table(table: Tokens.Table): ComponentChildren {
    const isLong = this.#isLong(table);
    const head = this.#row(table.header, "th", isLong);
    const bodies = this.#parts(table, () => table.align.join(), (writer, part) => (
      <tbody role={isLong ? "rowgroup" : undefined}>
        {(part as Tokens.Table).rows.map((row, line) => <Fragment key={line}>{writer.#row(row, "td", isLong)}</Fragment>)}
      </tbody>
    ));
    return <Table isLong={isLong} head={head} bodies={bodies} />;
  }

  /** The roles restore the table semantics that a long table's style removes from its elements. */
  #row(cells: Tokens.TableCell[], Cell: "th" | "td", isLong: boolean): ComponentChildren {
    const role = isLong ? (Cell === "th" ? "columnheader" : "cell") : undefined;
    return (
      <tr role={isLong ? "row" : undefined}>
        {cells.map(({ align, tokens }, number) => (
          <Cell key={number} role={role} dir="auto" class={`align-${align ?? "start"}`}>{this.inline(tokens)}</Cell>
        ))}
      </tr>
    );
  }

  #isLong(token: Token): boolean {
    return this.whole.token === token ? this.whole.parts != null : token.type === "table" && (token as Tokens.Table).rows.length > GROUP;
  }

  /** The separately rendered parts of a block with many entries; a short block is one part. */
  #parts(token: Token, kindOf: (part: number) => string, write: PartProps["write"]): ComponentChildren[] {
    if (this.whole.token === token && this.whole.parts != null) {
      return this.whole.parts.map((part, at) => this.#view(at, part, kindOf(at), write));
    }
    const groups = this.whole.token === token ? [] : grouped(entriesOf(token), (raw) => raw);
    if (groups.length < 2) return [write(this, token, kindOf(0))];
    let count = 0;
    return groups.map((raws, at) => {
      const from = count;
      count += raws.length;
      return this.#part(at, raws, some(token, "", from, count), kindOf(at), write);
    });
  }

  /** A part of a block's content; rendered with the block if it can't be found in the text. */
  #part(at: number, raws: string[], token: Token, kind: string, write: PartProps["write"]): ComponentChildren {
    const span = this.#span(raws.join("\n"));
    if (span === null) return <Fragment key={at}>{write(this, token, kind)}</Fragment>;
    const raw = this.#raw.slice(span.start - this.whole.start, span.end - this.whole.start);
    return this.#view(at, { token: { ...token, raw }, start: span.start }, kind, write);
  }

  #view(at: number, part: Part, kind: string, write: PartProps["write"]): ComponentChildren {
    return <PartView key={at} part={part} kind={kind} marks={this.marksOf(spanOf(part))} marksOf={this.marksOf} write={write} />;
  }

  /** Text with its badges, with unsourced sentences marked. */
  #text(raw: string): ComponentChildren {
    const start = this.#locate(raw);
    const cuts = new Set<number>([0, raw.length]);
    const cut = (at: number) => start !== null && at > start && at < start + raw.length && cuts.add(at - start);
    for (const { at } of this.marks.placed) cut(at);
    for (const span of this.marks.uncited) {
      cut(span.start);
      cut(span.end);
    }
    const places = [...cuts].sort((a, b) => a - b);
    const parts: ComponentChildren[] = [];
    places.slice(1).forEach((end, number) => {
      const begin = places[number]!;
      parts.push(this.#piece(raw.slice(begin, end), start === null ? null : start + begin));
      for (const { at, target } of this.marks.placed) {
        if (start !== null && at === start + end) parts.push(<Badge target={target} />);
      }
    });
    return parts;
  }

  #piece(raw: string, start: number | null): ComponentChildren {
    const bare = start !== null && this.marks.uncited.some((span) => span.start <= start && start < span.end);
    let at = start;
    const targets: (BadgeTarget | null)[] = [];
    const pieces = splitMarkers(raw, (index) => this.marks.target(index, null) !== null).map((segment) => {
      const target = segment.kind === "marker" ? this.marks.target(segment.index, at) : null;
      if (at !== null) at += segment.text.length;
      targets.push(target);
      return target === null ? decoded(segment.text) : <Badge target={target} />;
    });
    if (!bare) return pieces;
    return <span class="uncited" title={words.value.uncited}>{pieces}<span class="hidden"> {words.value.uncitedSentence} </span></span>;
  }

  /** The position of a token in the answer. The lexer changes some white space, so there may be none. */
  #locate(raw: string): number | null {
    const at = this.#raw.indexOf(raw, this.#cursor);
    if (at < 0) return null;
    this.#cursor = at + raw.length;
    return this.whole.start + at;
  }

  /**
   * The position of several complete lines, with their prefixes. Within quotes and lists, the lexer has removed markup and white space
   * from their beginnings.
   */
  #span(raw: string): Span | null {
    const before = this.#cursor;
    const lines = raw.split("\n").map((line) => line.trim()).filter(Boolean);
    if (lines.length === 0 || lines.some((line) => this.#locate(line) === null)) {
      this.#cursor = before;
      return null;
    }
    const end = this.#raw.indexOf("\n", this.#cursor);
    this.#cursor = end < 0 ? this.#raw.length : end;
    return { start: this.whole.start + before, end: this.whole.start + this.#cursor };
  }
}

const rawOf = ({ raw }: Token): string => raw;
const tokensOf = (group: Token): Token[] => (group as Tokens.Generic).tokens ?? [];

/** The texts of a list's items or a table's rows; none for other blocks. */
function entriesOf(token: Token): string[] {
  if (token.type === "list") return (token as Tokens.List).items.map(rawOf);
  if (token.type !== "table") return [];
  const { raw, rows } = token as Tokens.Table;
  return raw.split("\n").slice(2, 2 + rows.length);
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Decodes Markdown's character references, in text nodes. */
function decoded(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,6}));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? parseInt(hex!, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
