"""Profiles: how the pipeline behaves, as data. Another system needs only another row here and, at most, a dialect.

Only this file, the dialects and the routes know the names of systems.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from citewire.generator.v1 import generator_pb2
from citewire.generator.v1.generator_pb2 import AnswerPolicy
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.profile import (
    DEFAULT_NO_MATCH,
    Bounds,
    Budget,
    EmptySelection,
    EventType,
    History,
    Persist,
    Profile,
    Rerank,
    Suggest,
)
from citewire_kit.errors import NotFound
from citewire_kit.tenant import INPUT_TOKENS, RESERVED_TOKENS

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."

_ALWAYS = frozenset({EventType.CITATIONS, EventType.TOKEN, EventType.USAGE, EventType.ERROR, EventType.DONE})

_SUGGEST = Suggest(minimum=2, count=3, heading="You could ask instead:")


def _strict(**fields: Any) -> AnswerPolicy:  # noqa: ANN401 # fields of the message
    """Answers only from the passages, and says so if they don't contain the answer."""
    return AnswerPolicy(
        grounding=generator_pb2.GROUNDING_STRICT,
        not_found_sentence=NOT_FOUND_SENTENCE,
        suggest_on_not_found=True,
        verify_citations=True,
        **fields,
    )


DOCUMENTS = Profile(
    name="documents",
    description="Answers only from the selected documents; cites exactly the passages that the model was given.",
    top_k=Bounds(default=5, minimum=1, maximum=30),
    no_match=DEFAULT_NO_MATCH,
    answer=_strict(
        context_format=generator_pb2.CONTEXT_FORMAT_NUMBERED,
        marker_style=generator_pb2.MARKER_STYLE_REMOVE,
        answer_language="English",
        ask_back=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION},
    optional_events=frozenset({EventType.STEP, EventType.CITATION}),
    suggest=_SUGGEST,
)

SOURCES = Profile(
    name="sources",
    description="Labelled sources under a fixed budget, found by meaning and by words; the answer cites [SOURCE N].",
    search=retriever_pb2.SearchRequest(mode=retriever_pb2.SEARCH_MODE_HYBRID, fuse_by_rank=True),
    top_k=Bounds(default=100, minimum=1, maximum=100),
    no_match=DEFAULT_NO_MATCH,
    answer=_strict(
        context_format=generator_pb2.CONTEXT_FORMAT_SOURCE_LABELS,
        marker_style=generator_pb2.MARKER_STYLE_SOURCE,
        max_context_chars=24_000,
    ),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.STEP, EventType.CITATION, EventType.SOURCES},
    optional_events=frozenset({EventType.UNCITED}),
    suggest=_SUGGEST,
)

SELF_RAG = Profile(
    name="self-rag",
    description="Decides whether to search the user's articles and repositories, cites [ref:N], and judges its answer.",
    level=retriever_pb2.SCOPE_LEVEL_USER,
    top_k=Bounds(default=10, minimum=1, maximum=30),
    min_score=0.3,
    empty_selection=EmptySelection.ABSENT,
    answer=AnswerPolicy(
        context_format=generator_pb2.CONTEXT_FORMAT_TYPED,
        marker_style=generator_pb2.MARKER_STYLE_REF,
        grounding=generator_pb2.GROUNDING_OPEN,
        verify_citations=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.DECISION, EventType.CITATION, EventType.ASSESSMENT},
    optional_events=frozenset({EventType.STEP}),
    history=History(),
    persist=Persist.ON_REQUEST,
    types=("article", "repository"),
    decide=True,
    assess=True,
    max_completion_tokens=2048,
)

LIBRARY = Profile(
    name="library",
    description="Reads a small library whole and searches a large one, and says which and why. Cites [ref:N].",
    level=retriever_pb2.SCOPE_LEVEL_USER,
    strategy=retriever_pb2.STRATEGY_LIBRARY,
    search=retriever_pb2.SearchRequest(
        mode=retriever_pb2.SEARCH_MODE_DENSE, group_by=retriever_pb2.GROUP_BY_DOCUMENT, recent=10
    ),
    top_k=Bounds(default=40, minimum=1, maximum=200),
    min_score=0.15,
    min_score_calibrated=True,
    empty_selection=EmptySelection.ABSENT,
    no_match=DEFAULT_NO_MATCH,
    answer=_strict(context_format=generator_pb2.CONTEXT_FORMAT_NUMBERED, marker_style=generator_pb2.MARKER_STYLE_REF),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.STEP, EventType.CITATION},
    optional_events=frozenset({EventType.UNCITED}),
    history=History(tokens=1_500),
    suggest=_SUGGEST,
    derive_filter=True,
    budget=Budget(INPUT_TOKENS, RESERVED_TOKENS),
    full_usage=True,
)

GROUNDED = Profile(
    name="grounded",
    description="Our best: searches by meaning and by words, reranks, cites [ref:N] for each claim, and stores "
    "conversations.",
    search=retriever_pb2.SearchRequest(mode=retriever_pb2.SEARCH_MODE_HYBRID),
    top_k=Bounds(default=10, minimum=1, maximum=50),
    no_match=DEFAULT_NO_MATCH,
    answer=_strict(
        context_format=generator_pb2.CONTEXT_FORMAT_NUMBERED,
        marker_style=generator_pb2.MARKER_STYLE_REF,
        ask_back=True,
        flag_uncited=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.STEP, EventType.CITATION, EventType.UNCITED, EventType.SOURCES},
    optional_events=frozenset({EventType.ASSESSMENT}),
    history=History(tokens=4_000),
    suggest=_SUGGEST,
    rerank=Rerank(candidates=40),
    full_usage=True,
)

SIMPLE = Profile(
    name="simple",
    description="The smallest chat: a question, an answer and its sources; only the usage is stored.",
    top_k=Bounds(default=5, minimum=1, maximum=30),
    empty_selection=EmptySelection.ABSENT,
    answer=AnswerPolicy(
        context_format=generator_pb2.CONTEXT_FORMAT_PLAIN,
        marker_style=generator_pb2.MARKER_STYLE_NONE,
        grounding=generator_pb2.GROUNDING_SAY_SO,
    ),
    events=_ALWAYS,
    optional_events=frozenset({EventType.STEP, EventType.CITATION}),
    persist=Persist.NEVER,
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {profile.name: profile for profile in (DOCUMENTS, SOURCES, SELF_RAG, LIBRARY, SIMPLE, GROUNDED)}
)


def find_profile(name: str) -> Profile:
    """Returns the profile of that name.

    Raises:
        NotFound: There is none (reason `PROFILE_NOT_FOUND`); metadata `profiles` lists the existing ones.
    """
    profile = PROFILES.get(name)
    if profile is None:
        raise unknown_profile(name, PROFILES)
    return profile


def unknown_profile(name: str, names: Iterable[str], *, own: bool = False) -> NotFound:
    """Returns the error that lists the existing profiles, or (`own`) those that aren't built in."""
    known = ", ".join(names) or "none"
    if own:
        detail = f"the organisation has no profile {name[:64]!r} of its own; it has: {known}"
    else:
        detail = f"there is no profile {name[:64]!r}; there are: {known}"
    return NotFound(detail, reason="PROFILE_NOT_FOUND", metadata={"profiles": known[:1000]})
