"""Follow-ups: questions that can't be understood without what was asked before, by rules over their words.

A pronoun makes a follow-up only where the question itself holds nothing that it could stand for, so most of the rules
say what is none: a question that stands alone must stay as it is. What a language's words are is data
(`follow_up_words`, `follow_up_scripts`); a language that isn't there has no follow-ups.
"""

import re
from collections.abc import Sequence
from typing import Final

from citewire_verify.text.follow_up_scripts import BY_SCRIPT, UNSPACED, Unspaced
from citewire_verify.text.follow_up_words import LATIN, Language
from citewire_verify.text.languages import detect_language
from citewire_verify.text.small_talk import is_small_talk
from citewire_verify.text.stop_words import STOP_WORDS_BY_LANGUAGE
from citewire_verify.text.terms import Term, normalise, terms

MAX_WORDS: Final = 24
"""Maximum number of words in a follow-up; longer questions name their topic."""
MAX_TOPICS: Final = 8
"""Maximum number of topic words that a follow-up takes over."""

_SUBJECT_WORDS: Final = 2
"""Number of topic words between verb and pronoun to which the pronoun may refer; one may be part of the predicate."""
_GENERAL_WORDS: Final = 4
"""Number of topic words from which `they` means people in general."""
_CONTINUING_WORDS: Final = 3
"""Maximum number of topic words in a follow-up that begins with `and`."""
_UNSPACED_BEFORE: Final = 3
"""Number of characters before a pronoun to which it may refer."""
_LEAST_TOPIC: Final = 2
"""Number of characters of a topic in a script without spaces."""
_PUNCTUATION: Final = re.compile(r"[^\w\s'’-]")


class _Question:
    """A question's words in a language, with the properties that the rules use."""

    def __init__(self, text: str, language: Language, stops: frozenset[str]) -> None:
        self.text = text
        self.language = language
        self.terms = terms(text)
        self.words = [normalise(text[term.start : term.end]) for term in self.terms]
        self.content = [
            place
            for place, (term, word) in enumerate(zip(self.terms, self.words, strict=True))
            if term.number or not (word in stops or word in language.light or word in language.question_words)
        ]
        self.has_question_word = any(word in language.question_words for word in self.words)
        self.marked = text.rstrip().endswith(("?", "？", "؟", ";"))

    def names(self, until: int) -> bool:
        """Whether there is a name before a position."""
        if self.language.capital_nouns:
            return False
        return any(self.terms[place].name or (place == 0 and self._is_capital(0)) for place in self.content_to(until))

    def content_to(self, until: int) -> list[int]:
        """The topic words before a position."""
        return [place for place in self.content if place < until]

    def has_antecedent(self, until: int, *, possessive: bool) -> bool:
        """Whether something precedes a pronoun to which it may refer, apart from names: a noun or a subject."""
        before = self.content_to(until)
        if not before:
            return False
        if any(self._has_article(place) for place in before):
            return True
        if self._is_second_clause(until):
            return True
        verb = next((place for place, word in enumerate(self.words[:until]) if word in self.language.verbs), 0)
        subject = [place for place in before if place > verb]
        return len(subject) >= (1 if possessive else _SUBJECT_WORDS)

    def follows_verb(self, place: int) -> bool:
        """Whether a word is the subject of the question's first auxiliary: `what music did they play`."""
        verb = next((number for number, word in enumerate(self.words) if word in self.language.verbs), None)
        return verb is not None and place == verb + 1 and not self._is_second_clause(place)

    def _is_second_clause(self, place: int) -> bool:
        """Whether a clause with a topic precedes that of a word: `When Iqbal came to power, what did he do?`."""
        before = self.content_to(place)
        comma = self.text.rfind(",", 0, self.terms[place].start)
        if any(self.terms[number].end <= comma for number in before):
            return True
        return bool(before) and any(word in self.language.question_words for word in self.words[before[0] + 1 : place])

    def ends_clause(self, place: int) -> bool:
        """Whether only light words follow a word in its clause."""
        following = self.text[self.terms[place].end :]
        return place == len(self.words) - 1 or _PUNCTUATION.match(following.lstrip()) is not None

    def _has_article(self, place: int) -> bool:
        return any(word in self.language.articles for word in self.words[max(0, place - 2) : place])

    def _is_capital(self, place: int) -> bool:
        return self.text[self.terms[place].start].isupper()


def is_follow_up(question: str, earlier: str = "") -> bool:
    """Whether a question can't be understood without what was asked before.

    Args:
        question: The question as asked.
        earlier: The earlier questions, which determine the language of a question of two words.
    """
    if is_small_talk(question):
        return False
    unspaced = _unspaced(question)
    if unspaced is not None:
        return _is_unspaced_follow_up(question, unspaced)
    language, stops = _language(question, earlier)
    if language is None:
        return False
    asked = _Question(question, language, stops)
    if not asked.words or len(asked.words) > MAX_WORDS:
        return False
    spelled = " ".join(asked.words)
    if language.openers.match(spelled) and len(asked.content) <= _CONTINUING_WORDS:
        return True
    if not asked.content:
        return True
    return any(_points_back(asked, place) for place in range(len(asked.words))) or _is_elliptic(asked)


