"""Questions about what chunks are about, where the generator can suggest none: by their sections, titles and words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from citewire.retriever.v1 import retriever_pb2

MAX_READ = 12
"""Chunks that are looked at."""
MAX_CHARS = 2000
"""Code points of each."""
MAX_TOPIC = 80
"""Longest topic, in code points."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """How a language asks."""

    heading: str
    """Of questions to ask instead; empty: as the profile has it."""
    about: str
    """Asks what is said about `{topic}`."""
    where: str
    """Asks what `{title}` is about."""
    points: str
    """Asks for its main points."""


ENGLISH = Phrases(
    "", "What is said about {topic}?", "What is “{title}” about?", "What are the main points of “{title}”?"
)
_PHRASES = {
    "german deutsch de": Phrases(
        "Stattdessen könnten Sie fragen:",
        "Was steht in den Dokumenten über {topic}?",
        "Worum geht es in „{title}“?",
        "Was sind die wichtigsten Punkte von „{title}“?",
    ),
    "french francais français fr": Phrases(
        "Vous pourriez plutôt demander :",
        "Que disent les documents sur {topic} ?",
        "De quoi parle « {title} » ?",
        "Quels sont les points principaux de « {title} » ?",
    ),
    "spanish español espanol castellano es": Phrases(
        "En su lugar, podría preguntar:",
        "¿Qué dicen los documentos sobre {topic}?",
        "¿De qué trata «{title}»?",
        "¿Cuáles son los puntos principales de «{title}»?",
    ),
    "italian italiano it": Phrases(
        "Potrebbe invece chiedere:",
        "Che cosa dicono i documenti su {topic}?",
        "Di che cosa tratta «{title}»?",
        "Quali sono i punti principali di «{title}»?",
    ),
    "portuguese português portugues pt": Phrases(
        "Em vez disso, poderia perguntar:",
        "O que dizem os documentos sobre {topic}?",
        "De que trata «{title}»?",
        "Quais são os pontos principais de «{title}»?",
    ),
    "dutch nederlands nl": Phrases(
        "U kunt in plaats daarvan vragen:",
        "Wat staat er in de documenten over {topic}?",
        "Waar gaat “{title}” over?",
        "Wat zijn de hoofdpunten van “{title}”?",
    ),
    "russian русский ru": Phrases(
        "Вместо этого можно спросить:",
        "Что в документах сказано о теме «{topic}»?",
        "О чём «{title}»?",
        "Каковы основные положения «{title}»?",
    ),
    "chinese 中文 汉语 漢語 zh": Phrases(
        "您可以改问：", "文档中关于“{topic}”说了什么？", "“{title}”讲的是什么？", "“{title}”的要点是什么？"
    ),
    "japanese 日本語 ja": Phrases(
        "代わりに次のように質問できます：",
        "文書には「{topic}」について何が書かれていますか？",
        "「{title}」は何についての文書ですか？",
        "「{title}」の要点は何ですか？",
    ),
}
_BY_NAME = {name: phrases for names, phrases in _PHRASES.items() for name in names.split()}
_NAME = re.compile(r"[^\W\d_]+")
_NAMES = re.compile(r"(?<![.!?:\n•|] )(?<!^)\b[^\W\d_a-z]\w{2,}(?:[ -][^\W\d_a-z]\w{2,}){0,3}")
_WORDS = re.compile(r"[^\W\d_]{6,30}|[\u4e00-\u9fff]{2,6}|[\u30a0-\u30ff]{3,12}|[\uac00-\ud7af]{2,8}")
_NUMBERING = re.compile(r"^(?:\d{1,2}[.)])+\d{0,2}\s+|^[#*\s]+")


def phrases_for(language: str) -> Phrases:
    """Returns how a language asks, by its name or code (`German`, `Deutsch`, `de-AT`); English if it isn't known."""
    name = _NAME.search(language.casefold())
    return _BY_NAME.get(name.group(), ENGLISH) if name else ENGLISH


def ask_about(
    results: Sequence[retriever_pb2.SearchResult], count: int, *, avoid: str, language: str
) -> tuple[str, ...]:
    """Makes questions about the topics of chunks.

    Args:
        results: Best first.
        count: How many at most; fewer if there are fewer topics.
        avoid: The question that found no answer: what it names isn't suggested.
        language: Of the questions, as a person would name it; empty is English.
    """
    phrases, avoided = phrases_for(language), avoid.casefold()
    questions: dict[str, str] = {}
    for template, topic in _topics(results, phrases):
        key = topic.casefold()
        known = template is not phrases.points and any(key in other or other in key for other in questions)
        if known or key in avoided or not 2 <= len(topic) <= MAX_TOPIC:
            continue
        question = template.replace("{title}", topic).replace("{topic}", topic)
        questions.setdefault(key if template is not phrases.points else question, question)
        if len(questions) == count:
            break
    return tuple(questions.values())


def _topics(results: Sequence[retriever_pb2.SearchResult], phrases: Phrases) -> Iterable[tuple[str, str]]:
    """Sections first, for their author named them; then titles, names and frequent words; each with how to ask."""
    chunks = [result.chunk for result in results[:MAX_READ]]
    titles = [_tidy(chunk.title or chunk.file_name) for chunk in chunks]
    for chunk in chunks:
        yield phrases.about, _tidy(chunk.section.rsplit(" > ", 1)[-1])
    for title in titles:
        yield phrases.where, title
    texts = [chunk.text[:MAX_CHARS] for chunk in chunks]
    for pattern in (_NAMES, _WORDS):
        counts = Counter(topic for text in texts for topic in pattern.findall(text))
        for topic, _ in sorted(counts.items(), key=lambda item: (-item[1], -len(item[0]), item[0])):
            yield phrases.about, _tidy(topic)
    for title in titles:
        yield phrases.points, title


def _tidy(text: str) -> str:
    return _NUMBERING.sub("", " ".join(text.split())).strip(" #*_`[]()<>")
