"""How models say that the passages don't answer: patterns of words, matched while the words arrive.

A sentence that gives part of an answer ("… don't give the price, but …") isn't one of these.

A pattern is a sequence of slots. A slot is one word, or several divided by `|`; `?` after it makes it optional; `$`
among its words stands for the end of the sentence; `@NAME` stands for a list below. A sentence matches if it begins
with a pattern, whatever follows. Words are compared in lower case with contractions written out (`couldn't` is
`could not`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

_LISTS = {
    "DET": "the these this that your our any such",
    "ADJ": "provided given uploaded available selected supplied retrieved attached following current",
    "DOCS": "document documents context passage passages source sources text texts excerpt excerpts material materials "
    "information content contents file files section sections",
    "ADV": "explicitly specifically directly actually clearly appear appears seem seems to",
    "SAY": "contain contains mention mentions provide provides include includes specify specifies state states cover "
    "covers address addresses say says give gives answer answers discuss discusses describe describes have has "
    "indicate indicates offer offers explain explains tell reveal reveals list detail clarify define disclose",
    "FACT": "information mention details detail data reference answer indication explanation evidence content",
    "ABOUT": "about on in of regarding for that available provided given to concerning within related relating from "
    "how what who when where which whether here found there as $",
    "SAID": "available found contained mentioned provided included present specified be in appear given stated covered "
    "addressed discussed part listed disclosed answered answerable explicitly directly there here",
}

_OPENERS = (
    "i|we could|can|did|do not find|locate|see|answer|determine|know|have|identify|provide|tell",
    "i|we was|were|am|are unable|afraid to|i|we|that",
    "i|we was|were|am|are not able to",
    "i|we could|can? find|found|have|see no",
    "@DET? @ADJ? @DOCS @ADJ? do|does|did|can|could not @ADV? @ADV? @SAY",
    "@DET? @ADJ? @DOCS @ADJ? make|makes|contain|contains|provide|provides|give|gives|include|includes|offer|offers"
    "|have|has|lack|lacks|hold no|insufficient|any? relevant|specific|explicit|direct|further|such? @FACT",
    "@DET? @ADJ? @DOCS @ADJ? lack|lacks",
    "@DET? @ADJ? @DOCS @ADJ? say|says nothing",
    "@DET? @ADJ? @DOCS @ADJ? is|are silent",
    "none of @DET? @ADJ? @DOCS @ADJ? @ADV? @SAY",
    "nothing in|within @DET? @ADJ? @DOCS @ADJ?",
    "there is|are|was not enough|sufficient|any relevant|specific|explicit|direct|further? @FACT @ABOUT",
    "there is|are|was no|insufficient relevant|specific|explicit|direct|further|such? @FACT @ABOUT",
    "there is|are|was nothing in|about|on",
    "no relevant|specific|explicit|direct|such? @FACT @ABOUT",
    "no relevant|specific|explicit|direct|such? @FACT is|was|were|could|can|has be|been? @SAID",
    "not enough @FACT",
    "insufficient @FACT",
    "it|this|that is|was not @SAID",
    "it|this is not possible to answer|determine|find|tell",
    "it is unclear from @DET? @ADJ? @DOCS @ADJ?",
    "@DET? requested|relevant|specific? information|detail|details is|are|was|were|could|can|does|do not @SAID",
    "@DET? answer is|was|could|can|does not @SAID",
    "@DET? answer to @DET? question is|was|could|can|does not @SAID",
    "@DET? question can|could not be",
    "@DET? information not found",
    "not found in|within",
    "ich konnte|kann diese|keine|die|dazu",
    "@DE? dokumente|dokumenten|dokument|informationen enthalten|enthält keine|nicht",
    "diese information|informationen ist|sind|konnte in|nicht",
    "no he|hemos podido|encontrado",
    "no pude|encontré|encuentro|puedo|hay encontrar|esta|información|la|ninguna",
    "los documentos|pasajes no",
    "je n' ai|arrive",
    "je ne trouve|peux|dispose",
    "les documents|passages|sources ne|n'",
    "aucune information",
    "non ho|sono trovato|riuscito",
    "i documenti non",
    "não encontrei|consegui|foi",
    "os documentos não",
    "ik kon|kan|heb deze|geen",
)

_PREAMBLES = (
    "i am sorry but?",
    "sorry but?",
    "i apologize|apologise but?",
    "i am afraid that?",
    "unfortunately",
    "it seems|appears that?",
    "based|relying on @DET? @ADJ? @DOCS @ADJ?",
    "from|given|in|within @DET @ADJ? @DOCS",
    "according to @DET? @ADJ? @DOCS @ADJ?",
    "after|having reviewing|reviewed|reading|checking @DET? @ADJ? @DOCS @ADJ?",
    "leider",
    "lo siento",
    "désolé|malheureusement",
    "purtroppo",
    "infelizmente",
    "helaas",
)
"""Phrases that may precede an opener, up to three in sequence."""

DECORATION = " \t\n\r\"'“”‘’«»*_#>`-–—"
"""Characters that may surround a sentence without being part of it."""
_TURNS = re.compile(
    r"(?:[,;:–—]\s*|\s)(?:but|however|though|although|except|yet|aber|jedoch|pero|mais|mas|ma|maar)\b|;"
)
_APOLOGY = re.compile(r"(?:i am |i'm )?(?:sorry|afraid|apologi[sz]e),? (?:but )?|i apologi[sz]e,? (?:but )?")
_MARKER = re.compile(r"\s{0,3}[\[【［][^\]】］\n]{0,120}[\]】］]")
_END_MARKS = ".!?…。！？\"'”’ "
_CONTRACTED = re.compile(r"n't\b")
_SHORT_BE = re.compile(r"(?<=\bi)'m\b|(?<=\bthere)'s\b|(?<=\bit)'s\b")
_WORDS = re.compile(r"[\w']+")

_LISTS["DE"] = "die bereitgestellten vorliegenden in den"


def is_not_found(sentence: str) -> bool:
    """Whether a sentence says that the passages don't answer, and nothing else."""
    normal = normalise_sentence(sentence)
    return _says_only_that(normal, _match_openers(_words(normal), partial=False))


