"""Profiles: how the pipeline behaves, as data. A further system is a further row here and, at most, a dialect.

Only this file, the dialects and the routes know the names of systems.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from citewire_gateway.domain import (
    AnswerPolicy,
    ContextFormat,
    Grounding,
    MarkerStyle,
    ScopeLevel,
    SearchMode,
    Strategy,
)
from citewire_gateway.events import EventType
from citewire_kit.errors import NotFound

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."
NO_MATCH_SENTENCE = "I could not find content in the selected documents that closely matches your question."


class EmptySelection(StrEnum):
    """What `document_ids: []` means."""

    NOTHING = "nothing"
    ABSENT = "absent"


class History(StrEnum):
    """What of a conversation goes to the model."""

    NONE = "none"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Default of a whole number, and the range a request may choose from."""

    default: int
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The answer when nothing was found; no model is called then."""

    sentence: str
    suggestions: tuple[str, ...]
    still_ingesting: str
    """A further suggestion while documents of the selection are being processed; `{count}` is how many."""


@dataclass(frozen=True, slots=True)
class Suggest:
    """Questions to offer after the not-found sentence."""

    minimum: int
    """The generator is asked for questions if the answer itself holds fewer."""
    wanted: int
    heading: str


@dataclass(frozen=True, slots=True)
class Profile:
    """How one system behaves.

    Attributes:
        name: What a request calls it.
        description: One sentence for people.
        level: Whose documents are searched, inside the organisation.
        strategy: Decision table of the context path.
        mode: How the search ranks.
        top_k: How many chunks are searched for.
        min_score: Lowest cosine similarity of a chunk unless the request says otherwise; None: no bound.
        empty_selection: What an empty list of documents means.
        no_match: The answer when nothing was found, without a call to a model; None: the model is asked all the same,
            and its policy says what it does without passages.
        answer: How the answer is written.
        history: What of the conversation the model is given.
        events: Events of a stream, in the dialects that name them.
        optional_events: Further events that a request may ask for with `include`.
        suggest: Questions after the not-found sentence; None: none.
        persist: Whether conversations are kept.
        types: Types of documents that are searched; empty is all.
    """

    name: str
    description: str
    level: ScopeLevel
    strategy: Strategy
    mode: SearchMode
    top_k: Bounds
    min_score: float | None
    empty_selection: EmptySelection
    answer: AnswerPolicy
    history: History
    events: frozenset[EventType]
    optional_events: frozenset[EventType]
    persist: bool
    no_match: NoMatch | None = None
    suggest: Suggest | None = None
    types: tuple[str, ...] = ()


_ALWAYS = frozenset({EventType.CITATIONS, EventType.TOKEN, EventType.USAGE, EventType.ERROR, EventType.DONE})

DOCUMENTS = Profile(
    name="documents",
    description="Answers only from the selected documents; cites exactly the passages that the model was given.",
    level=ScopeLevel.ORG,
    strategy=Strategy.SEMANTIC,
    mode=SearchMode.DENSE,
    top_k=Bounds(default=5, minimum=1, maximum=30),
    min_score=None,
    empty_selection=EmptySelection.NOTHING,
    no_match=NoMatch(
        sentence=NO_MATCH_SENTENCE,
        suggestions=(
            "Rephrase the question with words that the documents use.",
            "Check which documents are selected: the answer may be in one that isn't.",
            "Ask about one thing at a time.",
        ),
        still_ingesting="Wait until processing has finished: {count} of the selected documents can't be searched yet.",
    ),
    answer=AnswerPolicy(
        context_format=ContextFormat.NUMBERED,
        marker_style=MarkerStyle.REMOVE,
        grounding=Grounding.STRICT,
        answer_language="English",
        not_found_sentence=NOT_FOUND_SENTENCE,
        suggest_on_not_found=True,
        ask_back=True,
    ),
    history=History.NONE,
    events=_ALWAYS | {EventType.CONVERSATION},
    optional_events=frozenset({EventType.STEP}),
    suggest=Suggest(minimum=2, wanted=3, heading="You could ask instead:"),
    persist=True,
)

SIMPLE = Profile(
    name="simple",
    description="The smallest chat: a question, an answer and its sources; nothing is kept but the usage.",
    level=ScopeLevel.ORG,
    strategy=Strategy.SEMANTIC,
    mode=SearchMode.DENSE,
    top_k=Bounds(default=5, minimum=1, maximum=30),
    min_score=None,
    empty_selection=EmptySelection.ABSENT,
    answer=AnswerPolicy(
        context_format=ContextFormat.PLAIN,
        marker_style=MarkerStyle.NONE,
        grounding=Grounding.SAY_SO,
    ),
    history=History.NONE,
    events=_ALWAYS,
    optional_events=frozenset({EventType.STEP}),
    persist=False,
)

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in (DOCUMENTS, SIMPLE)})


def find_profile(name: str) -> Profile:
    """Returns the profile of that name.

    Raises:
        NotFound: There is none (reason `PROFILE_NOT_FOUND`); metadata `profiles` lists those there are.
    """
    profile = PROFILES.get(name)
    if profile is None:
        known = ", ".join(PROFILES)
        raise NotFound(
            f"there is no profile {name[:64]!r}; there are: {known}",
            reason="PROFILE_NOT_FOUND",
            metadata={"profiles": known},
        )
    return profile


def describe(profile: Profile) -> dict[str, object]:
    """Returns a profile as `GET /v1/profiles` lists it."""
    answer = profile.answer
    return {
        "name": profile.name,
        "description": profile.description,
        "scope": profile.level.value,
        "strategy": profile.strategy.value,
        "mode": profile.mode.value,
        "top_k": {
            "default": profile.top_k.default,
            "minimum": profile.top_k.minimum,
            "maximum": profile.top_k.maximum,
        },
        "min_score": profile.min_score,
        "types": list(profile.types),
        "empty_selection": profile.empty_selection.value,
        "on_empty": "model" if profile.no_match is None else "sentence",
        "context_format": answer.context_format.value,
        "marker_style": answer.marker_style.value,
        "grounding": answer.grounding.value,
        "answer_language": answer.answer_language or None,
        "not_found_sentence": answer.not_found_sentence or None,
        "history": profile.history.value,
        "events": [event.value for event in EventType if event in profile.events],
        "optional_events": [event.value for event in EventType if event in profile.optional_events],
        "conversations": profile.persist,
    }
