"""Bodies of the compatible APIs beside chats: embeddings, reranking, models."""

from typing import Annotated, Literal, cast

from pydantic import MISSING, Discriminator, Field, JsonValue, StrictBool, StrictInt, StrictStr, Tag

from citewire_dialects.schemas.compatible import Unread
from citewire_dialects.token_texts import decode_tokens
from citewire_http.api.schemas import Count, RequestModel, ResponseModel

MAX_INPUTS = 2048
MAX_TEXTS = 1000

TokenIds = Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1, max_length=8192)]


def _kind_of_input(value: object) -> str:
    """The kind of an input, determined by its first element."""
    if not isinstance(value, list) or not value:
        return "text" if isinstance(value, str) else "texts"
    first = cast("list[object]", value)[0]
    return "arrays of tokens" if isinstance(first, list) else "tokens" if isinstance(first, int) else "texts"


def _describe_input(schema: dict[str, JsonValue]) -> None:
    """One kind of array in the schema, because client generators confuse several alternatives."""
    token = {"type": "integer"}
    elements = {"anyOf": [{"type": "string"}, token, {"type": "array", "items": token}]}
    schema.pop("oneOf")
    schema["anyOf"] = cast(
        "JsonValue", [{"type": "string"}, {"type": "array", "items": elements, "minItems": 1, "maxItems": 8192}]
    )


class EmbeddingsRequest(RequestModel):
    """Texts to embed."""

    input: Annotated[
        Annotated[StrictStr, Tag("text")]
        | Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_INPUTS), Tag("texts")]
        | Annotated[TokenIds, Tag("tokens")]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_INPUTS), Tag("arrays of tokens")],
        Discriminator(_kind_of_input),
    ] = Field(
        json_schema_extra=_describe_input,
        description="One text or up to 2,048, none empty; or token ids, one array or several, in the model's encoding "
        "(`cl100k_base` where it isn't one of OpenAI's), with the extra `citewire-gateway[tokens]`.",
    )
    model: Annotated[StrictStr, Field(max_length=200)] | None = Field(
        default=None, description="An embedding model; absent or empty means the caller's default."
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = None
    input_type: Literal["query", "document"] = Field(
        default="document", description="The purpose: some models embed questions and passages differently."
    )
    user: Unread

    def texts(self) -> list[str]:
        """The texts as a list. Token ids are decoded, which takes a while the first time.

        Raises:
            CitewireError: Token ids can't be decoded.
        """
        if isinstance(self.input, str):
            return [self.input]
        if isinstance(self.input[0], str):
            return cast("list[str]", self.input)
        arrays = [self.input] if isinstance(self.input[0], int) else self.input
        return decode_tokens(self.model or "", cast("list[list[int]]", arrays))

    @property
    def has_tokens(self) -> bool:
        """Whether there are token ids to decode."""
        return not isinstance(self.input, str) and not isinstance(self.input[0], str)


class RerankDocument(RequestModel):
    """A text in an object, as some clients send it."""

    text: StrictStr


class RerankBody(RequestModel):
    """Texts to order by their relevance to a query."""

    query: Annotated[StrictStr, Field(min_length=1)]
    documents: Annotated[list[StrictStr | RerankDocument], Field(min_length=1, max_length=MAX_TEXTS)]
    model: Annotated[StrictStr, Field(max_length=200)] | None = None
    top_n: Annotated[StrictInt, Field(ge=1)] | None = None
    return_documents: StrictBool = False

    def texts(self) -> list[str]:
        """Only the texts."""
        return [document if isinstance(document, str) else document.text for document in self.documents]


class ModelInfo(ResponseModel):
    """A profile as a model."""

    id: str = Field(examples=["grounded"])
    object: Literal["model"]
    created: int = Field(examples=[1767225600])
    owned_by: str = Field(examples=["citewire"])


class ModelList(ResponseModel):
    """The profiles."""

    object: Literal["list"]
    data: list[ModelInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class Embedding(ResponseModel):
    """A text's vector."""

    object: Literal["embedding"]
    index: Count = Field(examples=[0])
    embedding: list[float] | str = Field(
        description="Numbers, or with `base64` little-endian float32.", examples=[[0.0123, -0.0456]]
    )


class EmbeddingUsage(ResponseModel):
    """Tokens of the embedding model."""

    prompt_tokens: Count = Field(examples=[5])
    total_tokens: Count = Field(examples=[5])


class Embeddings(ResponseModel):
    """A vector per text, in order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str = Field(examples=["all-MiniLM-L6-v2"])
    usage: EmbeddingUsage


class RerankResult(ResponseModel):
    """A text's relevance."""

    index: Count = Field(description="The text's index in the request.", examples=[1])
    relevance_score: float = Field(examples=[0.91])
    document: RerankDocument | MISSING = Field(default=MISSING, description="With `return_documents`.")


class RerankResults(ResponseModel):
    """Indices and scores, best first."""

    id: str = Field(examples=["0a1b2c"])
    model: str = Field(examples=["default"])
    results: list[RerankResult]
