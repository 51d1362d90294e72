"""Questions that passages answer: read from a model's text, or made from the passages' topics."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.extraction.questions import read_question
from citewire_generator.extraction.scoring import Source, answer_score, rank, score_units
from citewire_generator.extraction.weights import load_weights
from citewire_generator.packing import defuse
from citewire_generator.suggestion_phrases import Phrases, language_code, phrases_of
from citewire_verify.text.languages import detect_language
from citewire_verify.text.sentences import is_code
from citewire_verify.text.stop_words import words_of
from citewire_verify.text.terms import Term, content_keys, terms

MAX_QUESTION = 200
"""Longest suggested question in code points."""
MAX_READ = 12
"""Maximum number of passages whose topics are considered."""
MAX_TRIED = 24
"""Maximum number of topics checked for whether the passages answer."""
ENOUGH = 2
"""Number of questions up to which single words are also used as topics."""
MAX_TOPIC = 80
"""Longest topic of an unchecked question, in code points."""
_MAX_CHARS = 2000
"""Maximum code points of a passage read for such topics."""

_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,2}[.)]|[Qq]\d{0,2}[:.])\s*")
_IDEOGRAPHS = re.compile("[\u4e00-\u9fff]{2,8}|[\u30a0-\u30ff]{3,12}|[\uac00-\ud7af]{2,8}")
_CAPITALISED = re.compile(r"(?<![.!?:\n•|] )(?<!^)\b[^\W\d_a-z]\w{2,}(?:[ -][^\W\d_a-z]\w{2,}){0,3}")
_LONG_WORDS = re.compile(r"[^\W\d_]{6,30}|[\u4e00-\u9fff]{2,6}|[\u30a0-\u30ff]{3,12}|[\uac00-\ud7af]{2,8}")
_OF_PROGRAMS = words_of(
    """
    array async await boolean break case catch class const continue default delete else enum error except exception
    export extends false final finally float from func function import interface lambda length null number object
    package private protected public raise require return self static string struct super switch this throw throws true
    type undefined value void while yield
    """
)
"""Words of any program."""
_QUOTES = " \t\"'“”«»*_`"
_SENTENCE_END = re.compile(r"[.!?:;\n•|()\[\]“”\"]")


def read_questions(text: str, count: int, *, avoid: str = "") -> tuple[str, ...]:
    """Reads a model's questions: a JSON list (fenced, or inside an object), or lines with or without bullets.

    Args:
        text: The model's text.
        count: Maximum number.
        avoid: A question that must not be repeated.
    """
    fenced = _FENCE.search(text)
    body = fenced.group(1) if fenced else text
    lines = _from_json(body) or body.splitlines()
    return _distinct((clean_question(line) for line in lines), count, avoid)


def clean_question(line: str) -> str:
    """Returns a line's question without bullet, quotation marks and emphasis; empty if it isn't a question."""
    line = " ".join(_BULLET.sub("", line).split()).strip(_QUOTES).rstrip(",").strip(_QUOTES)
    return line if line.endswith(("?", "？", "؟")) and len(line) <= MAX_QUESTION else ""


def suggest_from_passages(
    passages: Sequence[pb.Passage], count: int, *, avoid: str = "", language: str = ""
) -> tuple[str, ...]:
    """Builds questions from the passages' topics: sections, names and recurring terms.

    Each is checked like an answer, so that only questions that the passages can answer are suggested.

    Args:
        passages: Best first.
        count: Maximum number; fewer if the passages have fewer topics.
        avoid: The question that found no answer: its own topic isn't suggested.
        language: Name or code; empty or unknown means the passages' language.
    """
    read = passages[:MAX_READ]
    code = language_code(language) if language else None
    code = code or detect_language(" ".join(passage.text[:600] for passage in read))
    avoided = content_keys(avoid)
    sources = [Source(passage.text, " ".join((passage.title, passage.file_name, passage.section))) for passage in read]
    questions: list[str] = []
    used: set[str] = set()
    for topic in _topics(read)[:MAX_TRIED]:
        if topic.weak and len(questions) >= ENOUGH:
            break
        keys = content_keys(topic.text)
        if not keys or keys <= avoided or len(keys & used) * 2 > len(keys):
            continue
        question = question_about(topic.text, topic.where, code)
        if len(question) > MAX_QUESTION or not _is_answered(question, sources):
            continue
        used |= keys
        questions.append(question)
        if len(questions) == count:
            break
    return _distinct(questions, count, avoid)


def name_topics(
    passages: Sequence[pb.Passage], count: int, *, avoid: Sequence[str], language: str = ""
) -> tuple[str, ...]:
    """Builds questions from sections, titles, names and frequent words, without checking whether the passages answer.

    Args:
        passages: Best first.
        count: Maximum number; fewer if there are fewer topics.
        avoid: Questions whose topics aren't suggested, in particular the one that found no answer.
        language: Name or code; English if it is unknown.
    """
    phrases, avoided = phrases_of(language_code(language)), [question.casefold() for question in avoid]
    questions: dict[str, str] = {}
    for phrase, topic in _named(passages[:MAX_READ], phrases):
        key = topic.casefold()
        is_known = phrase is not phrases.points and any(key in other or other in key for other in questions)
        if is_known or not 2 <= len(topic) <= MAX_TOPIC or any(key in question for question in avoided):
            continue
        question = phrase.replace("{topic}", topic)
        questions.setdefault(question if phrase is phrases.points else key, question)
        if len(questions) == count:
            break
    return tuple(questions.values())


def _named(passages: Sequence[pb.Passage], phrases: Phrases) -> Iterable[tuple[str, str]]:
    """Phrases with their topics: sections first, because the author named them."""
    titles = [_tidy(passage.title or passage.file_name) for passage in passages]
    yield from ((phrases.about, _tidy(passage.section.rsplit(" > ", 1)[-1])) for passage in passages)
    yield from ((phrases.what, title) for title in titles)
    texts = [defuse(passage.text[:_MAX_CHARS]) for passage in passages]
    for pattern in (_CAPITALISED, _LONG_WORDS):
        counts = Counter(topic for text in texts for topic in pattern.findall(text))
        for topic, _ in sorted(counts.items(), key=lambda item: (-item[1], -len(item[0]), item[0])):
            yield phrases.about, _tidy(topic)
    yield from ((phrases.points, title) for title in titles)


@dataclass(frozen=True, slots=True)
class _Topic:
    text: str
    where: str = ""
    weak: bool = False
    """A single word, used only if there is little else."""


def _topics(passages: Sequence[pb.Passage]) -> list[_Topic]:
    """Sections first, because the author named them; then names and recurring pairs of words; then single words.

    A program's topics are the names of its parts. Its words only count if all passages are programs.
    """
    several = len({passage.document_id for passage in passages}) > 1
    topics: dict[str, _Topic] = {}
    for passage in passages:
        where = _tidy(passage.title) or _tidy(passage.file_name)
        section = _tidy(passage.section.rsplit(" > ", 1)[-1])
        if section and section.casefold() != where.casefold() and _is_topic(section):
            topics.setdefault(section.casefold(), _Topic(section, where if several else ""))
    texts = [defuse(passage.text) for passage in passages if not is_code(passage.file_name, passage.text)]
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for text in texts:
        for phrase in {*_names(text), *_pairs(text)}:
            key = phrase.casefold()
            counts[key] += 1 + phrase[0].isupper()
            spelled.setdefault(key, phrase)
    for key, _ in sorted(counts.items(), key=lambda item: (-item[1], -len(item[0]), item[0])):
        topics.setdefault(key, _Topic(spelled[key]))
    best = list(topics.values())[: MAX_TRIED // 2]
    words = _words(texts) if texts else _words([defuse(passage.text) for passage in passages], without=_OF_PROGRAMS)
    return best + [_Topic(word, weak=True) for word in words]


def _names(text: str) -> Iterable[str]:
    """Runs of up to four words written like names, and names of one longer word."""
    run: list[Term] = []
    for term in [*terms(text), None]:
        capital = term is not None and not term.stop and text[term.start].isupper()
        joined = term is not None and run and text[run[-1].end : term.start] in {" ", "-", "’s ", "'s "}
        if term is not None and capital and joined and len(run) < 4:
            run.append(term)
            continue
        # A single capitalised word may just begin a sentence.
        if len(run) > 1 or (run and run[0].name and run[0].end - run[0].start >= 4):
            yield text[run[0].start : run[-1].end]
        run = [term] if term is not None and capital else []


def _pairs(text: str) -> Iterable[str]:
    """Pairs of adjacent topic words that recur in the text."""
    text_terms = terms(text)
    counts: Counter[tuple[str, str]] = Counter()
    spelled: dict[tuple[str, str], str] = {}
    for first, second in pairwise(text_terms):
        if first.stop or second.stop or first.number or second.number or text[first.end : second.start] != " ":
            continue
        if min(first.end - first.start, second.end - second.start) < 3:
            continue
        pair = (first.key, second.key)
        counts[pair] += 1
        spelled.setdefault(pair, text[first.start : second.end])
    return [spelled[pair] for pair, count in counts.items() if count >= 2]


def _words(texts: Sequence[str], without: Set[str] = frozenset()) -> list[str]:
    """Single topic words: frequent, long and capitalised ones first. In scripts without spaces, runs of characters."""
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for text in texts:
        for run in _IDEOGRAPHS.findall(text):
            counts[run] += len(run)
            spelled.setdefault(run, run)
        for term in terms(text):
            word = text[term.start : term.end]
            if len(word) < 4 or term.stop or term.number or word.casefold() in without:
                continue
            counts[term.key] += len(word) + 5 * word[0].isupper()
            spelled.setdefault(term.key, word)
    return [spelled[key] for key, _ in counts.most_common(MAX_TRIED // 2)]


def _is_answered(question: str, sources: Sequence[Source]) -> bool:
    scored = score_units(read_question(question), sources)
    weights = load_weights()
    ranked = rank(scored, weights.unit)
    return bool(ranked) and answer_score(scored, ranked[0][1], weights) >= 0


def _is_topic(text: str) -> bool:
    return 3 <= len(text) <= 80 and any(not term.stop and not term.number for term in terms(text))


def _tidy(text: str) -> str:
    text = " ".join(defuse(text).split()).strip(" #*_`")
    return re.sub(r"^(?:\d{1,2}[.)])+\d{0,2}\s+", "", text)


def _from_json(body: str) -> list[str]:
    start = min((index for index in (body.find("["), body.find("{")) if index >= 0), default=-1)
    if start < 0:
        return []
    try:
        parsed: object = json.JSONDecoder().raw_decode(body[start:])[0]
    except (ValueError, RecursionError):  # a hostile model's brackets may be nested deeper than the stack
        return []
    if isinstance(parsed, dict):
        for value in cast("dict[str, object]", parsed).values():
            if isinstance(value, list):
                parsed = cast("list[object]", value)
                break
    questions: list[str] = []
    for item in cast("list[object]", parsed) if isinstance(parsed, list) else []:
        value = next(iter(cast("dict[str, object]", item).values()), "") if isinstance(item, dict) else item
        if isinstance(value, str):
            questions.append(value)
    return questions


def _distinct(lines: Iterable[str], count: int, avoid: str) -> tuple[str, ...]:
    seen = {_compared(avoid)}
    questions: list[str] = []
    for line in lines:
        key = _compared(line)
        if line and key and key not in seen and len(questions) < count:
            seen.add(key)
            questions.append(line)
    return tuple(questions)


def _compared(text: str) -> str:
    return re.sub(r"\W+", " ", text).casefold().strip()


def question_about(topic: str, where: str, language: str) -> str:
    """Returns a question about a topic, in a document if `where` names one."""
    phrases = phrases_of(language)
    # Not with `format`, because topics may contain braces.
    asked = phrases.inside.replace("{where}", where) if where else phrases.about
    return asked.replace("{topic}", topic)
