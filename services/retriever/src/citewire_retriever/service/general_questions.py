"""Questions that only say what to do with the documents, such as "Summarise this report".

They resemble no text, so neither their vector nor their words show whether they are on topic; any documents answer
them. A question counts as general if it consists only of words for documents and of function words.
"""

import json
import re
from importlib.resources import files
from typing import Any, Final

from citewire_retriever.service.query_filters.words import fold

_WORD: Final = re.compile(r"[^\W\d_]+")
_FILE: Final[dict[str, Any]] = json.loads(
    files("citewire_retriever.service").joinpath("general_words.json").read_bytes()
)
_WORDS: Final = frozenset(fold(word) for words in _FILE["words"].values() for word in words.split())
_PHRASES: Final = re.compile(
    "|".join(sorted((phrase for phrases in _FILE["phrases"].values() for phrase in phrases.split()), key=len)[::-1])
)
"""Phrases of languages without spaces, the longest first."""


def is_general(question: str) -> bool:
    """Whether a question names no subject; False for one without words."""
    words = _WORD.findall(_PHRASES.sub(" ", fold(question)))
    return bool(_WORD.search(question)) and all(word in _WORDS for word in words)
