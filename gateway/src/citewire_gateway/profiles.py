"""Profiles: how the pipeline behaves, as data. A further system is a further row here and, at most, a dialect.

Only this file, the dialects and the routes know the names of systems.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from citewire_gateway.domain import ScopeLevel, SearchMode, Strategy
from citewire_gateway.events import EventType
from citewire_gateway.generation import AnswerPolicy, ContextFormat, Grounding, MarkerStyle
from citewire_kit.errors import NotFound

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."
NO_MATCH_SENTENCE = "I could not find content in the selected documents that closely matches your question."


class EmptySelection(StrEnum):
    """What `document_ids: []` means."""

    NOTHING = "nothing"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ProfileModels:
    """The operator's models for one profile; "" is the default one."""

    chat: str = ""
    embedding: str = ""


class Persist(StrEnum):
    """Whether chats become conversations that are kept."""

    ALWAYS = "always"
    NEVER = "never"
    ON_REQUEST = "on_request"


@dataclass(frozen=True, slots=True)
class History:
    """What of a conversation goes to the model.

    Attributes:
        tokens: Budget for the system prompt and the history together; the latest messages that fit are kept. None is
            the whole list.
        condense: Whether a follow-up is rewritten into a question that stands alone before anything is searched for.
    """

    tokens: int | None = None
    condense: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that the model may be given, by the plan of who asks.

    Attributes:
        input_tokens: Per plan, all together.
        reserve: Of these, for the system prompt and the history.
    """

    input_tokens: Mapping[str, int]
    reserve: int

    def context_tokens(self, plan: str) -> int:
        """Returns what is left for the context."""
        return self.input_tokens[plan] - self.reserve


@dataclass(frozen=True, slots=True)
class Rerank:
    """A second ranking of the first ones found, before the best are kept.

    Attributes:
        candidates: How many are ranked again.
        keep: How many of them are kept at most; None: `top_k`.
    """

    candidates: int
    keep: int | None = None


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
        fuse_by_rank: Whether a hybrid search fuses by reciprocal rank, as the system promises it, instead of scores.
        top_k: How many chunks are searched for.
        min_score: Lowest cosine similarity of a chunk unless the request says otherwise; None: no bound.
        min_score_calibrated: Whether the searched space's own threshold counts in its stead, where it is known.
        empty_selection: What an empty list of documents means.
        no_match: The answer when nothing was found, without a call to a model; None: the model is asked all the same,
            and its policy says what it does without passages.
        answer: How the answer is written.
        events: Events of a stream, in the dialects that name them.
        optional_events: Further events that a request may ask for with `include`.
        history: What of the conversation the model is given; None: nothing.
        suggest: Questions after the not-found sentence; None: none.
        persist: Whether conversations are kept.
        types: Types of documents that are searched; empty is all.
        by_document: Whether the search gives each document's best chunk, so that `top_k` counts documents.
        recent: How many of the latest documents a search adds, whatever they say.
        budget: Bounds of what the model is given, by plan; None: the model's window.
        rerank: A second ranking; None: none.
        hyde: Whether the question is searched for by a passage that might answer it (Gao et al., 2022,
            arXiv:2212.10496).
        derive_filter: Whether tags, category, kind and dates of saving that a question names narrow the search.
        decide: Whether the model is asked first if the question needs retrieval at all (Asai et al., 2023,
            arXiv:2310.11511).
        assess: Whether the model judges its answer.
        speculate: Whether the answer is begun before that decision, and dropped where it says no.
        max_completion_tokens: Most tokens of an answer; None: the model's default.
        full_usage: Whether `usage` also says which path was taken and what it cost.
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
    events: frozenset[EventType]
    optional_events: frozenset[EventType]
    history: History | None = None
    persist: Persist = Persist.ALWAYS
    no_match: NoMatch | None = None
    suggest: Suggest | None = None
    types: tuple[str, ...] = ()
    by_document: bool = False
    recent: int = 0
    budget: Budget | None = None
    rerank: Rerank | None = None
    hyde: bool = False
    derive_filter: bool = False
    decide: bool = False
    assess: bool = False
    speculate: bool = False
    max_completion_tokens: int | None = None
    full_usage: bool = False
    min_score_calibrated: bool = False
    fuse_by_rank: bool = False


_ALWAYS = frozenset({EventType.CITATIONS, EventType.TOKEN, EventType.USAGE, EventType.ERROR, EventType.DONE})

_NO_MATCH = NoMatch(
    sentence=NO_MATCH_SENTENCE,
    suggestions=(
        "Rephrase the question with words that the documents use.",
        "Check which documents are selected: the answer may be in one that isn't.",
        "Ask about one thing at a time.",
    ),
    still_ingesting="Wait until processing has finished: {count} of the selected documents can't be searched yet.",
)
_SUGGEST = Suggest(minimum=2, wanted=3, heading="You could ask instead:")

DOCUMENTS = Profile(
    name="documents",
    description="Answers only from the selected documents; cites exactly the passages that the model was given.",
    level=ScopeLevel.ORG,
    strategy=Strategy.SEMANTIC,
    mode=SearchMode.DENSE,
    top_k=Bounds(default=5, minimum=1, maximum=30),
    min_score=None,
    empty_selection=EmptySelection.NOTHING,
    no_match=_NO_MATCH,
    answer=AnswerPolicy(
        context_format=ContextFormat.NUMBERED,
        marker_style=MarkerStyle.REMOVE,
        grounding=Grounding.STRICT,
        answer_language="English",
        not_found_sentence=NOT_FOUND_SENTENCE,
        suggest_on_not_found=True,
        ask_back=True,
        verify_citations=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION},
    optional_events=frozenset({EventType.STEP, EventType.CITATION}),
    suggest=_SUGGEST,
)

SOURCES = Profile(
    name="sources",
    description="Labelled sources under a fixed budget, found by meaning and by words; the answer cites [SOURCE N].",
    level=ScopeLevel.ORG,
    strategy=Strategy.SEMANTIC,
    mode=SearchMode.HYBRID,
    fuse_by_rank=True,
    top_k=Bounds(default=100, minimum=1, maximum=100),
    min_score=None,
    empty_selection=EmptySelection.NOTHING,
    no_match=_NO_MATCH,
    answer=AnswerPolicy(
        context_format=ContextFormat.SOURCE_LABELS,
        marker_style=MarkerStyle.SOURCE,
        grounding=Grounding.STRICT,
        not_found_sentence=NOT_FOUND_SENTENCE,
        suggest_on_not_found=True,
        max_context_chars=24_000,
        verify_citations=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.STEP, EventType.CITATION, EventType.SOURCES},
    optional_events=frozenset({EventType.UNCITED}),
    suggest=_SUGGEST,
)

SELF_RAG = Profile(
    name="self-rag",
    description="Decides whether to look into the user's articles and repositories, cites [ref:N], judges its answer.",
    level=ScopeLevel.USER,
    strategy=Strategy.SEMANTIC,
    mode=SearchMode.DENSE,
    top_k=Bounds(default=10, minimum=1, maximum=30),
    min_score=0.3,
    empty_selection=EmptySelection.ABSENT,
    answer=AnswerPolicy(
        context_format=ContextFormat.TYPED,
        marker_style=MarkerStyle.REF,
        grounding=Grounding.OPEN,
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
    description="Reads a small library whole, and searches a large one; says which, and why. Cites [ref:N].",
    level=ScopeLevel.USER,
    strategy=Strategy.LIBRARY,
    mode=SearchMode.DENSE,
    top_k=Bounds(default=40, minimum=1, maximum=200),
    min_score=0.15,
    min_score_calibrated=True,
    empty_selection=EmptySelection.ABSENT,
    no_match=_NO_MATCH,
    answer=AnswerPolicy(
        context_format=ContextFormat.NUMBERED,
        marker_style=MarkerStyle.REF,
        grounding=Grounding.STRICT,
        not_found_sentence=NOT_FOUND_SENTENCE,
        suggest_on_not_found=True,
        verify_citations=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.STEP, EventType.CITATION},
    optional_events=frozenset({EventType.UNCITED}),
    history=History(tokens=1_500),
    suggest=_SUGGEST,
    by_document=True,
    recent=10,
    derive_filter=True,
    budget=Budget(MappingProxyType({"free": 30_000, "basic": 30_000, "pro": 150_000}), reserve=1_500),
    full_usage=True,
)

GROUNDED = Profile(
    name="grounded",
    description="Our best: found by meaning and by words, ranked twice, cited [ref:N] claim by claim, in conversation.",
    level=ScopeLevel.ORG,
    strategy=Strategy.SEMANTIC,
    mode=SearchMode.HYBRID,
    top_k=Bounds(default=10, minimum=1, maximum=50),
    min_score=None,
    empty_selection=EmptySelection.NOTHING,
    no_match=_NO_MATCH,
    answer=AnswerPolicy(
        context_format=ContextFormat.NUMBERED,
        marker_style=MarkerStyle.REF,
        grounding=Grounding.STRICT,
        not_found_sentence=NOT_FOUND_SENTENCE,
        suggest_on_not_found=True,
        ask_back=True,
        verify_citations=True,
        flag_uncited=True,
    ),
    events=_ALWAYS | {EventType.CONVERSATION, EventType.STEP, EventType.CITATION, EventType.UNCITED, EventType.SOURCES},
    optional_events=frozenset({EventType.ASSESSMENT}),
    history=History(tokens=4_000, condense=True),
    suggest=_SUGGEST,
    rerank=Rerank(candidates=40),
    full_usage=True,
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
        "min_score_calibrated": profile.min_score_calibrated,
        "types": list(profile.types),
        "empty_selection": profile.empty_selection.value,
        "on_empty": "model" if profile.no_match is None else "sentence",
        "context_format": answer.context_format.value,
        "marker_style": answer.marker_style.value,
        "grounding": answer.grounding.value,
        "answer_language": answer.answer_language or None,
        "not_found_sentence": answer.not_found_sentence or None,
        "history": None
        if profile.history is None
        else {
            "tokens": profile.history.tokens,
            "condense": profile.history.condense,
        },
        "by_document": profile.by_document,
        "recent": profile.recent,
        "input_tokens": None if profile.budget is None else dict(profile.budget.input_tokens),
        "rerank_candidates": None if profile.rerank is None else profile.rerank.candidates,
        "hyde": profile.hyde,
        "derive_filter": profile.derive_filter,
        "decide": profile.decide,
        "assess": profile.assess,
        "speculate": profile.speculate,
        "max_completion_tokens": profile.max_completion_tokens,
        "events": [event.value for event in EventType if event in profile.events],
        "optional_events": [event.value for event in EventType if event in profile.optional_events],
        "conversations": profile.persist.value,
    }
