"""How languages ask about topics and titles, where no model suggests questions."""

import re
from dataclasses import dataclass
from typing import Final

from citewire_verify.text.terms import normalise


@dataclass(frozen=True, slots=True)
class Phrases:
    """A language's phrases."""

    heading: str
    """Heading for questions to ask instead; empty for the caller's."""
    inside: str
    """Asks what is said about `{topic}` in the document `{where}`."""
    about: str
    """Asks what is said about `{topic}`."""
    what: str
    """Asks what the document `{topic}` is about."""
    points: str
    """Asks for its main points."""


PHRASES: Final = {
    "en": Phrases(
        "",
        "What does “{where}” say about {topic}?",
        "What is said about {topic}?",
        "What is “{topic}” about?",
        "What are the main points of “{topic}”?",
    ),
    "de": Phrases(
        "Stattdessen könnten Sie fragen:",
        "Was steht in „{where}“ über {topic}?",
        "Was steht in den Dokumenten über {topic}?",
        "Worum geht es in „{topic}“?",
        "Was sind die wichtigsten Punkte von „{topic}“?",
    ),
    "fr": Phrases(
        "Vous pourriez plutôt demander :",
        "Que dit « {where} » sur {topic} ?",
        "Que disent les documents sur {topic} ?",
        "De quoi parle « {topic} » ?",
        "Quels sont les points principaux de « {topic} » ?",
    ),
    "es": Phrases(
        "En su lugar, podría preguntar:",
        "¿Qué dice «{where}» sobre {topic}?",
        "¿Qué dicen los documentos sobre {topic}?",
        "¿De qué trata «{topic}»?",
        "¿Cuáles son los puntos principales de «{topic}»?",
    ),
    "it": Phrases(
        "Potrebbe invece chiedere:",
        "Che cosa dice «{where}» su {topic}?",
        "Che cosa dicono i documenti su {topic}?",
        "Di che cosa tratta «{topic}»?",
        "Quali sono i punti principali di «{topic}»?",
    ),
    "pt": Phrases(
        "Em vez disso, poderia perguntar:",
        "O que diz «{where}» sobre {topic}?",
        "O que dizem os documentos sobre {topic}?",
        "De que trata «{topic}»?",
        "Quais são os pontos principais de «{topic}»?",
    ),
    "nl": Phrases(
        "U kunt in plaats daarvan vragen:",
        "Wat staat er in “{where}” over {topic}?",
        "Wat staat er in de documenten over {topic}?",
        "Waar gaat “{topic}” over?",
        "Wat zijn de hoofdpunten van “{topic}”?",
    ),
    "ru": Phrases(
        "Вместо этого можно спросить:",
        "Что такое «{topic}» в «{where}»?",
        "Что такое «{topic}»?",
        "О чём «{topic}»?",
        "Каковы основные положения «{topic}»?",
    ),
    "zh": Phrases(
        "您可以改问：",
        "“{where}”中的“{topic}”是什么？",
        "“{topic}”是什么？",
        "“{topic}”讲的是什么？",
        "“{topic}”的要点是什么？",
    ),
    "ja": Phrases(
        "代わりに次のように質問できます：",
        "「{where}」の「{topic}」とは何ですか？",
        "「{topic}」とは何ですか？",
        "「{topic}」は何についての文書ですか？",
        "「{topic}」の要点は何ですか？",
    ),
}
_NAMES: Final = {
    "en": "english en",
    "de": "german deutsch de",
    "fr": "french français fr",
    "es": "spanish español castellano es",
    "it": "italian italiano it",
    "pt": "portuguese português pt",
    "nl": "dutch nederlands nl",
    "ru": "russian русский ru",
    "zh": "chinese 中文 汉语 漢語 zh",
    "ja": "japanese 日本語 ja",
}
_BY_NAME: Final = {normalise(name): code for code, names in _NAMES.items() for name in names.split()}
_NAME: Final = re.compile(r"[^\W\d_]+")


def language_code(name: str) -> str | None:
    """Returns the code of a language by its name or code (`English`, `Español`, `de`, `pt-BR`); None if unknown."""
    word = _NAME.search(name)
    return _BY_NAME.get(normalise(word.group())) if word else None


def phrases_of(code: str | None) -> Phrases:
    """Returns a language's phrases; English ones if it is unknown."""
    return PHRASES.get(code or "", PHRASES["en"])
