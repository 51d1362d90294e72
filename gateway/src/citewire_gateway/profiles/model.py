"""What a profile can say: how the pipeline behaves, as data. The rows are in `profiles`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

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
    condense: bool = False
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
    count: int
    """How many there are to be in all."""
    heading: str


@dataclass(frozen=True, slots=True)
class Profile:
    """How one system behaves."""

    name: str
    """What a request calls it."""
    description: str
    """One sentence for people."""
    level: retriever_pb2.ScopeLevel
    """Whose documents are searched, inside the organisation."""
    strategy: retriever_pb2.Strategy
    """Decision table of the context path."""
    mode: retriever_pb2.SearchMode
    """How the search ranks."""
    top_k: Bounds
    """How many chunks are searched for."""
    min_score: float | None
    """Lowest cosine similarity of a chunk unless the request says otherwise; None: no bound."""
    empty_selection: EmptySelection
    """What an empty list of documents means."""
    answer: generator_pb2.AnswerPolicy
    """How the answer is written; it is shared, so copy it to change it."""
    events: frozenset[EventType]
    """Events of a stream, in the dialects that name them."""
    optional_events: frozenset[EventType]
    """Further events that a request may ask for with `include`."""
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
    by_document: bool = False
    """Whether the search gives each document's best chunk, so that `top_k` counts documents."""
    recent: int = 0
    """How many of the latest documents a search adds, whatever they say."""
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
    fuse_by_rank: bool = False
    """Whether a hybrid search fuses by reciprocal rank, as the system promises it, instead of scores."""