def may_become_not_found(beginning: str) -> bool:
    """Whether a sentence with this beginning may still become one that `is_not_found`."""
    words = _words(beginning)
    match = _match_openers([*words, ""] if beginning[-1:].isspace() else words, partial=True)
    return match.open or _says_only_that(normalise_sentence(beginning), match)


def normalise_sentence(text: str) -> str:
    """Normalises for comparison: no markers or decoration, one kind of apostrophe and space, no end mark."""
    text = re.sub(r"[*_`]+", "", _MARKER.sub("", text)).replace("’", "'")
    return " ".join(text.casefold().strip(DECORATION).split()).rstrip(_END_MARKS)


@dataclass(frozen=True, slots=True)
class _Slot:
    words: frozenset[str]
    optional: bool
    end: bool


@dataclass(frozen=True, slots=True)
class _Match:
    """How far a beginning matches."""

    full: tuple[int, ...]
    """Numbers of words after which a pattern is complete."""
    open: bool
    """Whether a pattern may still become complete with more text."""


@cache
def _compiled(pattern: str) -> tuple[_Slot, ...]:
    slots: list[_Slot] = []
    for part in pattern.split():
        words = part.removesuffix("?")
        expanded = _LISTS[words[1:]].split() if words.startswith("@") else words.split("|")
        slots.append(_Slot(frozenset(expanded) - {"$"}, part.endswith("?"), "$" in expanded))
    return tuple(slots)


def _match_openers(words: Sequence[str], *, partial: bool) -> _Match:
    """Matches the beginning of an answer, preambles skipped.

    Args:
        words: Normalised words, contractions written out.
        partial: True if more may follow, even of the last word; False if the sentence ends here.
    """
    positions, still_open = {0}, not words
    for _ in range(3):
        more: set[int] = set()
        for position in positions:
            match = _match(_PREAMBLES, words, position, partial=partial)
            more.update(match.full)
            still_open = still_open or match.open
        if more <= positions:
            break
        positions |= more
    ends: list[int] = []
    for position in sorted(positions):
        match = _match(_OPENERS, words, position, partial=partial)
        ends += match.full
        still_open = still_open or match.open
    return _Match(tuple(ends), still_open and partial)


def _match(patterns: Sequence[str], words: Sequence[str], start: int, *, partial: bool) -> _Match:
    full: set[int] = set()
    still_open = False
    for pattern in patterns:
        slots = _compiled(pattern)
        states = _skips(slots, {0})
        position = start
        while states:
            if len(slots) in states:
                full.add(position)
            if position == len(words):
                still_open = still_open or partial
                if not partial and any(state < len(slots) and slots[state].end for state in states):
                    full.add(position)
                break
            if partial and position == len(words) - 1:
                still_open = still_open or any(_begins(slots[s], words[position]) for s in states if s < len(slots))
            states = _skips(slots, {s + 1 for s in states if s < len(slots) and words[position] in slots[s].words})
            position += 1
    return _Match(tuple(full), still_open)


def _skips(slots: tuple[_Slot, ...], states: set[int]) -> set[int]:
    """Adds the states that can be reached through optional slots without a word."""
    for state in sorted(states):
        here = state
        while here < len(slots) and slots[here].optional:
            here += 1
            states.add(here)
    return states


def _begins(slot: _Slot, beginning: str) -> bool:
    """Whether a word of the slot has this beginning; `couldn`, `can'` and `cann` begin contractions."""
    if beginning in {"cann", "canno"}:
        return "can" in slot.words
    bare = beginning.removesuffix("'").removesuffix("n") if beginning.endswith(("n", "n'")) else beginning.rstrip("'")
    return any(word.startswith(beginning) or word == bare for word in slot.words)


def _says_only_that(normal: str, match: _Match) -> bool:
    """Whether a pattern is complete and nothing contrary follows it; the "but" of an apology doesn't count."""
    apology = _APOLOGY.match(normal)
    return bool(match.full) and _TURNS.search(normal, apology.end() if apology else 0) is None


def _words(text: str) -> list[str]:
    text = _SHORT_BE.sub(lambda match: " am" if match.group() == "'m" else " is", normalise_sentence(text))
    text = _CONTRACTED.sub(" not", text.replace("can't", "can not").replace("cannot", "can not"))
    return _WORDS.findall(re.sub(r"\bn'", "n' ", text))
