// An answer: its text with badges, its sources, its steps, and its actions.
import { badgeText, type Citation, type FeedbackInfo, findMarkers, type VerifiedCitation } from "@citewire/client";
import type { Signal } from "@preact/signals";
import type { Tokens } from "marked";
import { useEffect, useRef, useState } from "preact/hooks";

import { later } from "../later";
import { nameText } from "../links";
import { toast } from "../state";
import { money, number, words } from "../words";
import { type Answer, citedNumbers } from "./answer";
import { type Block, BlockReader } from "./blocks";
import { anchorEvents, anchorRef } from "./card-state";
import { ask, isBusy, owner } from "./chat";
import type { FeedbackProps, Rating } from "./Feedback";
import { Blocks } from "./Markdown";
import { marksReader } from "./marks";
import { placeText } from "./places";

const Feedback = later<FeedbackProps>(async () => (await import("./Feedback")).Feedback, true);
const RATINGS: Rating[] = ["up", "down"];
const SHOWN_SOURCES = 4;
const STILL_MS = 400;
const NONE = new Set<number>();

export function AnswerView({ answer: signal, question }: { answer: Signal<Answer>; question: string }) {
  const answer = signal.value;
  const isOpen = answer.status === "waiting" || answer.status === "writing";
  const reader = useRef<BlockReader | null>(null);
  reader.current ??= new BlockReader();
  const blocks = reader.current.read(answer.text, isOpen);
  const hasMarkers = useRef(false);
  hasMarkers.current ||= findMarkers(answer.text).length > 0;
  const marksOf = marksReader(answer, hasMarkers.current, words.value.language);
  const suggestions = isOpen ? [] : suggestionsOf(answer, blocks);
  const shown = suggestions.length > 0 ? blocks.slice(0, -1) : blocks;
  return (
    <section class="answer" aria-label={words.value.answer} aria-busy={isOpen} data-exchange={answer.place?.exchange} {...anchorEvents}>
      {answer.status === "waiting" && <Waiting text={answer.steps.at(-1)?.text ?? words.value.searching} />}
      <div class="prose">
        <Blocks blocks={shown} marksOf={marksOf} />
        {answer.status === "writing" && <span class="caret" aria-hidden="true" />}
      </div>
      {answer.status === "failed" && <p class="fault">{words.value.failed} <span class="cause" dir="auto">{answer.error}</span></p>}
      {answer.status === "stopped" && <p class="quiet">{answer.text === "" ? words.value.cutOff : words.value.stopped}</p>}
      {suggestions.length > 0 && (
        <ul class="suggestions" aria-label={words.value.suggestions}>
          {suggestions.map((text) => (
            <li key={text}><button type="button" dir="auto" disabled={isBusy.value} onClick={() => void ask(text)}>{text}</button></li>
          ))}
        </ul>
      )}
      <Sources answer={answer} />
      {!isOpen && hasDetails(answer) && <Details answer={answer} />}
      {!isOpen && <Actions answer={signal} question={question} />}
    </section>
  );
}

/** The current step. Its dot starts moving a little later: an animation would delay the frame of an immediate answer. */
function Waiting({ text }: { text: string }) {
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => line.current?.classList.add("moving"), STILL_MS);
    return () => clearTimeout(timer);
  }, []);
  return <p class="quiet waiting" ref={line}>{text}</p>;
}

/** Alternative questions: the list at the end of an answer without citations. */
function suggestionsOf(answer: Answer, blocks: Block[]): string[] {
  const last = blocks.at(-1)?.token;
  if (last?.type !== "list" || citedNumbers(answer).size > 0) return [];
  const items = (last as Tokens.List).items.map((item) => item.text.trim());
  return items.every((item) => /[?？؟;]$/u.test(item) && item.length > 3) ? items : [];
}

/** The passages that were read; cited ones come first. */
function Sources({ answer }: { answer: Answer }) {
  const [all, setAll] = useState(false);
  const cited = answer.status === "waiting" || answer.status === "writing" ? NONE : citedNumbers(answer); // they are sorted at the end
  const first = answer.citations.filter((citation) => cited.has(citation.index));
  const others = answer.citations.filter((citation) => !cited.has(citation.index));
  const ordered = [...first, ...others];
  const most = answer.status === "done" && first.length > 0 ? first.length : SHOWN_SOURCES;
  const shown = all ? ordered : ordered.slice(0, Math.max(1, most));
  if (ordered.length === 0) return null;
  return (
    <div class="sources">
      <h3>{words.value.sources}</h3>
      <ul>
        {shown.map((citation) => (
          <li key={citation.chunk_id}>
            <Source citation={citation} cited={cited.has(citation.index)} verified={answer.verified.find((v) => v.index === citation.index) ?? null} />
          </li>
        ))}
        {ordered.length > shown.length && (
          <li><button type="button" class="link" onClick={() => setAll(true)}>{words.value.allSources(ordered.length - shown.length)}</button></li>
        )}
        {all && ordered.length > most && <li><button type="button" class="link" onClick={() => setAll(false)}>{words.value.fewerSources}</button></li>}
      </ul>
    </div>
  );
}

