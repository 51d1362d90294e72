"""Reads a question: its topic words, and what kind of answer it asks for."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from citewire_generator.extraction.opposites import is_extreme
from citewire_verify.text.languages import detect_language
from citewire_verify.text.stop_words import words_of
from citewire_verify.text.terms import Term, normalise, stem, terms


class AnswerKind(Enum):
    """The parts that an answer must contain, as far as the question's words show."""

    ANY = auto()
    PERSON = auto()
    TIME = auto()
    NUMBER = auto()
    PLACE = auto()
    REASON = auto()


_KINDS: tuple[tuple[AnswerKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?<!\w)(?:{pattern})(?!\w)"))
    for kind, pattern in (
        (
            AnswerKind.TIME,
            r"when|(?:what|which|in) (?:\w+ )?(?:year|date|day|month|century|decade|time)|what time|wann"
            r"|welche[mns]? jahr|quand|quelle (?:annee|date)|cuando|que (?:ano|fecha)|quando"
            r"|che anno|em que ano|wanneer",
        ),
        (
            AnswerKind.NUMBER,
            r"how (?:many|much|old|long|far|tall|large|big|high|deep|fast|often|wide|heavy)"
            r"|(?:what|which) (?:\w+ )?(?:percent|percentage|number|amount|price|cost|rate|size|population|distance|"
            r"total|fraction|proportion|length|height|weight|speed|temperature|age|fee|salary|score)"
            r"|wie ?viele?|wie (?:lang|alt|hoch|gross|weit|schnell)|combien|cuant[oa]s?|quant[oiae]s?|hoeveel",
        ),
        (AnswerKind.PERSON, r"who|whom|whose|wer|wem|wen|wessen|qui|quien|quienes|chi|quem|wie heet"),
        (
            AnswerKind.PLACE,
            r"where|(?:what|which|in) (?:\w+ )?(?:country|city|state|place|region|town|location|continent|county|"
            r"province)|wo|wohin|woher|ou|donde|dove|onde|waar",
        ),
        (
            AnswerKind.REASON,
            r"why|what (?:caused|causes|is the reason)|warum|weshalb|wieso|pourquoi|por que|perche|waarom",
        ),
    )
)
_TIME_WORDS = words_of("""
    january february march april may june july august september october november december monday tuesday
    wednesday thursday friday saturday sunday century centuries decade januar februar marz mai juni juli oktober
    dezember enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre janvier
    fevrier mars avril juin juillet aout octobre decembre gennaio febbraio aprile maggio giugno luglio settembre
    ottobre dicembre siglo siecle jahrhundert secolo today yesterday daily weekly monthly annually
""")
_NUMBER_WORDS = words_of("""
    one two three four five six seven eight nine ten eleven twelve thirteen fifteen twenty thirty forty fifty
    sixty seventy eighty ninety hundred hundreds thousand thousands million millions billion billions half third
    quarter dozen double twice eins zwei drei vier funf sechs sieben acht neun zehn hundert tausend million uno
    dos tres cuatro cinco seis siete ocho nueve diez cien mil deux trois quatre cinq sept huit neuf dix cent
    mille due tre quattro cinque sei sette otto nove dieci cento
""")
_REASON_WORDS = words_of("""
    because due since reason cause caused causes therefore thus hence result order so weil denn grund wegen
    porque debido causa car raison parce perche motivo omdat
""")
_FRAME_WORDS = words_of("""
    name named call called type kind sort year date time day month century decade number amount many much
    percent percentage people person place country city location term word refer referred known mean meaning
    describe explain tell find give list example happen way thing something someone use used question answer
    document documents file text passage source page section information detail details
    dokument dokumente dokumenten documento documentos documenti documenten
""")
_FRAME_KEYS = frozenset(stem(word) for word in _FRAME_WORDS)
"""Words for the kind of thing asked for, which passages rarely repeat."""
_NEGATION = re.compile(
    r"(?<!\w)(?:not|never|no|nor|neither|without|cannot|none|nicht|kein\w*|nie|ne|pas|jamais|sans|nunca|sin|non|mai|senza"
    r"|nao|não|sem|niet|geen)(?!\w)|n['’]t\b",
    re.IGNORECASE,
)
_YEAR = re.compile(
    r"(?<!\d)(?:1\d{3}|20\d{2})(?!\d)s?|\d{1,2}[:.]\d{2}\s?(?:am|pm|uhr)?|\d{1,2}(?:st|nd|rd|th) century"
)


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed question."""

    keys: tuple[str, ...]
    """Topic words, distinct, in order."""
    weights: dict[str, float]
    """How informative each word is before any passage is seen, 0–1."""
    names: frozenset[str]
    """Words written like names."""
    numbers: frozenset[str]
    """Words that are numbers."""
    pairs: tuple[tuple[str, str], ...]
    """Consecutive topic words, with only stop words between."""
    kind: AnswerKind
    every: frozenset[str]
    """All words, including stop words."""
    negated: bool
    """Whether it is negated."""
    extremes: frozenset[str]
    """Words that narrow it to one, all, none or the end of a scale."""


def read_question(text: str) -> Question:
    """Parses a question. If it has only stop words, these are its topic."""
    all_terms = terms(text)
    content = [term for term in all_terms if not term.stop] or all_terms
    keys = tuple(dict.fromkeys(term.key for term in content))
    return Question(
        keys=keys,
        weights={key: 0.3 if key in _FRAME_KEYS else 1.0 for key in keys},
        names=_names(text, content),
        numbers=frozenset(term.key for term in content if term.number),
        pairs=tuple((a.key, b.key) for a, b in pairwise(content) if a.key != b.key and b.start - a.end <= 12),
        kind=_kind(text),
        every=frozenset(term.key for term in all_terms),
        negated=is_negated(text),
        extremes=frozenset(term.key for term in all_terms if is_extreme(_word(text, term))),
    )


def _names(text: str, content: list[Term]) -> frozenset[str]:
    """Words written like names; in German only acronyms, because every noun is capitalised."""
    german = detect_language(text) == "de"
    return frozenset(
        term.key
        for term in content
        if term.name and term.key not in _FRAME_KEYS and (not german or text[term.start : term.end].isupper())
    )


def is_negated(text: str) -> bool:
    """Whether a text contains a negation."""
    return _NEGATION.search(text) is not None


def holds_kind(kind: AnswerKind, question: Question, text: str, unit_terms: list[Term]) -> bool:
    """Whether a text contains something of the requested kind that isn't already in the question."""
    new = [term for term in unit_terms if term.key not in question.every]
    match kind:
        case AnswerKind.ANY:
            return any(not term.stop for term in new)
        case AnswerKind.PERSON | AnswerKind.PLACE:
            return any(term.name for term in new)
        case AnswerKind.TIME:
            return any(_word(text, term) in _TIME_WORDS for term in new) or any(
                normalise(match.group()) not in question.every for match in _YEAR.finditer(text)
            )
        case AnswerKind.NUMBER:
            return any(term.number or _word(text, term) in _NUMBER_WORDS for term in new)
        case AnswerKind.REASON:
            return any(_word(text, term) in _REASON_WORDS for term in unit_terms)


def _kind(text: str) -> AnswerKind:
    normal = " ".join(normalise(word) for word in re.findall(r"\w+", text))
    first: tuple[int, AnswerKind] | None = None
    for kind, pattern in _KINDS:
        match = pattern.search(normal)
        if match and (first is None or match.start() < first[0]):
            first = (match.start(), kind)
    return first[1] if first else AnswerKind.ANY


def _word(text: str, term: Term) -> str:
    return normalise(text[term.start : term.end])
