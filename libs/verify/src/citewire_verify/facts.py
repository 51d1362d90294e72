"""Selects the sentences of an answer that state facts and should cite something."""

import re

from citewire_verify.not_found import is_not_found
from citewire_verify.segment import Sentence, SentenceKind
from citewire_verify.text.small_talk import is_small_talk
from citewire_verify.text.terms import normalise, terms

_QUESTION = re.compile(r"[?？؟;]['\"”’»)*_\s]*$")
_INTRODUCES = re.compile(r"[:：]['\"”’»)*_\s]*$")
_DOCUMENTS = r"(?:documents?|passages?|sources?|context|excerpts?|texts?|information)"
_META = re.compile(
    r"(?:"
    # The writer's actions, offers and questions.
    r"i|i'm|i've|i'll|i'd|let me|let us|let's|feel free|please|if you|would you|do you|you can ask|you may ask|sure"
    r"|certainly|of course|absolutely|great question|good question|hope|happy to|thank you|thanks|sorry|unfortunately"
    # References to what follows or was said.
    r"|here is|here's|here are|here you|below is|below are|the following|as follows|see below|as mentioned|as noted"
    r"|for more|for further|note that the|note that these"
    # Statements about the passages.
    rf"|(?:the |these |this |your |no )?(?:provided |given |available |uploaded |cited )?{_DOCUMENTS}"
    r"(?: provided| given| available)? (?:do|does|did|is|are|don't|doesn't|cannot|can't|contains?|mentions?|provides?"
    r"|says?)"
    rf"|based on (?:the|these|your|this)[\w ]{{0,40}}{_DOCUMENTS}[, ]{{0,3}}(?:here|i|the following|it is not"
    r"|there is no)"
    # Other languages.
    r"|hier (?:ist|sind|finden)|ich|bitte|leider|gerne|wenn sie|falls sie|zusammenfassend"
    r"|voici|je|j'|s'il vous plait|malheureusement|si vous|n'hesitez"
    r"|aqui (?:esta|estan|tienes|tiene|estao)|lo siento|por favor|si (?:quieres|desea|necesita)|puedo|claro"
    r"|a continuacion|ecco|mi dispiace|per favore|se vuoi|certamente|desculpe|se voce|hier (?:zijn|volgt)|helaas"
    r")(?![\w.])"
)
_DECORATION = " \t*_`\"'“”‘’«»#>-–—•([{"
_LEAST = 2
"""Number of content words from which a sentence may state a fact."""


def states_facts(sentence: Sentence, known: frozenset[str] = frozenset()) -> bool:
    """Whether a sentence states a fact that a passage could support.

    Args:
        sentence: A sentence of an answer.
        known: The server's own sentences, such as the not-found sentence; casefolded.
    """
    text = " ".join(sentence.text.split())
    if sentence.kind in {SentenceKind.HEADING, SentenceKind.CODE}:
        return False
    if _QUESTION.search(text) or _INTRODUCES.search(text) or _is_own(text, known):
        return False
    if sentence.kind is SentenceKind.ROW:
        cells = [cell for cell in text.strip("|").split("|") if cell.strip()]
        return len(cells) > 1 and any(char.isdigit() for char in text)
    content = [term for term in terms(text) if not term.stop]
    if len(content) < _LEAST:
        return False
    start = normalise(text.lstrip(_DECORATION)[:120].replace("’", "'"))
    return not (_META.match(start) or is_small_talk(text) or is_not_found(text[:400]))


def _is_own(text: str, known: frozenset[str]) -> bool:
    """Whether a sentence is the server's own, or part of one."""
    text = text.casefold()
    return any(text in sentence for sentence in known)
