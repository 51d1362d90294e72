// A block of an answer as elements. Text becomes text nodes and nothing else: no HTML is ever parsed.
import { splitMarkers } from "@citewire/client";
import type { Token, Tokens } from "marked";
import { type ComponentChildren, Fragment } from "preact";
import { memo } from "preact/compat";

import { safeUrl } from "../links";
import { words } from "../words";
import type { Span } from "./answer";
import { Badge, type BadgeTarget } from "./Badge";
import type { Block } from "./blocks";

/** What stands in a part of the answer beside its text, by offsets in the whole answer. */
export interface Marks {
  /** The citation that a marker at an offset means; null if there is none. */
  target: (index: number, at: number | null) => BadgeTarget | null;
  /** Badges of profiles that write no markers. */
  placed: { at: number; target: BadgeTarget }[];
  /** Sentences that cite nothing. */
  uncited: Span[];
  /** Changes when one of them does. */
  version: string;
}

export type MarksOf = (part: Span) => Marks;

interface BlockProps {
  block: Block;
  marks: Marks;
  marksOf: MarksOf;
}

export const MarkdownBlock = memo(
  ({ block, marks, marksOf }: BlockProps) => <>{new Renderer(block, marks, marksOf).block(block.token)}</>,
  (before, after) => before.block === after.block && before.marks.version === after.marks.version,
);

/** A part of a long block, which isn't written anew with the block as long as it stays as it is. */
export interface PartProps {
  /** Where it stands in the answer. */
  block: Block;
  /** What its writing depends on beside its text. */
  kind: string;
  marks: Marks;
  write: (part: Renderer) => ComponentChildren;
}

export const isSamePart = (before: PartProps, after: PartProps): boolean =>
  before.block.token.raw === after.block.token.raw && before.block.start === after.block.start &&
  before.kind === after.kind && before.marks.version === after.marks.version;

export const Part = memo(
  ({ block, marks, write }: PartProps) => <>{write(new Renderer(block, marks, null))}</>,
  isSamePart,
);

export class Renderer {
  #cursor = 0;
  readonly #raw: string;

  /** `marksOf` gives the marks of a block's parts; null where it is a part itself. */
  constructor(
    private readonly whole: Block,
    private readonly marks: Marks,
    private readonly marksOf: MarksOf | null,
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
        return <p dir="auto">{this.inline(token.tokens)}</p>;
      case "list":
        return this.#list(token as Tokens.List);
      case "blockquote":
        return <blockquote>{this.blocks(token.tokens)}</blockquote>;
      case "code":
        this.#locate(token.raw);
        return <pre tabIndex={0}><code dir="ltr">{(token as Tokens.Code).text}</code></pre>;
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

  blocks(tokens: Token[] | undefined): ComponentChildren {
    return tokens?.map((token, number) => <Fragment key={number}>{this.block(token)}</Fragment>);
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
      default: // text, and HTML, which is shown as it is written
        return this.#text(token.raw);
    }
  }

  /** A link, if it leads to the web or to a mailbox; images would be fetched from strangers, so they are links, too. */
  #link(token: Tokens.Link | Tokens.Image): ComponentChildren {
    this.#locate(token.raw);
    const url = safeUrl(token.href);
    const text = decoded(token.text) || token.href;
    return url === null ? text : <a href={url} target="_blank" rel="noopener noreferrer nofollow" dir="auto">{text}</a>;
  }

  #list(list: Tokens.List): ComponentChildren {
    const items = list.items.map((item, number) =>
      this.#part(number, item, list.loose ? "loose" : "tight", (part) => (
        <li dir="auto">
          {item.task && <input type="checkbox" checked={item.checked === true} disabled aria-label={item.text} />}
          {part.blocks(item.tokens)}
        </li>
      )),
    );
    return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
  }

  #table(table: Tokens.Table): ComponentChildren {
    const cell = (content: Tokens.TableCell, Cell: "th" | "td", number: number) => (
      <Cell key={number} dir="auto" class={`align-${content.align ?? "start"}`}>{this.inline(content.tokens)}</Cell>
    );
    return (
      <div class="table" tabIndex={0} role="group">
        <table>
          <thead><tr>{table.header.map((content, number) => cell(content, "th", number))}</tr></thead>
          <tbody>
            {table.rows.map((row, line) => <tr key={line}>{row.map((content, number) => cell(content, "td", number))}</tr>)}
          </tbody>
        </table>
      </div>
    );
  }

  /** A part of this block. Within a part there are none: it is written as a whole. */
  #part(key: number, token: Token, kind: string, write: PartProps["write"]): ComponentChildren {
    const start = this.marksOf === null ? null : this.#locate(token.raw);
    if (start === null) return <Fragment key={key}>{write(this)}</Fragment>;
    const marks = this.marksOf!({ start, end: start + token.raw.length });
    return <Part key={key} block={{ key, token, start }} kind={kind} marks={marks} write={write} />;
  }

  /** Text with its badges, and its sentences without a source marked. */
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

  /** Where a token stands in the answer. Some white space isn't as it was written, so it may be nowhere. */
  #locate(raw: string): number | null {
    const at = this.#raw.indexOf(raw, this.#cursor);
    if (at < 0) return null;
    this.#cursor = at + raw.length;
    return this.whole.start + at;
  }
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Markdown may name characters; they become what they name, in text nodes. */
function decoded(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,6}));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? parseInt(hex!, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
