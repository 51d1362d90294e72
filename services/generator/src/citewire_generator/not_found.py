"""The not-found sentence: recognised at the start of an answer, also where the model paraphrased it.

Under strict grounding an answer that the passages don't support starts with exactly the policy's sentence. Models say
it in their own words all the same, so the beginning is held back, only as long as it can still become such a sentence,
and a paraphrase is replaced. A sentence that gives part of an answer ("… don't give the price, but …") is none.
"""

import re

from citewire_verify.not_found import DECORATION, is_not_found, may_become_not_found, normalise_sentence

MAX_HELD = 200
"""Longest beginning, in code points, that is held back; a longer first sentence is shown as the model wrote it."""
MAX_TAIL = 8192
"""Code points after the sentence in which suggested questions are counted."""

_ENDS = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\b[a-zA-Z])[.!?…](?=[\s\"'”’*_)\]\[【]|$)|[。！？]|\n")
_CLOSING = "\"'”’»*_"
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
        self._normal = normalise_sentence(sentence)
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
        start = len(held) - len(held.lstrip(DECORATION))
        for match in _ENDS.finditer(held, start):
            known = match.end() < len(held) or final or match.group() not in ".!?…"
            return match.end() if known or normalise_sentence(held[: match.end()]) == self._normal else None
        return len(held) if final else None

    def _may_become(self, held: str) -> bool:
        normal = normalise_sentence(held)
        if self._normal.startswith(normal) or normal.startswith(self._normal):
            return True
        return self._paraphrases and may_become_not_found(held)

    def _is_not_found(self, sentence: str) -> bool:
        if normalise_sentence(sentence) == self._normal:
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


def count_questions(text: str) -> int:
    """Counts the questions in a text: those in a list if there is one, else every sentence that asks."""
    lines = text.splitlines()
    items = [line for line in lines if _LIST_ITEM.match(line)]
    return sum(len(_QUESTION_END.findall(line)) for line in items or lines)
