"""Bodies of requests: which fields there are, and what they may hold."""

from typing import Annotated, Any, Literal, Self, cast
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from citewire_gateway.tenants.accounts import MAX_LIMIT_USD, Period

MAX_ID = 2**53 - 1
"""Largest id of a document or chunk: what a JavaScript number holds exactly."""

DocumentId = Annotated[StrictInt, Field(ge=1, le=MAX_ID)]
CollectionName = Annotated[StrictStr, Field(min_length=1, max_length=128)]
Score = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Tag = Annotated[StrictStr, Field(min_length=1, max_length=64)]
DocumentType = Literal["file", "article", "repository", "capture"]

MAX_DOCUMENT_IDS = 10_000
MAX_MESSAGES = 200

_FILTER = Field(
    default=None,
    description='A condition on documents: {"all": […]}, {"any": […]}, {"not": …} or {"field", "op", "value"}.',
    examples=[{"all": [{"field": "tags", "op": "contains", "value": "2025"}]}],
)


class Strict(BaseModel):
    """A body without fields that nobody reads: a misspelt option is an error, not a silence."""

    model_config = ConfigDict(extra="forbid")


class MessagePart(BaseModel):
    """A part of a message, as AI SDK's clients send it; only parts of type `text` are read."""

    type: StrictStr
    text: StrictStr = ""


class ChatMessage(BaseModel):
    """A message of the conversation that a request brings: its text as `content`, or in `parts`."""

    role: Literal["user", "assistant"]
    content: StrictStr = ""
    parts: list[MessagePart] = Field(default_factory=list[MessagePart])

    @model_validator(mode="before")
    @classmethod
    def _said(cls, value: object) -> object:
        if isinstance(value, dict) and "content" not in value and "parts" not in value:
            raise ValueError("content is required (or parts)")
        return cast("object", value)

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if not self.content and self.parts:
            self.content = "".join(part.text for part in self.parts if part.type == "text")
        return self


class ProfileOptions(Strict):
    """Fields of a profile to be changed, within its limits; what is absent stays."""

    top_k: StrictInt | None = None
    min_score: Score | None = None
    mode: Literal["dense", "lexical", "hybrid"] | None = None
    rerank: StrictBool | None = Field(default=None, description="A second ranking by a rerank model.")
    hyde: StrictBool | None = Field(default=None, description="Searches for a passage that might be the answer.")
    derive_filter: StrictBool | None = Field(
        default=None,
        description="Narrows the search to tags, category, kind and dates of saving that a question names.",
    )
    condense: StrictBool | None = Field(default=None, description="Rewrites follow-ups before searching.")
    decide: StrictBool | None = Field(default=None, description="Asks first whether the question needs retrieval.")
    assess: StrictBool | None = Field(default=None, description="Lets the model judge its answer.")
    speculate: StrictBool | None = Field(default=None, description="Begins the answer before that decision.")
    answer_language: Annotated[StrictStr, Field(max_length=64)] | None = None
    marker_style: Literal["none", "remove", "ref", "source"] | None = None
    ask_back: StrictBool | None = None
    instructions: Annotated[StrictStr, Field(max_length=16_000)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None


class ProfileBody(Strict):
    """A profile of a tenant's own: one of the server's, changed."""

    base: StrictStr = Field(description="A profile of the server's, such as `grounded`.")
    description: Annotated[StrictStr, Field(max_length=500)] = ""
    changes: ProfileOptions = Field(default_factory=ProfileOptions)


def _asks(messages: list[ChatMessage]) -> list[ChatMessage]:
    if messages[-1].role != "user":
        raise ValueError("the last one must be the user's")
    return messages


Messages = Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_asks)]


