"""Answers without a language model: the sentences of the passages that fit the question best, word for word.

Deterministic. Whether anything fits is decided by a threshold that was derived from measured score distributions; see
`extraction/weights.py`.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.extraction.filling import Quotation, fill
from citewire_generator.extraction.listing import list_items
from citewire_generator.extraction.questions import read_question
from citewire_generator.extraction.scoring import Candidate, Scored, Source, answerable, rank, score_units
from citewire_generator.extraction.weights import Weights, load_weights
from citewire_generator.model import Citation, FinishReason, ModelInfo, Suggestions, Usage
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End, Feature
from citewire_generator.suggestions import suggest_from_passages
from citewire_generator.tokens import ASCII_BYTES_PER_TOKEN
from citewire_kit.turns import in_turn
from citewire_verify.text.sentences import UnitKind, is_code
from citewire_verify.text.terms import normalise, words

PROVIDER: Final = "extractive"
MODEL: Final = "extractive"
MAX_QUOTES: Final = 3
"""Maximum number of quoted units."""
MAX_READ: Final = 40
"""Maximum number of passages read closely: those that share most words with the question."""
NO_GENERAL_KNOWLEDGE: Final = (
    "No language model is set up here: answers are quotations. Ask about something that your documents say."
)
"""The answer if a question needs general knowledge, which quotations don't have."""
THRESHOLD: Final = 0.5
"""Score below which nothing is found, unless the policy overrides it: the scale is defined so."""
SUGGESTED: Final = 3
_BATCH: Final = 8
"""Words per message after the first, because one message per word would be expensive."""
_SAME: Final = 0.8
"""Share of common words from which two units are duplicates: chunks overlap, and documents repeat themselves."""
_WORD = re.compile(r"\S+\s*|\s+")
_END_OF_LINE = re.compile(r"$", re.MULTILINE)
_ENDS: Final = tuple(".!?…:;。！？।॥۔؟" + "\"'”’»)]")


@dataclass(frozen=True, slots=True)
class Quoted:
    """A complete answer."""

    text: str
    answered: bool
    score: float | None = None
    """Score for the passages answering the question, 0–1; None if there was nothing to read."""


class Extractive(ChatProvider):
    """A provider that quotes the passages."""

    def __init__(self, weights: Weights | None = None) -> None:
        self._weights = weights or load_weights()

    takes: ClassVar[frozenset[Feature]] = frozenset({Feature.SEED, Feature.STOP})
    """A seed is accepted, because the same question always has the same answer."""

    @property
    def name(self) -> str:
        """`extractive`."""
        return PROVIDER

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """One model of the same name, without a window and limit."""
        return (ModelInfo(PROVIDER, MODEL, remote=False),)

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        """Streams the answer word by word, as fast as it is read."""
        # In a thread, because a thousand passages take a while, and other streams must continue.
        if task.format is not None:
            filled = await in_turn(_fill, task, self._weights)
            if filled.text:
                yield Delta((filled.text,))
            yield End(FinishReason.STOP, Usage(), not_found=filled.not_found, refusal=filled.refusal)
            return
        answer = await in_turn(quote, task.question, task.citations, task.policy, self._weights, task.listing)
        texts = _WORD.findall(_until(answer.text, task.sampling.stop))
        count = _within(texts, task.max_completion_tokens)
        for start, end in _batches(count):
            yield Delta(tuple(texts[start:end]))
        reason = FinishReason.STOP if count == len(texts) else FinishReason.LENGTH
        yield End(reason, Usage(), not_found=not answer.answered, answerable_score=answer.score)

    async def suggest(self, request: pb.SuggestQuestionsRequest, model: str) -> Suggestions:
        """Suggests questions about the passages' topics."""
        del model
        questions = await in_turn(
            suggest_from_passages,
            request.passages,
            request.count,
            avoid=request.question,
            language=request.language,
        )
        return Suggestions(questions)


def quote(
    question: str,
    citations: tuple[Citation, ...],
    policy: pb.AnswerPolicy,
    weights: Weights,
    listing: pb.ItemListing | None = None,
) -> Quoted:
    """Answers a question by quoting from the packed passages, or by listing their documents if it asks for that."""
    if policy.grounding == pb.GROUNDING_OPEN and not citations:
        return Quoted(NO_GENERAL_KNOWLEDGE, answered=True)
    if listing is not None and (items := list_items(citations, listing)):
        lines = (f"- {line} {_marker(policy.marker_style, citation.number)}".rstrip() for citation, line in items)
        return Quoted("\n".join(lines), answered=True)
    if (computed := next((citation for citation in citations if citation.passage.computed), None)) is not None:
        marker = _marker(policy.marker_style, computed.number)
        return Quoted("\n".join(f"{line} {marker}".rstrip() for line in computed.text.splitlines()), answered=True)
    read = _shortlist(question, citations)
    scored = score_units(read_question(question), [_source(citation) for citation in read])
    ranked = rank(scored, weights.unit)
    score = answerable(scored, ranked[0][1], weights) if ranked else None
    lowest = policy.answerable_threshold if policy.HasField("answerable_threshold") else THRESHOLD
    if score is None or score < lowest:
        return Quoted(_not_found(question, citations, policy), answered=False, score=score)
    quoted = _choose(ranked, weights)
    return Quoted(_compose(scored, quoted, read, policy.marker_style), answered=True, score=score)


