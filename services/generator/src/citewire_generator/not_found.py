"""The not-found sentence: recognised at the start of an answer, also where the model paraphrased it; then questions.

Under strict grounding an answer that the passages don't support starts with exactly the policy's sentence. Models say
it in their own words all the same, so the beginning is held back, only as long as it can still become such a sentence,
and a paraphrase is replaced. A sentence that gives part of an answer ("… don't give the price, but …") is none.

What follows the sentence is questions and nothing else: prose is dropped, and questions become a list.
"""

import re

from citewire_generator.suggestions import clean_question
from citewire_verify.not_found import DECORATION, is_not_found, may_become_not_found, normalise_sentence
from citewire_verify.text.sentences import LOOK_AHEAD, SENTENCE_END, ends_sentence

MAX_HELD = 200
"""Longest beginning, in code points, that is held back; a longer first sentence is shown unchanged."""
MAX_LINE = 2000
"""Maximum code points read of a line after the sentence."""
MAX_QUESTIONS = 3
"""Maximum number of questions after the sentence."""

_ENDS = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\b[a-zA-Z])[.!?…](?=[\s\"'”’*_)\]\[【]|$)|[。！？]|\n")
_WORD = re.compile(r"\w+")
_RESEMBLANCE = 0.8
"""Share of the sentence's words from which a sentence with no other words is a paraphrase."""
_LIST_ITEM = re.compile(r"^\s*(?:[-*+•–]|\(?\d{1,2}[.)])\s+(?=\S)")
_INTRODUCED = re.compile(r"^[^?？؟:：]{1,80}[:：]\s*(?=[\"“«„]?[^\W\d_a-z])")
_OFFERS = re.compile(
    r"(?:would you like|do you want|shall i|should i|can i|may i|could i|is there (?:anything|something)|anything else"
    r"|möchten sie|möchtest du|soll ich|kann ich|voulez-vous|souhaitez-vous|puis-je|quieres?|desea|le gustaría"
    r"|te gustaría|puedo|vuoi|vuole|posso|deseja|quer que|gostaria|wil je|wilt u|kan ik)\b",
    re.IGNORECASE,
)
"""Beginnings of questions that the model asks the reader."""


class NotFoundGate:
    """Processes the start of one answer, and the text after the sentence.

    Args:
        sentence: The exact sentence that a not-found answer starts with.
        paraphrases: Whether to look for paraphrases; not if the text is quoted from documents.
    """

    def __init__(self, sentence: str, *, paraphrases: bool = True) -> None:
        self._paraphrases = paraphrases
        self._sentence = sentence
        self._normal = normalise_sentence(sentence)
        self._words = frozenset(_WORD.findall(self._normal))
        self._max_held = max(MAX_HELD, len(sentence) + 40)
        self._held: str | None = ""
        self._questions = QuestionList(MAX_QUESTIONS)
        self.not_found = False
        """Whether the answer starts with the sentence."""

    @property
    def suggested_questions(self) -> int:
        """Number of questions after the sentence."""
        return self._questions.count

    def feed(self, text: str) -> str:
        """Takes the next piece of the answer and returns what may be passed on now."""
        if self._held is None:
            return self._questions.feed(text) if self.not_found else text
        self._held += text
        return self._decide(final=False)

    def finish(self) -> str:
        """Returns the text still held back: an answer that ended before the decision, or a last question."""
        decided = "" if self._held is None else self._decide(final=True)
        return decided + self._questions.finish()

    def _decide(self, *, final: bool) -> str:
        held = self._held or ""
        if (end := self._exact_end(held, final=final)) is not None:
            return self._replace(held[end:])
        end = self._sentence_end(held, final=final)
        if end is not None and not self._may_be_exact(held, final=final):
            return self._replace(held[end:]) if self._is_not_found(held[:end]) else self._release(held)
        if len(held) <= self._max_held and self._may_become(held):
            return ""
        return self._release(held)

    def _exact_end(self, held: str, *, final: bool) -> int | None:
        """The end of the exact sentence, which may have several full stops; None if it isn't there."""
        for match in _ENDS.finditer(held[: self._max_held]):
            if normalise_sentence(held[: match.end()]) == self._normal:
                return match.end()
        return len(held) if final and normalise_sentence(held) == self._normal else None

    def _may_be_exact(self, held: str, *, final: bool) -> bool:
        """Whether `held` is a beginning of the exact sentence."""
        return not final and self._normal.startswith(normalise_sentence(held))

    def _sentence_end(self, held: str, *, final: bool) -> int | None:
        """The end of the first sentence; None if it isn't known yet.

        A full stop at the very end of the held text may belong to a number or an abbreviation: the next piece decides.
        """
        start = len(held) - len(held.lstrip(DECORATION))
        for match in _ENDS.finditer(held, start):
            known = match.end() < len(held) or final or match.group() not in ".!?…"
            return match.end() if known else None
        return len(held) if final else None

    def _may_become(self, held: str) -> bool:
        normal = normalise_sentence(held)
        if self._normal.startswith(normal) or normal.startswith(self._normal):
            return True
        return self._paraphrases and (may_become_not_found(held) or self._resembles(held, so_far=True))

    def _is_not_found(self, sentence: str) -> bool:
        if not self._paraphrases or len(sentence) > self._max_held:
            return False
        return is_not_found(sentence) or self._resembles(sentence, so_far=False)

    def _resembles(self, text: str, *, so_far: bool) -> bool:
        """Whether a sentence has the words of the policy's sentence, in any order, and no others."""
        words = _WORD.findall(normalise_sentence(text))
        if not so_far:
            return self._words.issuperset(words) and len(set(words)) >= _RESEMBLANCE * len(self._words)
        last = words.pop() if words and text[-1:].isalnum() else ""
        return self._words.issuperset(words) and (not last or any(word.startswith(last) for word in self._words))

    def _replace(self, rest: str) -> str:
        self._held, self.not_found = None, True
        return self._sentence + self._questions.feed(rest)

    def _release(self, held: str) -> str:
        self._held = None
        return held.lstrip()


class QuestionList:
    """Extracts the questions after the not-found sentence, line by line, as a list.

    Args:
        most: Maximum number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._line = ""
        self._seen: set[str] = set()

    @property
    def count(self) -> int:
        """Number of questions so far."""
        return len(self._seen)

    def feed(self, text: str) -> str:
        """Takes the next piece and returns the completed questions as list items."""
        items: list[str] = []
        *lines, last = text.split("\n")
        for line in lines:
            self._add(line)
            items += self._take()
        self._add(last)
        return "".join(items)

    def finish(self) -> str:
        """Returns the questions of the last line."""
        return "".join(self._take())

    def _add(self, text: str) -> None:
        self._line += text[: MAX_LINE - len(self._line)]

    def _take(self) -> list[str]:
        line, self._line = self._line, ""
        items: list[str] = []
        for question in read_line(line) if self.count < self._most else ():
            key = question.casefold()
            if self.count < self._most and key not in self._seen:
                items.append(f"{'' if self._seen else chr(10)}\n- {question}")
                self._seen.add(key)
        return items


def read_line(line: str) -> list[str]:
    """Returns the questions in a line that a reader could ask, without those that the model asks the reader."""
    item = _LIST_ITEM.match(line)
    text = line[item.end() :] if item else line
    questions: list[str] = []
    begin = 0
    for match in SENTENCE_END.finditer(text):
        if not ends_sentence(text, begin, match, text[match.end() : match.end() + LOOK_AHEAD]):
            continue
        sentence = text[begin : match.end()]
        question = clean_question(sentence if item else _INTRODUCED.sub("", sentence.strip(), count=1))
        if question and not _OFFERS.match(question):
            questions.append(question)
        begin = match.end()
    if not questions and begin == 0 and (question := clean_question(text)) and not _OFFERS.match(question):
        questions.append(question)
    return questions