class ChatRequest(Strict):
    """A question, as `question` or as the last of `messages`."""

    question: StrictStr | None = Field(
        default=None, description="Required unless `messages` is given. 1 byte to 32 KiB."
    )
    messages: Messages | None = Field(
        default=None, description="The conversation, oldest first; the last one is the user's question."
    )
    profile: StrictStr | None = Field(default=None, description="See `GET /v1/profiles`; none means `documents`.")
    conversation_id: UUID | None = Field(default=None, description="Continues a conversation; none begins one.")
    document_ids: Annotated[list[DocumentId], Field(max_length=MAX_DOCUMENT_IDS)] | None = Field(
        default=None, description="The selected documents; absent means all in scope."
    )
    collection: CollectionName | None = None
    filter: Any = _FILTER
    top_k: StrictInt | None = Field(default=None, description="How many chunks, within the profile's limits.")
    min_score: Score | None = Field(default=None, description="Lowest cosine similarity of a chunk.")
    model: Annotated[StrictStr, Field(max_length=200)] | None = Field(default=None, description="The chat model.")
    stream: StrictBool = Field(default=True, description="False answers with one JSON body.")
    include: tuple[Literal["step", "assessment", "citation", "uncited", "cost"], ...] = Field(
        default=(),
        description="Events to show beyond those that the profile shows; `cost` adds `cost_usd` and `path` to `usage`.",
    )
    options: ProfileOptions | None = Field(
        default=None, description="Changes single fields of the profile for this question, within its limits."
    )
    keep: StrictBool | None = Field(
        default=None, description="True keeps the chat as a conversation, where the profile leaves that to the request."
    )
    id: Any = Field(default=None, description="Of a client that sends its own; not read.", exclude=True)
    trigger: Any = Field(default=None, description="Of AI SDK's clients; not read.", exclude=True)
    message_id: Any = Field(default=None, alias="messageId", description="Of AI SDK's clients; not read.", exclude=True)


class SimpleRequest(BaseModel):
    """A question of the simple API. Members that it doesn't know are passed over, as that API does."""

    question: StrictStr
    document_ids: Annotated[list[DocumentId], Field(max_length=MAX_DOCUMENT_IDS)] | None = Field(
        default=None, description="Only these documents; absent or empty means all."
    )


class SelfRagRequest(BaseModel):
    """A conversation about saved articles and repositories. Members that this API doesn't know are passed over."""

    messages: Messages = Field(description="Oldest first; the last one is the user's question.")
    top_k: Annotated[StrictInt, Field(ge=1, le=30)] = Field(default=10, description="How many chunks.")
    min_score: Score = Field(default=0.3, description="Lowest cosine similarity of a chunk.")
    collection: CollectionName | None = Field(default=None, description="Only this collection (feed).")


class SearchBody(Strict):
    """A search."""

    query: StrictStr
    top_k: Annotated[StrictInt, Field(ge=1, le=200)] = 10
    mode: Literal["dense", "lexical", "hybrid"] = "dense"
    group_by: Literal["document"] | None = Field(
        default=None, description="`document`: the best chunk of each document; `top_k` counts documents."
    )
    rerank: StrictBool = Field(default=False, description="Puts the results into the order of a rerank model.")
    min_score: Score | None = Field(default=None, description="Lowest cosine similarity of a result.")
    dense_weight: Score | None = Field(
        default=None,
        description="Weight of the dense leg in `hybrid`, for measuring; absent means the space's calibrated one.",
    )
    diversity: Score = Field(
        default=0.0,
        description="How much a result's likeness to those before it counts against its relevance; 0 in `lexical`.",
    )
    keep_duplicates: StrictBool = Field(
        default=False,
        description="Keeps chunks whose text is nearly that of a better one, which else are left out and named by it.",
    )
    document_ids: Annotated[list[DocumentId], Field(max_length=MAX_DOCUMENT_IDS)] | None = None
    collection: CollectionName | None = None
    filter: Any = _FILTER


class DocumentBody(Strict):
    """A document as text."""

    type: DocumentType
    title: Annotated[StrictStr, Field(min_length=1, max_length=500)]
    content: Annotated[StrictStr, Field(min_length=1, description="Markdown.")]
    url: Annotated[StrictStr, Field(max_length=2048)] | None = None
    metadata: dict[str, Any] | None = None
    tags: Annotated[list[Tag], Field(max_length=50)] = Field(default_factory=list)
    collection: CollectionName | None = None


