"""What a profile can say, as data, and what of it may be changed, by a tenant for good or by a request for once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from google.protobuf.message import Message
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from citewire_kit.enums import enum_number
from citewire_kit.errors import Violations
from citewire_kit.tenant import Plan


class EventType(StrEnum):
    """Names of a chat's events, as the native dialect writes them."""

    CONVERSATION = "conversation"
    STEP = "step"
    DECISION = "decision"
    CITATIONS = "citations"
    TOKEN = "token"  # noqa: S105 - a piece of text, no secret
    CITATION = "citation"
    UNCITED = "uncited"
    SOURCES = "sources"
    ASSESSMENT = "assessment"
    USAGE = "usage"
    ERROR = "error"
    DONE = "done"


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
    """What of a conversation goes to the model."""

    tokens: int | None = None
    """Budget for the system prompt and the history together; the latest messages that fit are kept. None is the
    whole list."""
    condense: bool = True
    """Whether a follow-up is rewritten into a question that stands alone before anything is searched for."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that the model may be given, by the plan of who asks."""

    input_tokens: Mapping[Plan, int]
    """Per plan, all together."""
    reserve: int
    """Of these, for the system prompt and the history."""

    def context_tokens(self, plan: Plan) -> int:
        """Returns what is left for the context."""
        return self.input_tokens[plan] - self.reserve


@dataclass(frozen=True, slots=True)
class Rerank:
    """A second ranking of the first ones found, before the best are kept."""

    candidates: int
    """How many are ranked again."""
    keep: int | None = None
    """How many of them are kept at most; None: `top_k`."""
    seconds: float | None = None
    """How long that may take; None: what the gateway's settings say."""


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
    empty_library: tuple[str, ...]
    """What one could do instead of `suggestions` where there are no documents at all."""


@dataclass(frozen=True, slots=True)
class Suggest:
    """Questions to offer after the not-found sentence."""

    minimum: int
    """The generator is asked for questions if the answer itself holds fewer."""
    count: int
    """How many there are to be in all."""
    heading: str


def _dense_search() -> retriever_pb2.SearchRequest:
    return retriever_pb2.SearchRequest(mode=retriever_pb2.SEARCH_MODE_DENSE)


@dataclass(frozen=True, slots=True)
class Profile:
    """How one system behaves."""

    name: str
    """What a request calls it."""
    description: str
    """One sentence for people."""
    top_k: Bounds
    """How many chunks are searched for."""
    answer: generator_pb2.AnswerPolicy
    """How the answer is written; it is shared, so copy it to change it."""
    events: frozenset[EventType]
    """Events of a stream, in the dialects that name them."""
    optional_events: frozenset[EventType]
    """Further events that a request may ask for with `include`."""
    level: retriever_pb2.ScopeLevel = retriever_pb2.SCOPE_LEVEL_ORG
    """Whose documents are searched, inside the organisation."""
    strategy: retriever_pb2.Strategy = retriever_pb2.STRATEGY_SEMANTIC
    """Decision table of the context path."""
    search: retriever_pb2.SearchRequest = field(default_factory=_dense_search)
    """How the search ranks and what it adds, without the question; it is shared, so copy it to change it."""
    min_score: float | None = None
    """Lowest cosine similarity of a chunk unless the request says otherwise; None: no bound."""
    empty_selection: EmptySelection = EmptySelection.NOTHING
    """What an empty list of documents means."""
    history: History | None = None
    """What of the conversation the model is given; None: nothing."""
    persist: Persist = Persist.ALWAYS
    """Whether conversations are kept."""
    no_match: NoMatch | None = None
    """The answer when nothing was found, without a call to a model; None: the model is asked all the same, and its
    policy says what it does without passages."""
    suggest: Suggest | None = None
    """Questions after the not-found sentence; None: none."""
    types: tuple[str, ...] = ()
    """Types of documents that are searched; empty is all."""
    budget: Budget | None = None
    """Bounds of what the model is given, by plan; None: the model's window."""
    rerank: Rerank | None = None
    """A second ranking; None: none."""
    hyde: bool = False
    """Whether the question is searched for by a passage that might answer it (Gao et al., 2022, arXiv:2212.10496)."""
    derive_filter: bool = False
    """Whether tags, category, kind and dates of saving that a question names narrow the search."""
    decide: bool = False
    """Whether the model is asked first if the question needs retrieval at all (Asai et al., 2023, arXiv:2310.11511)."""
    assess: bool = False
    """Whether the model judges its answer."""
    speculate: bool = False
    """Whether the answer is begun before that decision, and dropped where it says no."""
    max_completion_tokens: int | None = None
    """Most tokens of an answer; None: the model's default."""
    full_usage: bool = False
    """Whether `usage` also says which path was taken and what it cost."""
    min_score_calibrated: bool = False
    """Whether the searched space's own threshold counts in its stead, where it is known."""