function Source({ citation, cited, verified }: { citation: Citation; cited: boolean; verified: VerifiedCitation | null }) {
  return (
    <button
      ref={anchorRef({ citation, verified })}
      type="button"
      class={`pill ${cited ? (verified?.verdict ?? "cited") : "uncited-source"}`}
      aria-haspopup="dialog"
      aria-expanded="false"
    >
      <span class="pill-number">{badgeText(citation.index)}</span>
      <span class="pill-title" dir="auto">{nameText(citation.title || citation.file_name)}</span>
      <span class="pill-place" dir="auto">{placeText(citation).split(" · ").at(-1)}</span>
    </button>
  );
}

/** Whether there is anything to show: an answer that failed immediately has nothing. */
function hasDetails({ status, citations, steps, usage }: Answer): boolean {
  return status !== "failed" || citations.length > 0 || steps.length > 0 || usage !== null;
}

/** The steps that led to the answer, in one unobtrusive line that opens. */
function Details({ answer }: { answer: Answer }) {
  const { usage, steps, decision, assessment } = answer;
  const total = usage === null ? 0 : usage.embedding_tokens + usage.prompt_tokens + usage.completion_tokens;
  const line = [
    answer.citations.length === 0 ? words.value.noPassages : words.value.answered(answer.citations.length),
    ...(usage === null ? [] : [words.value.tokens(number(total))]),
    ...(usage?.cost_usd === undefined ? [] : [money(usage.cost_usd)]),
  ];
  return (
    <details class="details">
      <summary>{line.join(" · ")}</summary>
      <dl>
        {decision !== null && (
          <Entry name={words.value.decision}>{decision.needs_retrieval ? words.value.retrieval.yes : words.value.retrieval.no} {decision.reason}</Entry>
        )}
        {steps.map((step, at) => <Entry key={at} name={words.value.steps[step.name] ?? step.name}>{step.text} {step.reason ?? ""}</Entry>)}
        {usage?.path !== undefined && <Entry name={words.value.path}>{usage.path}</Entry>}
        {usage !== null && (
          <Entry name={words.value.usage}>
            {words.value.usageText(number(usage.embedding_tokens), number(usage.prompt_tokens), number(usage.completion_tokens))}
            {usage.cached_prompt_tokens ? `; ${words.value.cachedTokens(number(usage.cached_prompt_tokens))}` : ""}
          </Entry>
        )}
        {usage?.cost_usd !== undefined && <Entry name={words.value.cost}>{money(usage.cost_usd)}</Entry>}
        {answer.model !== null && <Entry name={words.value.model}>{answer.model}</Entry>}
        {assessment !== null && (
          <Entry name={words.value.answer}>
            {words.value.assessed(Math.round(assessment.utility * 100))} {!assessment.supported && words.value.assessedUnsupported}
          </Entry>
        )}
      </dl>
    </details>
  );
}

function Entry({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <><dt>{name}</dt><dd dir="auto">{children}</dd></>;
}

function Actions({ answer: signal, question }: { answer: Signal<Answer>; question: string }) {
  const answer = signal.value;
  const [rating, setRating] = useState<Rating | null>(null);
  const failed = answer.status === "failed" || answer.status === "stopped";
  const copy = async () => {
    await navigator.clipboard.writeText(answer.text);
    toast(words.value.copied, "note");
  };
  const keep = (feedback: FeedbackInfo | null) => {
    signal.value = { ...answer, feedback };
    setRating(null);
    toast(feedback === null ? words.value.feedbackGone : words.value.feedbackKept, "note");
  };
  return (
    <>
      <div class="actions">
        {owner.value === null && <button type="button" class="link" disabled={isBusy.value} onClick={() => void ask(question)}>{failed ? words.value.retry : words.value.again}</button>}
        {answer.text !== "" && <button type="button" class="link" onClick={() => void copy()}>{words.value.copy}</button>}
        {answer.place !== null && owner.value === null && RATINGS.map((name) => (
          <button
            key={name}
            type="button"
            class={`icon thumb ${name}`}
            aria-label={words.value.rateAs[name]}
            aria-pressed={answer.feedback?.rating === name}
            aria-expanded={rating === name}
            title={words.value.rateAs[name]}
            onClick={() => setRating(rating === name ? null : name)}
          />
        ))}
      </div>
      {rating !== null && answer.place !== null && (
        <Feedback key={rating} place={answer.place} rating={rating} before={answer.feedback} onKept={keep} onClose={() => setRating(null)} />
      )}
    </>
  );
}
