"""Judgements without a language model, for the extractive provider: rules over words, and named as such.

They are on the safe side. A message is answered without retrieval only if it is plainly small talk or arithmetic; an
answer is supported if each of its sentences says what one passage says, word for word but for their forms; a follow-up
gets the topic words of the question before it.
"""

import re
from collections.abc import Sequence

from citewire_generator.answer import is_not_found
from citewire_generator.model import Message, Passage, Role
from citewire_generator.reflection.values import Assessment, Decision, Rewritten
from citewire_generator.text.questions import read_question
from citewire_generator.text.stop_words import words_of
from citewire_generator.text.terms import content_keys, normalise, terms, words

MAX_SMALL_TALK = 12
"""Words of a message that may be small talk; a longer one says something."""
SUPPORT = 0.8
"""Share of a sentence's topic words that one passage has to hold."""
LEAST_UTILITY = 0.5
"""Utility of an answer that holds none of the question's topic words: it says something, perhaps in other words."""
MAX_TOPICS = 6
"""Topic words that a follow-up takes over."""

_NAMED = "Heuristic, without a language model: "
_GREETINGS = words_of("""
    hi hello hey hiya howdy greetings morning afternoon evening night bye goodbye cheers thanks thank thx please ok okay
    great cool nice perfect awesome welcome sorry lol haha yes no
    hallo servus moin tschuss danke bitte guten tag morgen abend gruss super prima ja nein
    bonjour salut bonsoir merci revoir oui non d'accord
    hola gracias adios buenos buenas dias tardes noches vale si
    ciao buongiorno buonasera grazie arrivederci prego
    ola obrigado obrigada bom dia boa tarde noite tchau
    hoi goedemorgen goedemiddag goedenavond dank bedankt dag doei
""")
_FILLERS = words_of("""
    good day very much so a lot you there all everyone again well and for the help your
    dir ihnen sehr vielen schon und fur die hilfe alle zusammen
    beaucoup a tous bien et pour l aide muchas todos y por la ayuda muito mille je u wel
""")
_SMALL_TALK = re.compile(
    r"how are you(?: doing)?(?: today)?|how is it going|what is up|whats up|who are you|what are you"
    r"|what can you do|what is your name|nice to meet you|tell me a joke|are you (?:a bot|human|there)"
    r"|wie geht(?:s| s| es| is)(?: dir| ihnen)?|wer bist du|wer sind sie|was kannst du|wie heisst du"
    r"|comment (?:ca va|allez vous)|ca va|qui es tu|qui etes vous"
    r"|que tal|como estas|como esta usted|quien eres|come stai|come va|chi sei|tudo bem|quem e voce"
    r"|hoe gaat het|wie ben je"
)
_UNSPACED_GREETINGS = re.compile(
    r"(?:你好|您好|谢谢|謝謝|早上好|晚上好|再见|再見|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます)?|さようなら"
    r"|안녕(?:하세요)?|감사합니다|고마워요?|สวัสดี|ขอบคุณ)[\s!！。.,、~～啊呀你您吗嗎]*"
)
_ARITHMETIC = re.compile(
    r"(?P<asked>what is|what's|calculate|compute|was ist|combien font)?(?P<sum>[\d\s.,+\-*/x×÷^()%=]{3,200})\??"
)
_OPERATION = re.compile(r"\d\s?%?\s?[+\-*/x×÷^%]\s?[\d(]")
_DATE = re.compile(r"\d[-/.]\d{1,2}[-/.]\d")
_REFERS_BACK = words_of("""
    it its they them their theirs that this these those he him his she her hers there then one ones same former latter
    er sie es ihn ihm ihr ihre ihren das dies diese dieser dieses davon damit dafur dort
    il elle ils elles lui leur cela ca celui celle ceux y en
    el ella ellos ellas eso esto ese esa aquello alli
    lui lei loro questo quello cio ci ne  isso isto aquilo ele ela eles elas  het hij zij hen dat dit deze daar
""")
_MARKER = re.compile(r"[\[【［](?:ref|source)s?[^\]】］\n]{0,80}[\]】］]", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?!\s|$)[^.!?。！？\n]*)*")


def decide(question: str) -> Decision:
    """Says whether a message needs retrieval."""
    if _is_small_talk(question):
        return Decision(False, f"{_NAMED}the message is a greeting or small talk.", heuristic=True)
    if _is_arithmetic(question.strip().casefold()):
        return Decision(False, f"{_NAMED}the message is arithmetic.", heuristic=True)
    return Decision(True, f"{_NAMED}the message may be about saved content.", heuristic=True)


def assess(question: str, answer: str, passages: Sequence[Passage]) -> Assessment:
    """Says how well passages support an answer, by the words that they share."""
    sentences = [found for match in _SENTENCE.finditer(_MARKER.sub("", answer)) if (found := match.group().strip())]
    if not sentences or is_not_found(f"{sentences[0]}."):
        return Assessment(supported=True, utility=0.0, heuristic=True)
    read = [content_keys(f"{one.title} {one.section} {one.text}") for one in passages]
    claims = [keys for sentence in sentences if (keys := content_keys(sentence))]
    supported = bool(read) and all(any(_share(keys, held) >= SUPPORT for held in read) for keys in claims)
    said = content_keys(answer)
    coverage = _share({key for key, weight in read_question(question).weights.items() if weight >= 1.0}, said)
    return Assessment(supported, round(LEAST_UTILITY + (1 - LEAST_UTILITY) * coverage, 2), heuristic=True)


def condense(question: str, history: Sequence[Message]) -> Rewritten:
    """Adds what the question before was about to a question that refers back."""
    before = next((one.content for one in reversed(history) if one.role is Role.USER), "")
    asked = [normalise(word) for word in words(question)]
    topics = content_keys(question)
    if not before or (len(topics) > 1 and not any(word in _REFERS_BACK for word in asked)):
        return Rewritten(question, heuristic=True)
    about: dict[str, str] = {}
    for term in terms(before):
        if not term.stop and term.key not in topics:
            about.setdefault(term.key, before[term.start : term.end])
    named = " ".join(list(about.values())[:MAX_TOPICS])
    return Rewritten(f"{question.strip()} ({named})" if named else question, heuristic=True)


def hypothesise(question: str) -> Rewritten:
    """There is no passage without a model that writes one: the question stands for itself."""
    return Rewritten(question, fallback=True, heuristic=True)


def _is_small_talk(message: str) -> bool:
    if _UNSPACED_GREETINGS.fullmatch(message.strip()):
        return True
    found = [normalise(word) for word in words(message.replace("'", " ").replace("’", " "))]
    if len(found) > MAX_SMALL_TALK:
        return False
    if not found:
        return not any(char.isalnum() for char in message)
    spelled = " ".join(found).replace(" s ", " is ").replace("what is up", "whats up")
    rest = _SMALL_TALK.sub(" ", spelled).split()
    greets = rest != spelled.split() or any(word in _GREETINGS for word in rest)
    return greets and all(word in _GREETINGS or word in _FILLERS for word in rest)


def _is_arithmetic(message: str) -> bool:
    """Whether a message asks for a sum; a number, a date or a range alone may be what something is called."""
    match = _ARITHMETIC.fullmatch(message)
    if match is None or _OPERATION.search(match["sum"]) is None or _DATE.search(match["sum"]):
        return False
    return bool(match["asked"]) or "=" in match["sum"] or " " in match["sum"].strip()


def _share(keys: set[str], held: set[str]) -> float:
    return len(keys & held) / len(keys) if keys else 1.0