def topics(question: str, earlier: Sequence[str]) -> str:
    """Returns the topic words of earlier questions that a follow-up takes over, as they were written; "" for none.

    Questions are read from the latest back to the first standalone one: `And when?` after `Who built it?` is about
    something asked before both.

    Args:
        question: The follow-up, whose own words aren't repeated.
        earlier: The questions before it, oldest first.
    """
    parts: list[list[str]] = []
    known = {term.key for term in terms(question)}
    for place in range(len(earlier) - 1, -1, -1):
        before = "\n".join(earlier[:place])
        if is_small_talk(earlier[place]):
            continue
        parts.append(_topics_of(earlier[place], before, known))
        if not is_follow_up(earlier[place], before):
            break
    latest_last = [word for part in reversed(parts) for word in part]
    return " ".join(latest_last[:MAX_TOPICS])


def _topics_of(text: str, before: str, known: set[str]) -> list[str]:
    """The new topic words of one question; they count as known from then on."""
    unspaced = _unspaced(text)
    if unspaced is not None:
        return [part for part in unspaced.framing.split(text) if len(part.strip()) >= _LEAST_TOPIC]
    language, stops = _language(text, before)
    topics: list[str] = []
    for term in terms(text):
        word = normalise(text[term.start : term.end])
        if term.key in known or _is_stop(term, word, stops) or (language is not None and word in language.little):
            continue
        known.add(term.key)
        topics.append(text[term.start : term.end])
    return topics


def _is_stop(term: Term, word: str, stops: frozenset[str]) -> bool:
    return not term.number and (term.stop if not stops else word in stops)


def _points_back(asked: _Question, place: int) -> bool:
    """Whether a word of the question refers to something that the question doesn't name."""
    word, language = asked.words[place], asked.language
    following = asked.words[place + 1] if place + 1 < len(asked.words) else ""
    if language.empty_subjects.search(" ".join((*asked.words[:place], f"<{word}>", *asked.words[place + 1 :]))):
        return False
    if word in language.pointers:
        return _is_pointer(asked, place, following)
    raw = asked.text[asked.terms[place].start : asked.terms[place].end]
    if word not in language.pronouns or (place and raw in language.polite):
        return False
    if word in language.general and len(asked.content) >= _GENERAL_WORDS:
        return False
    if asked.names(place):
        return False
    before = asked.words[place - 1] if place else ""
    if before in language.prepositions and asked.ends_clause(place) and word not in language.possessives:
        return True  # what was the purpose of it
    if before in language.question_words and len(asked.content_to(place)) < _SUBJECT_WORDS:
        return True  # show me on a map where it is
    return asked.follows_verb(place) or not asked.has_antecedent(place, possessive=word in language.possessives)


def _is_pointer(asked: _Question, place: int, following: str) -> bool:
    if asked.ends_clause(place):
        return not asked.names(place) and not any(word in asked.language.articles for word in asked.words[:place])
    if not asked.follows_verb(place) and place > 0:
        return False
    # Before a noun it specifies which one; before an article or a relative clause, what follows explains it.
    rest = asked.words[place + 1 :]
    return following in asked.language.light and not any(word in asked.language.articles for word in rest)


def _is_elliptic(asked: _Question) -> bool:
    """Whether the question lacks its topic: `which causes?`, `¿Cuándo nació?`, `what is the population?`."""
    language, words = asked.language, asked.words
    articles = any(word in language.articles for word in words)
    if language.drops_subjects and asked.has_question_word and not articles:
        named = asked.names(len(words)) or any(term.number for term in asked.terms)
        few = 1 if asked.text.islower() else 2
        return not named and len(asked.content) <= few and not any(word in language.complements for word in words)
    if len(asked.content) > 1 or asked.names(len(words)):
        return False
    place = asked.content[0]
    if asked.terms[place].number:
        return False
    if not asked.has_question_word:
        return len(words) == 1 and asked.marked
    if place and words[place - 1] in language.definite:
        return not any(word in language.complements for word in words[place + 1 :])
    return not any(word in language.verbs or word in language.articles for word in words)


def _language(question: str, earlier: str) -> tuple[Language | None, frozenset[str]]:
    """The language's words and stop words; none for an unknown script."""
    script = next((language for pattern, language in BY_SCRIPT if pattern.search(question)), None)
    if script is not None:
        return script, frozenset()
    if not re.search(r"[a-z]", normalise(question)):
        return None, frozenset()
    code = "es" if "¿" in question else detect_language(question)
    if code == "en" and earlier:
        code = detect_language(f"{question}\n{earlier}")
    if code not in LATIN:  # the earlier questions are in another script
        code = "en"
    return LATIN[code], STOP_WORDS_BY_LANGUAGE[code]


def _unspaced(text: str) -> Unspaced | None:
    return next((language for language in UNSPACED if language.script.search(text)), None)


def _is_unspaced_follow_up(question: str, language: Unspaced) -> bool:
    rest = question.strip()
    if language.openers.match(rest):
        return True
    pronoun = language.pronouns.search(rest)
    content = [part for part in language.framing.split(rest) if part.strip()]
    if not content:
        return True
    if pronoun is None:
        return False
    before = language.framing.sub("", rest[: pronoun.start()])
    return len(before) < _UNSPACED_BEFORE
