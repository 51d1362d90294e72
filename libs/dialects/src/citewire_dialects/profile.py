"""The contents of a profile, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_kit.tenant import Plan

DocumentType = Literal["file", "article", "repository", "capture"]


class EventType(StrEnum):
    """Names of a chat's events, as the native dialect writes them."""

    CONVERSATION = "conversation"
    STEP = "step"
    DECISION = "decision"
    CITATIONS = "citations"
    TOKEN = "token"  # noqa: S105 - a piece of text, no secret
    TOOL_CALL = "tool_call"
    CITATION = "citation"
    UNCITED = "uncited"
    SOURCES = "sources"
    ASSESSMENT = "assessment"
    USAGE = "usage"
    ERROR = "error"
    DONE = "done"


class EmptySelection(StrEnum):
    """The meaning of `document_ids: []`."""

    NOTHING = "nothing"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ProfileModels:
    """The operator's models for one profile; "" means the default model."""

    chat: str = ""
    embedding: str = ""


class Persist(StrEnum):
    """Whether chats are stored as conversations."""

    ALWAYS = "always"
    NEVER = "never"
    ON_REQUEST = "on_request"


@dataclass(frozen=True, slots=True)
class History:
    """Which part of a conversation the model gets."""

    tokens: int | None = None
    """Budget for the system prompt and the history together; the latest messages that fit are sent. None sends the
    whole list."""
    condense: bool = True
    """Whether a follow-up is rewritten as a standalone question before the search."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Maximum prompt tokens, by the caller's plan."""

    input_tokens: Mapping[Plan, int]
    """Total per plan."""
    reserve: int
    """Portion for the system prompt and the history."""

    def context_tokens(self, plan: Plan) -> int:
        """Returns the tokens left for the context."""
        return self.input_tokens[plan] - self.reserve


@dataclass(frozen=True, slots=True)
class Rerank:
    """Reranking of the first results, before the best are kept."""

    candidates: int
    """How many results are reranked."""
    keep: int | None = None
    """Maximum number of them to keep; None: `top_k`."""
    seconds: float | None = None
    """Time limit; None: the gateway's setting."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Default of an integer, and the range allowed in requests."""

    default: int
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The answer if nothing was found, without calling a model."""

    sentence: str
    suggestions: tuple[str, ...]
    still_ingesting: str
    """An additional suggestion while selected documents are being processed; `{count}` is their number."""
    empty_library: tuple[str, ...]
    """Replaces `suggestions` if there are no documents at all."""


@dataclass(frozen=True, slots=True)
class Suggest:
    """Questions to offer after the not-found sentence."""

    minimum: int
    """If the answer itself has fewer questions, the generator suggests more."""
    count: int
    """Total number of questions."""
    heading: str


def _dense_search() -> retriever_pb2.SearchRequest:
    return retriever_pb2.SearchRequest(mode=retriever_pb2.SEARCH_MODE_DENSE)


@dataclass(frozen=True, slots=True)
class Profile:
    """The behaviour of the pipeline for one kind of chat."""

    name: str
    """Its name in requests."""
    description: str
    """A description in one sentence."""
    top_k: Bounds
    """How many chunks are retrieved."""
    answer: generator_pb2.AnswerPolicy
    """How the answer is written; shared, so copy it before changing it."""
    events: frozenset[EventType]
    """Events of a stream, in the dialects that name them."""
    optional_events: frozenset[EventType]
    """Further events that a request may ask for with `include`."""
    level: retriever_pb2.ScopeLevel = retriever_pb2.SCOPE_LEVEL_ORG
    """The owners whose documents are searched, within the organisation."""
    strategy: retriever_pb2.Strategy = retriever_pb2.STRATEGY_SEMANTIC
    """Decision table of the context path."""
    search: retriever_pb2.SearchRequest = field(default_factory=_dense_search)
    """How the search ranks and what it adds, without the question; shared, so copy it before changing it."""
    min_score: float | None = None
    """Lowest cosine similarity of a chunk, unless the request overrides it; None: no limit."""
    empty_selection: EmptySelection = EmptySelection.NOTHING
    """The meaning of an empty list of documents."""
    history: History | None = None
    """Which part of the conversation the model gets; None: nothing."""
    keep_passages: bool = True
    """Whether passages of earlier questions stay in the prompt if the provider's cache makes that cheaper."""
    persist: Persist = Persist.ALWAYS
    """Whether conversations are stored."""
    no_match: NoMatch | None = None
    """The answer if nothing was found, without calling a model; None: the model is called anyway, and its policy
    determines what it does without passages."""
    suggest: Suggest | None = None
    """Questions after the not-found sentence; None: none."""
    types: tuple[str, ...] = ()
    """Types of documents that are searched; empty means all."""
    budget: Budget | None = None
    """Maximum prompt tokens by plan; None: the model's window."""
    rerank: Rerank | None = None
    """Reranking; None: none."""
    hyde: bool = False
    """Whether to search with a hypothetical answer, HyDE (Gao et al., 2022, arXiv:2212.10496)."""
    derive_filter: bool = False
    """Whether tags, category, kind and dates of saving named in a question narrow the search."""
    decide: bool = False
    """Whether the model first decides if the question needs retrieval (Asai et al., 2023, arXiv:2310.11511)."""
    assess: bool = False
    """Whether the model assesses its answer."""
    judge_relevance: bool = False
    """Whether the model judges the retrieved passages, and irrelevant ones are left out."""
    fill_table_query: bool = False
    """Whether a model may write a table query if the rules find none."""
    speculate: bool = False
    """Whether the answer is started before that decision, and dropped if retrieval isn't needed."""
    max_completion_tokens: int | None = None
    """Maximum tokens of an answer; None: the model's default."""
    full_usage: bool = False
    """Whether `usage` includes the context path and the cost."""
    min_score_calibrated: bool = False
    """Whether the searched space's threshold replaces it, if it is known."""


NO_MATCH_SENTENCE = "I could not find content in the selected documents that closely matches your question."
DEFAULT_NO_MATCH = NoMatch(
    sentence=NO_MATCH_SENTENCE,
    suggestions=(
        "Rephrase the question with words that the documents use.",
        "Check which documents are selected: the answer may be in one that isn't.",
        "Ask about one thing at a time.",
    ),
    still_ingesting="Look at {count} of the selected documents that can't be searched: they are still being processed, "
    "or failed.",
    empty_library=(
        "The library is empty: add documents first. Upload files or texts with `POST /v1/documents`, or run "
        "`citewire ingest PATH` with a file or a folder.",
        "Ask again as soon as they are ready: `GET /v1/documents` and `citewire status` show how far they are.",
    ),
)
"""Used if nothing matches and the profile answers with a sentence."""
