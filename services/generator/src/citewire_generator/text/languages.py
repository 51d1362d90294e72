"""Which of a few languages a text is in, and how a question about a topic is put in them."""

from citewire_generator.text.stop_words import STOP_WORDS_BY_LANGUAGE
from citewire_generator.text.terms import normalise, words

_NAMES = {
    "en": "english en",
    "de": "german deutsch de",
    "fr": "french francais fr",
    "es": "spanish espanol castellano es",
    "it": "italian italiano it",
    "pt": "portuguese portugues pt",
    "nl": "dutch nederlands nl",
}
_BY_NAME = {name: code for code, names in _NAMES.items() for name in names.split()}
_ABOUT = {
    "en": ("What does “{where}” say about {topic}?", "What is said about {topic}?"),
    "de": ("Was steht in „{where}“ über {topic}?", "Was steht in den Dokumenten über {topic}?"),
    "fr": ("Que dit « {where} » sur {topic} ?", "Que disent les documents sur {topic} ?"),
    "es": ("¿Qué dice «{where}» sobre {topic}?", "¿Qué dicen los documentos sobre {topic}?"),
    "it": ("Che cosa dice «{where}» su {topic}?", "Che cosa dicono i documenti su {topic}?"),
    "pt": ("O que diz «{where}» sobre {topic}?", "O que dizem os documentos sobre {topic}?"),
    "nl": ("Wat staat er in “{where}” over {topic}?", "Wat staat er in de documenten over {topic}?"),
}
_SAMPLE = 4000


def language_code(name: str) -> str | None:
    """Returns the code of a language by its name or code (`English`, `Español`, `de`, `pt-BR`); None if unknown."""
    found = words(name)
    return _BY_NAME.get(normalise(found[0])) if found else None


def detect_language(text: str) -> str:
    """Returns the language whose function words are most frequent in the text's beginning; English if none is."""
    counts = dict.fromkeys(STOP_WORDS_BY_LANGUAGE, 0)
    for word in words(text[:_SAMPLE]):
        normal = normalise(word)
        for code, stops in STOP_WORDS_BY_LANGUAGE.items():
            counts[code] += normal in stops
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] > counts["en"] else "en"


def question_about(topic: str, where: str, language: str) -> str:
    """Asks what is said about a topic, in a document if `where` names one."""
    inside, anywhere = _ABOUT.get(language, _ABOUT["en"])
    return inside.format(where=where, topic=topic) if where else anywhere.format(topic=topic)