class DocumentPatch(Strict):
    """What may be changed of a document without a new version; a field that is absent stays as it is."""

    title: Annotated[StrictStr, Field(min_length=1, max_length=500)] | None = None
    url: Annotated[StrictStr, Field(max_length=2048)] | None = None
    metadata: dict[str, Any] | None = None
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    collection: CollectionName | None = Field(default=None, description="null takes it out of its collection.")


class CollectionBody(Strict):
    """A collection's name."""

    name: CollectionName


class ConversationPatch(Strict):
    """A conversation's new title."""

    title: Annotated[StrictStr, Field(min_length=1, max_length=200)]


ProviderName = Annotated[StrictStr, Field(min_length=1, max_length=64)]
ModelName = Annotated[StrictStr, Field(max_length=200)]
ApiBase = Annotated[StrictStr, Field(max_length=2048)]
ApiKey = Annotated[SecretStr, Field(max_length=4096)]

_MODEL = Field(default=None, description="The model; absent means the provider's default, where it has one.")
_API_BASE = Field(default=None, description="Base URL; it is normalised to end in `/v1`. Write-only.")
_API_KEY = Field(default=None, description="Write-only: it is sealed at once and never comes back.")


class FallbackBody(Strict):
    """Who takes over before the first token: an own provider, or with `model` alone a model of this server's."""

    provider: ProviderName | None = None
    model: ModelName | None = _MODEL
    api_base: ApiBase | None = _API_BASE
    api_key: ApiKey | None = _API_KEY


class ProviderBody(Strict):
    """A tenant's own provider; what was saved before is replaced, its key included."""

    provider: ProviderName = Field(
        description="chat: `anthropic`, `openai`, `ollama`, `openai-compatible`; embedding: `openai`, `ollama`, "
        "`openai-compatible`; rerank: `cohere`, `jina`, `openai-compatible`."
    )
    model: ModelName | None = _MODEL
    api_base: ApiBase | None = _API_BASE
    api_key: ApiKey | None = _API_KEY
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Length of an embedding model's vectors, where it can be chosen."
    )
    fallbacks: Annotated[list[FallbackBody], Field(max_length=4)] = Field(
        default_factory=list[FallbackBody], description="Who takes over, in this order; of chat providers only."
    )
    test: StrictBool = Field(default=True, description="Makes one small call to the provider and reports how it went.")


class SpaceBody(Strict):
    """An embedding space, as `GET /v1/spaces` names it."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)]
    revision: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)]


class CalibrationValues(Strict):
    """What was measured; what is absent or null wasn't derived, and the server's default counts."""

    relevance_threshold: Score | None = Field(
        default=None, description="Cosine similarity below which a chunk is hardly ever relevant."
    )
    answerable_threshold: Score | None = Field(
        default=None, description="Score of an extractive answer below which the passages don't answer."
    )
    dense_weight: Score | None = Field(
        default=None, description="Weight of the vectors in hybrid search; the words have the rest."
    )
    report: dict[str, Any] | None = Field(
        default=None, description="What was measured and how: any JSON object, at most 64 KiB."
    )


class CalibrationBody(Strict):
    """What a space's scores mean; it takes the place of what is kept, as a whole."""

    space: SpaceBody
    calibration: CalibrationValues | None = Field(
        description="Null removes what is kept: what comes with the server counts again."
    )


class BudgetBody(Strict):
    """What may be spent in a period; UTC."""

    scope: Literal["org", "key"] = Field(default="org", description="The organisation's, or an API key's.")
    key_id: Annotated[StrictStr, Field(max_length=128)] | None = Field(default=None, description="The key, for `key`.")
    period: Period
    limit_usd: Annotated[StrictInt | StrictFloat, Field(ge=0, le=MAX_LIMIT_USD)] = Field(
        description="USD; 0 lets nothing through that costs anything."
    )


class ProviderRulesBody(Strict):
    """What an organisation demands of providers."""

    require_own: StrictBool = Field(description="Whether the operator's providers may not be used.")
