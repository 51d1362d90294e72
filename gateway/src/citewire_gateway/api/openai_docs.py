"""What the OpenAPI document says of the routes in OpenAI's shape."""

from citewire_gateway.api import compatible
from citewire_gateway.api.openai_schemas import CompletionRequest, EmbeddingsRequest, RerankBody
from citewire_gateway.api.operation_docs import Docs, event_stream, json_content, json_docs, operation_docs


def completions_docs() -> Docs:
    """`POST /v1/chat/completions`."""
    stream = event_stream(
        "`chat.completion.chunk` objects, then `[DONE]`. Markers stay visible, and a list of sources follows the text; "
        "the last delta has `annotations`. A fault is an `error` object, and no `[DONE]`.",
        "CompletionChunk",
        compatible.COMPLETION_STREAM,
    )
    answer = {"application/json": {"schema": {"type": "object"}, "example": compatible.COMPLETION}}
    return operation_docs(
        {"description": "A stream, or without `stream` one `chat.completion`.", "content": {**stream, **answer}},
        body=CompletionRequest,
        key=True,
        missing=True,
        conflicts=True,
        unavailable=True,
        more=(402,),
    )


def models_docs(*, one: bool = False) -> Docs:
    """`GET /v1/models` and below."""
    if one:
        return json_docs("The profile.", compatible.MODEL, missing=True)
    return json_docs("The profiles.", {"object": "list", "data": [compatible.MODEL]})


def embeddings_docs() -> Docs:
    """`POST /v1/embeddings`."""
    answer = {"description": "The vectors.", **json_content(compatible.EMBEDDINGS)}
    return operation_docs(answer, body=EmbeddingsRequest, missing=True, unavailable=True, more=(402,))


def rerank_docs() -> Docs:
    """`POST /v1/rerank`."""
    answer = {"description": "Indices and scores, best first.", **json_content(compatible.RERANKED)}
    return operation_docs(answer, body=RerankBody, missing=True, unavailable=True, more=(402,))
