"""What a profile can say, as data."""

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
    keep_passages: bool = True
    """Whether earlier questions keep their passages in the prompt where the provider's cache makes it cheaper."""
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
    judge_relevance: bool = False
    """Whether the model judges the passages that were found, and those that have nothing to do with the question are
    left out."""
    fill_table_query: bool = False
    """Whether a model may write a table query if the rules find none."""
    speculate: bool = False
    """Whether the answer is begun before that decision, and dropped where it says no."""
    max_completion_tokens: int | None = None
    """Most tokens of an answer; None: the model's default."""
    full_usage: bool = False
    """Whether `usage` also says which path was taken and what it cost."""
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
    still_ingesting="Look at {count} of the selected documents that can't be searched: they are still being processed, or failed.",
    empty_library=(
        "The library is empty: add documents first. Upload files or texts with `POST /v1/documents`, or run "
        "`citewire ingest PATH` with a file or a folder.",
        "Ask again as soon as they are ready: `GET /v1/documents` and `citewire status` show how far they are.",
    ),
)
"""Where nothing matches, and the profile has a sentence for that."""
