"""The not-found sentence: recognised at the start of an answer, also where the model paraphrased it.

Under strict grounding an answer that the passages don't support starts with exactly the policy's sentence. Models say
it in their own words all the same, so the beginning is held back, only as long as it can still become such a sentence,
and a paraphrase is replaced. A sentence that gives part of an answer ("… don't give the price, but …") is none.
"""

import re

from citewire_generator.not_found_phrases import match_openers

MAX_HELD = 200
"""Longest beginning, in code points, that is held back; a longer first sentence is shown as the model wrote it."""
MAX_TAIL = 8192
"""Code points after the sentence in which suggested questions are counted."""

_TURNS = re.compile(
    r"(?:[,;:–—]\s*|\s)(?:but|however|though|although|except|yet|aber|jedoch|pero|mais|mas|ma|maar)\b|;"
)
_ENDS = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\b[a-zA-Z])[.!?…](?=[\s\"'”’*_)\]\[【]|$)|[。！？]|\n")
_MARKER = re.compile(r"\s{0,3}[\[【［][^\]】］\n]{0,120}[\]】］]")
_DECORATION = " \t\n\r\"'“”‘’«»*_#>`-–—"
_CLOSING = "\"'”’»*_"
_END_MARKS = ".!?…。！？\"'”’ "
_CONTRACTED = re.compile(r"n't\b")
_SHORT_BE = re.compile(r"(?<=\bi)'m\b|(?<=\bthere)'s\b|(?<=\bit)'s\b")
_WORDS = re.compile(r"[\w']+")
_QUESTION_END = re.compile(r"[?？؟][\"'”’»)*_]*(?=\s|$)")
_LIST_ITEM = re.compile(r"^\s*(?:[-*+•–]|\(?\d{1,2}[.)])\s+\S")


class NotFoundGate:
    """Watches the start of one answer.

    Args:
        sentence: The exact sentence that a not-found answer starts with.
        paraphrases: Whether to look for paraphrases: not where the text is quoted from documents.
    """

    def __init__(self, sentence: str, *, paraphrases: bool = True) -> None:
        self._paraphrases = paraphrases
        self._sentence = sentence
        self._normal = _normalise(sentence)
        self._held: str | None = ""
        self._tail = ""
        self._closing = False
        self.not_found = False
        """Whether the answer starts with the sentence."""

    @property
    def suggested_questions(self) -> int:
        """How many questions follow the sentence."""
        return count_questions(self._tail) if self.not_found else 0

    def feed(self, text: str) -> str:
        """Takes the next piece of the answer and returns what may be passed on now."""
        if self._held is None:
            if self._closing:
                text = self._drop_closing(text)
            if self.not_found and len(self._tail) < MAX_TAIL:
                self._tail += text
            return text
        self._held += text
        return self._decide(final=False)

    def finish(self) -> str:
        """Returns what is still held: an answer so short that it ended before it was decided."""
        return "" if self._held is None else self._decide(final=True)

    def _decide(self, *, final: bool) -> str:
        held = self._held or ""
        end = self._sentence_end(held, final=final)
        if end is not None:
            return self._replace(held[end:]) if self._is_not_found(held[:end]) else self._release(held)
        if len(held) <= MAX_HELD and self._may_become(held):
            return ""
        return self._release(held)

    def _sentence_end(self, held: str, *, final: bool) -> int | None:
        """Where the first sentence ends; None if that isn't known yet.

        A point at the very end of what is held may belong to a number or an abbreviation: the next piece tells. The
        exact sentence needs no next piece.
        """
        start = len(held) - len(held.lstrip(_DECORATION))
        for match in _ENDS.finditer(held, start):
            known = match.end() < len(held) or final or match.group() not in ".!?…"
            return match.end() if known or _normalise(held[: match.end()]) == self._normal else None
        return len(held) if final else None

    def _may_become(self, held: str) -> bool:
        normal = _normalise(held)
        if self._normal.startswith(normal) or normal.startswith(self._normal):
            return True
        if not self._paraphrases:
            return False
        words, complete = _words(held), held[-1:].isspace()
        match = match_openers([*words, ""] if complete else words, partial=True)
        return match.open or (bool(match.full) and _TURNS.search(normal, _preamble_end(normal)) is None)

    def _is_not_found(self, sentence: str) -> bool:
        if _normalise(sentence) == self._normal:
            return True
        return self._paraphrases and len(sentence) <= MAX_HELD and is_not_found(sentence)

    def _replace(self, rest: str) -> str:
        self._held, self.not_found = None, True
        self._tail = self._drop_closing(rest)
        return self._sentence + self._tail

    def _drop_closing(self, text: str) -> str:
        """Drops what closes quotation or emphasis around the sentence: its opening went with the paraphrase."""
        text = text.lstrip(_CLOSING)
        self._closing = not text
        return text

    def _release(self, held: str) -> str:
        self._held = None
        return held.lstrip()


def is_not_found(sentence: str) -> bool:
    """Whether a sentence says that the passages don't answer, and nothing else."""
    normal = _normalise(sentence)
    match = match_openers(_words(normal), partial=False)
    return bool(match.full) and _TURNS.search(normal, _preamble_end(normal)) is None


def count_questions(text: str) -> int:
    """Counts the questions in a text: those in a list if there is one, else every sentence that asks."""
    lines = text.splitlines()
    items = [line for line in lines if _LIST_ITEM.match(line)]
    return sum(len(_QUESTION_END.findall(line)) for line in items or lines)


def _preamble_end(normal: str) -> int:
    """Where the search for a turn starts: "I'm sorry, but I could not find …" has none."""
    match = re.match(r"(?:i am |i'm )?(?:sorry|afraid|apologi[sz]e),? (?:but )?|i apologi[sz]e,? (?:but )?", normal)
    return match.end() if match else 0


def _words(text: str) -> list[str]:
    text = _SHORT_BE.sub(lambda match: " am" if match.group() == "'m" else " is", _normalise(text))
    text = _CONTRACTED.sub(" not", text.replace("can't", "can not").replace("cannot", "can not"))
    return _WORDS.findall(re.sub(r"\bn'", "n' ", text))


def _normalise(text: str) -> str:
    """One spelling for comparison: no markers, no decoration, one kind of apostrophe and of space, no end mark."""
    text = re.sub(r"[*_`]+", "", _MARKER.sub("", text)).replace("’", "'")
    return " ".join(text.casefold().strip(_DECORATION).split()).rstrip(_END_MARKS)
