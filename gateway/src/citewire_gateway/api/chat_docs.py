"""What the OpenAPI document says of chats and conversations."""

from citewire_gateway.api import examples
from citewire_gateway.api.operation_docs import REF, Docs, event_stream, json_content, json_docs, operation_docs
from citewire_gateway.api.schemas import ChatRequest, ConversationPatch, SelfRagRequest, SimpleRequest


def chat_docs() -> Docs:
    """`POST /v1/chat`."""
    stream = event_stream(
        "The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`, and `done` last. Which events "
        "are shown is the profile's; ignore those that you don't know. A fault is `error`, then `done`. Lines that "
        "begin with a colon are heartbeats.",
        "ChatEvent",
        examples.CHAT_STREAM,
    )
    answer = {"application/json": {"schema": {"$ref": f"{REF}ChatAnswer"}, "example": examples.CHAT_ANSWER}}
    return operation_docs(
        {"description": "A stream, or with `stream: false` one JSON body.", "content": {**stream, **answer}},
        body=ChatRequest,
        key=True,
        missing=True,
        conflicts=True,
        unavailable=True,
        more=(402,),
    )


def simple_stream_docs() -> Docs:
    """`POST /api/chat/`."""
    stream = event_stream(
        "Frames of data only: `token` many, then `done` with the sources. A fault is `error`, and no `done`.",
        "SimpleFrame",
        examples.SIMPLE_STREAM,
    )
    return operation_docs(
        {"description": "A stream.", "content": stream}, body=SimpleRequest, missing=True, unavailable=True, more=(402,)
    )


def simple_query_docs() -> Docs:
    """`POST /api/chat/query`."""
    return operation_docs(
        {"description": "The answer.", **json_content(examples.SIMPLE_ANSWER, "SimpleAnswer")},
        body=SimpleRequest,
        missing=True,
        unavailable=True,
        more=(402,),
    )


def self_rag_docs() -> Docs:
    """`POST /api/rag-chat/stream`."""
    stream = event_stream(
        "Frames of an event and its data: `decision` first, `retrieval` if it is needed, `content` many, `assessment`, "
        "then `done`. A fault is `error`, and nothing follows it.",
        "SelfRagFrame",
        examples.SELF_RAG_STREAM,
    )
    return operation_docs(
        {"description": "A stream.", "content": stream}, body=SelfRagRequest, unavailable=True, more=(402,)
    )


def conversations_docs() -> Docs:
    """The list of conversations."""
    body = {"conversations": [examples.CONVERSATION], "next_page_token": ""}
    return json_docs("The caller's conversations, latest first.", body)


def conversation_docs() -> Docs:
    """A conversation with its messages."""
    body = {**examples.CONVERSATION, "messages": examples.MESSAGES, "next_page_token": ""}
    return json_docs("The conversation.", body, missing=True)


def export_docs() -> Docs:
    """`GET /v1/conversations/{id}/export`."""
    docs = json_docs("The conversation.", examples.CONVERSATION | {"messages": examples.MESSAGES}, missing=True)
    content: Docs = {"schema": {"type": "string"}, "example": "# A title\n\n## A question\n\nAn answer.\n"}
    docs["responses"][200]["content"]["text/markdown"] = content
    return docs


def rename_docs() -> Docs:
    """`PATCH /v1/conversations/{id}`."""
    return operation_docs(
        {"description": "The conversation.", **json_content(examples.CONVERSATION)},
        body=ConversationPatch,
        missing=True,
    )