NO_MATCH_SENTENCE = "I could not find content in the selected documents that closely matches your question."
DEFAULT_NO_MATCH = NoMatch(
    sentence=NO_MATCH_SENTENCE,
    suggestions=(
        "Rephrase the question with words that the documents use.",
        "Check which documents are selected: the answer may be in one that isn't.",
        "Ask about one thing at a time.",
    ),
    still_ingesting="Wait until processing has finished: {count} of the selected documents can't be searched yet.",
    empty_library=(
        "The library is empty: add documents first. Upload files or texts with `POST /v1/documents`, or run "
        "`citewire ingest PATH` with a file or a folder.",
        "Ask again as soon as they are ready: `GET /v1/documents` and `citewire status` show how far they are.",
    ),
)
"""Where nothing matches, and the profile has a sentence for that."""

DEFAULT_RERANK = Rerank(candidates=40, keep=10)
"""A second ranking where the profile has none of its own."""

_IN_PROFILE = ("min_score", "hyde", "derive_filter", "decide", "assess", "speculate", "max_completion_tokens")
_IN_SEARCH = ("max_per_document",)
_IN_ANSWER = (
    "answer_language",
    "not_found_sentence",
    "remove_invalid_markers",
    "ask_back",
    "instructions",
    "max_context_chars",
)


RerankSeconds = Annotated[float, Field(strict=True, ge=0.01, le=20, allow_inf_nan=False)]
"""How long a second ranking may take."""


class ProfileOptions(BaseModel):
    """Fields of a profile to be changed, within its limits; what is absent stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scope: Literal["org", "user"] | None = Field(
        default=None, description="Whose documents are searched: the organisation's, or the caller's own."
    )
    top_k: StrictInt | None = None
    min_score: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] | None = None
    mode: Literal["dense", "lexical", "hybrid"] | None = None
    max_per_document: Annotated[StrictInt, Field(ge=1, le=200)] | None = Field(
        default=None, description="Most chunks of one document."
    )
    rerank: StrictBool | None = Field(default=None, description="A second ranking by a rerank model.")
    rerank_seconds: RerankSeconds | None = Field(
        default=None, description="How long that may take; absent means what the operator set, 0.3 unless changed."
    )
    hyde: StrictBool | None = Field(default=None, description="Searches for a passage that might be the answer.")
    derive_filter: StrictBool | None = Field(
        default=None,
        description="Narrows the search to tags, category, kind and dates of saving that a question names.",
    )
    on_empty: Literal["model", "sentence"] | None = Field(
        default=None, description="Who answers where nothing was found: the model, or a fixed sentence at no cost."
    )
    context_format: Literal["numbered", "source_labels", "typed", "plain"] | None = Field(
        default=None, description="How a passage's block begins in the prompt."
    )
    max_context_chars: Annotated[StrictInt, Field(ge=1_000, le=1_000_000)] | None = Field(
        default=None, description="Most characters of the context, labels and line ends included."
    )
    history_tokens: Annotated[StrictInt, Field(ge=0, le=32_000)] | None = Field(
        default=None, description="Most tokens of system prompt and conversation; 0 gives the model no history."
    )
    condense: StrictBool | None = Field(default=None, description="Rewrites follow-ups before searching.")
    decide: StrictBool | None = Field(default=None, description="Asks first whether the question needs retrieval.")
    assess: StrictBool | None = Field(default=None, description="Lets the model judge its answer.")
    speculate: StrictBool | None = Field(default=None, description="Begins the answer before that decision.")
    answer_language: Annotated[StrictStr, Field(max_length=64)] | None = None
    not_found_sentence: Annotated[StrictStr, Field(min_length=1, max_length=500)] | None = Field(
        default=None,
        description="What an answer is where the passages don't answer: exactly this line, in strict profiles.",
    )
    marker_style: Literal["none", "remove", "ref", "source"] | None = None
    remove_invalid_markers: StrictBool | None = Field(
        default=None, description="Removes markers whose number isn't a source's; otherwise they stay as written."
    )
    ask_back: StrictBool | None = None
    instructions: Annotated[StrictStr, Field(max_length=16_000)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None

    def given(self) -> dict[str, Any]:
        """Returns the fields that are changed, as JSON."""
        return self.model_dump(exclude_none=True)


def stored_options(values: Mapping[str, Any]) -> ProfileOptions:
    """Reads options as `ProfileOptions.given` wrote them; names that aren't known any more are passed over."""
    return ProfileOptions(**{name: value for name, value in values.items() if name in ProfileOptions.model_fields})


