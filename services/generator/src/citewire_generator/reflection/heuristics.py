"""Judgements without a language model, for the extractive provider: rules over words, and named as such.

They are on the safe side. A message is answered without retrieval only if it is plainly small talk or arithmetic; an
answer is supported if each of its sentences says what one passage says, word for word but for their forms; a follow-up
gets the topic words of the question before it.
"""

import re
from collections.abc import Sequence

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.extraction.questions import read_question
from citewire_generator.model import Message, Role
from citewire_verify.not_found import is_not_found
from citewire_verify.text.follow_ups import is_follow_up, topics
from citewire_verify.text.small_talk import is_small_talk
from citewire_verify.text.terms import content_keys

SUPPORT = 0.8
"""Share of a sentence's topic words that one passage must contain."""
LEAST_UTILITY = 0.5
"""Utility of an answer without any of the question's topic words: it may answer in other words."""

_ARITHMETIC = re.compile(
    r"(?P<asked>what is|what's|calculate|compute|was ist|combien font)?(?P<sum>[\d\s.,+\-*/x×÷^()%=]{3,200})\??"
)
_OPERATION = re.compile(r"\d\s?%?\s?[+\-*/x×÷^%]\s?[\d(]")
_DATE = re.compile(r"\d[-/.]\d{1,2}[-/.]\d")
_MARKER = re.compile(r"[\[【［](?:ref|source)s?[^\]】］\n]{0,80}[\]】］]", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?!\s|$)[^.!?。！？\n]*)*")


def decide(question: str) -> pb.DecideResponse:
    """Whether a message needs retrieval."""
    needed, reason = False, "the message is a greeting or small talk"
    if not is_small_talk(question):
        needed = not _is_arithmetic(question.strip().casefold())
        reason = "the message may be about saved content" if needed else "the message is arithmetic"
    reason = f"Heuristic, without a language model: {reason}."
    return pb.DecideResponse(needs_retrieval=needed, reason=reason, usage=pb.TokenUsage(), heuristic=True)


def assess(question: str, answer: str, passages: Sequence[pb.Passage]) -> pb.AssessResponse:
    """Assesses how well passages support an answer, by shared words."""
    sentences = [text for match in _SENTENCE.finditer(_MARKER.sub("", answer)) if (text := match.group().strip())]
    if not sentences or is_not_found(f"{sentences[0]}."):
        return pb.AssessResponse(supported=True, utility=0.0, usage=pb.TokenUsage(), heuristic=True)
    read = [content_keys(f"{passage.title} {passage.section} {passage.text}") for passage in passages]
    claims = [keys for sentence in sentences if (keys := content_keys(sentence))]
    supported = bool(read) and all(any(_share(keys, passage) >= SUPPORT for passage in read) for keys in claims)
    topics = {key for key, weight in read_question(question).weights.items() if weight >= 1.0}
    coverage = _share(topics, content_keys(answer))
    utility = round(LEAST_UTILITY + (1 - LEAST_UTILITY) * coverage, 2)
    return pb.AssessResponse(supported=supported, utility=utility, usage=pb.TokenUsage(), heuristic=True)


def condense(question: str, history: Sequence[Message]) -> pb.RewriteResponse:
    """Adds the topic of earlier questions to a follow-up; other questions stay unchanged."""
    earlier = [message.content for message in history if message.role is Role.USER]
    text = question
    if earlier and is_follow_up(question, "\n".join(earlier)) and (named := topics(question, earlier)):
        text = f"{question.strip()} ({named})"
    return pb.RewriteResponse(text=text, usage=pb.TokenUsage(), heuristic=True)


def hypothesise(question: str) -> pb.RewriteResponse:
    """Returns the question itself, because only a model can write a passage."""
    return pb.RewriteResponse(text=question, fallback=True, usage=pb.TokenUsage(), heuristic=True)


def _is_arithmetic(message: str) -> bool:
    """Whether a message asks for arithmetic; a number, a date or a range alone may be a name."""
    match = _ARITHMETIC.fullmatch(message)
    if match is None or _OPERATION.search(match["sum"]) is None or _DATE.search(match["sum"]):
        return False
    return bool(match["asked"]) or "=" in match["sum"] or " " in match["sum"].strip()


def _share(keys: set[str], held: set[str]) -> float:
    return len(keys & held) / len(keys) if keys else 1.0
