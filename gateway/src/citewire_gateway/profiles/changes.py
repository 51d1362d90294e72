"""What of a profile may be changed, by a tenant for good or by a request for once, and within which limits."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_gateway.profiles.model import Bounds, History, Profile, Rerank
from citewire_kit.enums import enum_number
from citewire_kit.errors import Violations

DEFAULT_RERANK = Rerank(candidates=40, keep=10)
"""A second ranking where the profile has none of its own."""

_SAME_IN_PROFILE = ("min_score", "hyde", "derive_filter", "decide", "assess", "speculate", "max_completion_tokens")
_SAME_IN_ANSWER = ("answer_language", "ask_back", "instructions")


@dataclass(frozen=True, slots=True)
class Changes:
    """Fields of a profile to be changed; None leaves a field as it is."""

    top_k: int | None = None
    """How many chunks where the request doesn't say, within the profile's bounds."""
    min_score: float | None = None
    """Lowest cosine similarity."""
    mode: str | None = None
    """How the search ranks: `dense`, `lexical` or `hybrid`."""
    rerank: bool | None = None
    """Whether there is a second ranking."""
    hyde: bool | None = None
    """See `Profile`."""
    derive_filter: bool | None = None
    """See `Profile`."""
    condense: bool | None = None
    """Whether follow-ups are rewritten, where the profile has a history."""
    decide: bool | None = None
    """See `Profile`."""
    assess: bool | None = None
    """See `Profile`."""
    speculate: bool | None = None
    """See `Profile`."""
    answer_language: str | None = None
    """"" is the question's."""
    marker_style: str | None = None
    """Which markers the answer carries: `none`, `remove`, `ref` or `source`."""
    ask_back: bool | None = None
    """Whether the model may ask back."""
    instructions: str | None = None
    """Added to our prompt."""
    max_completion_tokens: int | None = None
    """Most tokens of an answer."""

    def given(self) -> dict[str, Any]:
        """The fields that are changed, as JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def changes_of(values: Mapping[str, Any]) -> Changes:
    """Reads changes as `Changes.given` wrote them; names that aren't known any more are passed over."""
    known = {field.name for field in fields(Changes)}
    return Changes(**{name: value for name, value in values.items() if name in known})


def apply_changes(profile: Profile, changes: Changes, at: str) -> Profile:
    """Returns the profile with the changes.

    Args:
        profile: Whose bounds hold.
        changes: What to change.
        at: The field that the changes stood in, for errors.

    Raises:
        InvalidArgument: A change is out of the profile's bounds, or has no meaning in it.
    """
    violations = Violations()
    bounds = profile.top_k
    violations.require(
        changes.top_k is None or bounds.minimum <= changes.top_k <= bounds.maximum,
        f"{at}.top_k",
        f"must be between {bounds.minimum} and {bounds.maximum} in profile {profile.name}",
    )
    violations.require(
        changes.condense is not True or profile.history is not None,
        f"{at}.condense",
        f"has no meaning: profile {profile.name} gives the model no history",
    )
    violations.require(
        changes.speculate is not True or profile.decide or changes.decide is True,
        f"{at}.speculate",
        "has no meaning without decide",
    )
    violations.raise_if_any()
    return replace(profile, **_replacements(profile, changes))


def change_answer(policy: generator_pb2.AnswerPolicy, **fields: Any) -> generator_pb2.AnswerPolicy:  # noqa: ANN401 # of the message
    """Returns a policy with some fields changed."""
    copy = generator_pb2.AnswerPolicy()
    copy.CopyFrom(policy)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def _replacements(profile: Profile, changes: Changes) -> dict[str, Any]:
    given = {name: getattr(changes, name) for name in _SAME_IN_PROFILE}
    values = {name: value for name, value in given.items() if value is not None}
    given = {name: getattr(changes, name) for name in _SAME_IN_ANSWER}
    answer = {name: value for name, value in given.items() if value is not None}
    if changes.mode is not None:
        values["mode"] = enum_number(retriever_pb2.SearchMode, changes.mode)
    if changes.marker_style is not None:
        answer["marker_style"] = enum_number(generator_pb2.MarkerStyle, changes.marker_style)
    if answer:
        values["answer"] = change_answer(profile.answer, **answer)
    if changes.min_score is not None:
        values["min_score_calibrated"] = False
    if changes.top_k is not None:
        values["top_k"] = Bounds(changes.top_k, profile.top_k.minimum, profile.top_k.maximum)
    if changes.rerank is not None:
        values["rerank"] = (profile.rerank or DEFAULT_RERANK) if changes.rerank else None
    if changes.condense is not None and profile.history is not None:
        values["history"] = History(profile.history.tokens, condense=changes.condense)
    return values