def apply_changes(profile: Profile, changes: ProfileOptions, at: str) -> Profile:
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
    remembers = profile.history is not None if changes.history_tokens is None else changes.history_tokens > 0
    violations.require(
        changes.condense is not True or remembers,
        f"{at}.condense",
        f"has no meaning: profile {profile.name} gives the model no history",
    )
    sentence = changes.not_found_sentence
    violations.require(
        sentence is None or (bool(sentence.strip()) and sentence.isprintable()),
        f"{at}.not_found_sentence",
        "must be one line with more than white space",
    )
    strict = profile.answer.grounding == generator_pb2.GROUNDING_STRICT
    violations.require(
        sentence is None or strict,
        f"{at}.not_found_sentence",
        f"has no meaning: profile {profile.name} lets the model say in its own words that nothing was found",
    )
    reranks = profile.rerank is not None if changes.rerank is None else changes.rerank
    violations.require(
        changes.rerank_seconds is None or reranks, f"{at}.rerank_seconds", "has no meaning without rerank"
    )
    violations.require(
        changes.speculate is not True or profile.decide or changes.decide is True,
        f"{at}.speculate",
        "has no meaning without decide",
    )
    violations.raise_if_any()
    return replace(profile, **_replacements(profile, changes))


def check_possible(profile: Profile, at: str) -> None:
    """Refuses a profile that can only fail.

    Raises:
        InvalidArgument: The fields that it was changed by, which stood in `at`, exclude each other.
    """
    words_alone = profile.search.mode == retriever_pb2.SEARCH_MODE_LEXICAL
    violations = Violations()
    violations.require(
        not (words_alone and profile.search.recent),
        f"{at}.mode",
        f"can't be lexical in profile {profile.name}, which adds the most recent documents: dense or hybrid can",
    )
    violations.raise_if_any()


M = TypeVar("M", bound=Message)


def changed(message: M, **fields: Any) -> M:  # noqa: ANN401 # fields of any message
    """Returns a copy of a profile's message with some fields changed."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def _replacements(profile: Profile, changes: ProfileOptions) -> dict[str, Any]:
    given = changes.given()
    values = {name: given[name] for name in _IN_PROFILE if name in given}
    answer = {name: given[name] for name in _IN_ANSWER if name in given}
    search = {name: given[name] for name in _IN_SEARCH if name in given}
    if changes.mode is not None:
        search["mode"] = enum_number(retriever_pb2.SearchMode, changes.mode)
    if changes.context_format is not None:
        answer["context_format"] = enum_number(generator_pb2.ContextFormat, changes.context_format)
    if changes.marker_style is not None:
        answer["marker_style"] = enum_number(generator_pb2.MarkerStyle, changes.marker_style)
    if answer:
        values["answer"] = changed(profile.answer, **answer)
    if search:
        values["search"] = changed(profile.search, **search)
    if changes.min_score is not None:
        values["min_score_calibrated"] = False
    if changes.scope is not None:
        values["level"] = enum_number(retriever_pb2.ScopeLevel, changes.scope)
    if changes.on_empty is not None:
        values["no_match"] = (profile.no_match or DEFAULT_NO_MATCH) if changes.on_empty == "sentence" else None
    if changes.top_k is not None:
        values["top_k"] = Bounds(changes.top_k, profile.top_k.minimum, profile.top_k.maximum)
    if changes.rerank is not None:
        values["rerank"] = (profile.rerank or DEFAULT_RERANK) if changes.rerank else None
    if changes.rerank_seconds is not None:
        rerank = values.get("rerank", profile.rerank)
        values["rerank"] = rerank and replace(rerank, seconds=changes.rerank_seconds)
    history = profile.history
    if changes.history_tokens is not None:
        tokens, condense = changes.history_tokens, history is not None and history.condense
        values["history"] = history = History(tokens, condense=condense) if tokens else None
    if changes.condense is not None and history is not None:
        values["history"] = replace(history, condense=changes.condense)
    return values