@dataclass(frozen=True, slots=True)
class _Formatted:
    text: str = ""
    refusal: str = ""
    not_found: bool = False


def _fill(task: ChatTask, weights: Weights) -> _Formatted:
    """Answers in JSON, with quotations as values."""
    first = quote(task.question, task.citations, task.policy, weights, task.listing)
    if not first.answered or task.format is None:
        return _Formatted(refusal=first.text, not_found=True)

    def ask(question: str) -> Quotation:
        if question == task.question:
            return Quotation(first.text)
        answer = quote(question, task.citations, task.policy, weights)
        return Quotation(answer.text if answer.answered else "")

    filled = fill(task.format.schema_json, task.question, ask)
    return _Formatted(filled.text, filled.refusal)


def _until(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop text."""
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


def _shortlist(question: str, citations: tuple[Citation, ...]) -> list[Citation]:
    if len(citations) <= MAX_READ:
        return list(citations)
    # Beginnings of words, so that most forms of a word are found without tokenising each text.
    beginnings = {normalise(word)[:5] for word in words(question) if len(word) > 2}

    def fits(citation: Citation) -> float:
        text = citation.text.casefold()
        return sum(1 for beginning in beginnings if beginning in text) + len(beginnings) * citation.passage.similarity

    best = sorted(citations, key=lambda citation: (-fits(citation), citation.number))[:MAX_READ]
    return sorted(best, key=lambda citation: citation.number)


def _source(citation: Citation) -> Source:
    passage, text = citation.passage, citation.text
    headings = "\n".join((passage.title, passage.file_name, passage.section))
    similarity = passage.similarity if passage.HasField("similarity") else None
    return Source(text, headings, similarity, code=is_code(passage.file_name, text))


def _choose(ranked: list[tuple[float, Candidate]], weights: Weights) -> list[Candidate]:
    """The best unit, and others close to it that aren't duplicates, ordered by passage, then by position."""
    quoted: list[Candidate] = []
    for score, candidate in ranked:
        if len(quoted) == MAX_QUOTES or score < ranked[0][0] - weights.unit_margin:
            break
        if not any(_same(candidate.keys, other.keys) for other in quoted):
            quoted.append(candidate)
    places = {candidate.source: place for place, candidate in reversed(list(enumerate(quoted)))}
    return sorted(quoted, key=lambda candidate: (places[candidate.source], candidate.order))


def _same(keys: frozenset[str], other: frozenset[str]) -> bool:
    smaller = min(len(keys), len(other))
    return smaller > 0 and len(keys & other) >= _SAME * smaller


def _compose(scored: Scored, quoted: list[Candidate], read: list[Citation], style: pb.MarkerStyle) -> str:
    """Consecutive sentences form a paragraph; a row or a piece of code is separate."""
    blocks: list[str] = []
    in_paragraph = False
    for candidate in quoted:
        text = scored.sources[candidate.source].text[candidate.unit.start : candidate.unit.end]
        marker = _marker(style, read[candidate.source].number)
        kind = candidate.unit.kind
        shown = _shown(text, kind)
        ends = shown.endswith(_ENDS)
        if marker:
            # A marker applies to its line: each line of a row gets one.
            shown = f"{shown}\n{marker}" if kind is UnitKind.CODE else _END_OF_LINE.sub(f" {marker}", shown)
        if kind is UnitKind.SENTENCE and in_paragraph:
            blocks[-1] += f" {shown}"
        else:
            blocks.append(shown)
        # Text without a full stop, such as a heading, would run into the next sentence.
        in_paragraph = kind is UnitKind.SENTENCE and ends
    return "\n\n".join(blocks)


def _shown(text: str, kind: UnitKind) -> str:
    if kind is UnitKind.SENTENCE:
        return " ".join(text.split())
    if kind is UnitKind.CODE:
        if text.lstrip().startswith(("```", "~~~")):
            return text
        longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
        fence = "`" * (longest + 1)
        return f"{fence}\n{text}\n{fence}"
    lines = [line.strip().strip("|").strip() for line in text.splitlines()]
    return "\n".join(f"- {line}" for line in lines if line) if len(lines) > 1 else lines[0]


def _marker(style: pb.MarkerStyle, number: int) -> str:
    if style == pb.MARKER_STYLE_REF:
        return f"[ref:{number}]"
    return f"[SOURCE {number}]" if style == pb.MARKER_STYLE_SOURCE else ""


def _not_found(question: str, citations: tuple[Citation, ...], policy: pb.AnswerPolicy) -> str:
    if not policy.suggest_on_not_found or not citations:
        return policy.not_found_sentence
    passages = [citation.passage for citation in citations]
    questions = suggest_from_passages(passages, SUGGESTED, avoid=question, language=policy.answer_language)
    return "\n".join([policy.not_found_sentence, "", *(f"- {suggestion}" for suggestion in questions)]).rstrip()


def _within(texts: list[str], max_tokens: int | None) -> int:
    """The number of words that fit into a token limit."""
    if max_tokens is None:
        return len(texts)
    chars = 0
    for count, text in enumerate(texts):
        chars += len(text)
        if chars > max_tokens * ASCII_BYTES_PER_TOKEN:
            return count
    return len(texts)


def _batches(count: int) -> list[tuple[int, int]]:
    """The first word alone, so that it is sent at once; the others in small groups."""
    starts = [0, *range(1, count, _BATCH)]
    return [(start, min(end, count)) for start, end in zip(starts, [*starts[1:], count], strict=True) if start < count]
