"""Converts LangChain's messages for the gateway, and its answers to LangChain's messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UsageMetadata,
)
from langchain_core.messages.block_translators import register_translator
from langchain_core.messages.content import Citation, ContentBlock, TextContentBlock
from langchain_core.messages.tool import tool_call
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call

from citewire_client import models
from citewire_client.adapters import Question, called_tool, members

PROVIDER: Final = "citewire"
"""The `model_provider` in `response_metadata`."""
_ROLES: Final[Mapping[type[BaseMessage], str]] = {
    SystemMessage: "system",
    HumanMessage: "user",
    AIMessage: "assistant",
}
_SPAN: Final = frozenset({"sentence", "quote", "index", "verdict"})
"""The fields of a verified citation that LangChain's citation has itself."""


def read_question(messages: Iterable[BaseMessage]) -> Question:
    """Converts LangChain's messages to the gateway's format.

    Raises:
        ValueError: A message can't be sent; the error says which one and why.
    """
    return Question.read(_read(message, at) for at, message in enumerate(messages))


def usage_of(usage: models.TokenUsage) -> UsageMetadata:
    """The chat model's token usage in LangChain's format."""
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )


def citation_of(verified: models.VerifiedCitation, passages: Sequence[models.Citation]) -> Citation:
    """Converts a verified citation to LangChain's format; `extras` has the verdict and the place."""
    passage = next((passage for passage in passages if passage.index == verified.index), None)
    more = {name: value for name, value in members(verified).items() if name not in _SPAN}
    citation = Citation(
        type="citation",
        start_index=verified.sentence.start,
        end_index=verified.sentence.end,
        cited_text=verified.quote,
        extras={"number": verified.index, "verdict": verified.verdict} | more,
    )
    if passage is not None:
        citation["title"] = passage.title
        citation["extras"] = citation.get("extras", {}) | {"ref": passage.ref, "file_name": passage.file_name}
        if passage.url:
            citation["url"] = passage.url
    return citation


def answer_metadata(model: str, profile: str, **more: object) -> dict[str, Any]:
    """The `response_metadata` of an answer."""
    known = {name: value for name, value in more.items() if value is not None}
    return {"model_name": model, "model_provider": PROVIDER, "profile": profile} | known


def answer_message(answer: models.ChatAnswer, model: str) -> AIMessage:
    """A complete answer with its citations."""
    kwargs: dict[str, Any] = {
        "citations": [citation_of(verified, answer.citations) for verified in answer.verified or ()],
        "passages": [members(passage) for passage in answer.citations],
    }
    if answer.refusal:
        kwargs["refusal"] = answer.refusal
    if answer.uncited is not None:
        kwargs["uncited"] = [members(sentence) for sentence in answer.uncited]
    metadata = answer_metadata(
        model,
        answer.profile,
        finish_reason=answer.finish_reason,
        not_found=answer.not_found,
        provider=answer.provider,
        chat_model=answer.model,
        exchange_id=str(answer.exchange_id),
        conversation_id=None if answer.conversation_id is None else str(answer.conversation_id),
    )
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for call in answer.tool_calls or ():
        chunk = {"id": call.id, "function": {"name": call.function.name, "arguments": call.function.arguments}}
        try:
            if (parsed := parse_tool_call(chunk, return_id=True)) is not None:
                calls.append(tool_call(**{name: parsed[name] for name in ("name", "args", "id")}))
        except OutputParserException as exc:
            broken.append(make_invalid_tool_call(chunk, str(exc)))
    return AIMessage(
        content=answer.answer,
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs=kwargs,
        response_metadata=metadata,
        usage_metadata=usage_of(answer.usage),
    )


def _read(message: BaseMessage, at: int) -> dict[str, Any]:
    """Converts a message to the gateway's format."""
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _text(message, at)}
    role = next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        kinds = "SystemMessage, HumanMessage, AIMessage and ToolMessage"
        raise ValueError(f"messages.{at}: a {type(message).__name__} can't be sent; only {kinds} can")
    pictures = _pictures(message, at) if isinstance(message, HumanMessage) else []
    if pictures:
        return {"role": role, "parts": [{"type": "text", "text": _text(message, at)}, *pictures]}
    read: dict[str, Any] = {"role": role, "content": _text(message, at)}
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = enumerate(message.tool_calls)
        read["tool_calls"] = [
            called_tool(call["id"] or f"call_{number}", call["name"], call["args"]) for number, call in calls
        ]
    return read


def _pictures(message: HumanMessage, at: int) -> list[dict[str, str]]:
    """The images of a question, in any of LangChain's forms."""
    parts: list[dict[str, str]] = []
    for block in message.content_blocks:
        if block["type"] == "text":
            continue
        if block["type"] != "image":
            kind = block["type"] if block["type"] != "non_standard" else block["value"].get("type")
            raise ValueError(
                f"messages.{at}.content: a block of type {kind!r} can't be sent; only text and images can. Upload "
                "files instead: see CitewireRetriever.add_documents"
            )
        media = block.get("mime_type") or "image/png"
        url = block.get("url") or f"data:{media};base64,{block.get('base64', '')}"
        parts.append({"type": "file", "mediaType": media, "url": url})
    return parts


def _text(message: BaseMessage, at: int) -> str:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    unread = [block.get("type") for block in blocks if not isinstance(block, str) and block.get("type") != "text"]
    if unread and not isinstance(message, AIMessage | HumanMessage):
        raise ValueError(f"messages.{at}.content: a block of type {unread[0]!r} can't be sent; only text can")
    return str(message.text)


def _content_blocks(message: AIMessage | AIMessageChunk) -> list[ContentBlock]:
    """Standard blocks: the text with the citations as annotations."""
    if not isinstance(message.content, str):
        raise NotImplementedError  # these are blocks already, which LangChain reads correctly itself
    citations: list[Citation] = message.additional_kwargs.get("citations") or []
    blocks: list[ContentBlock] = []
    if message.content or citations:
        block = TextContentBlock(type="text", text=message.content)
        if citations:
            block["annotations"] = list(citations)
        blocks.append(block)
    if isinstance(message, AIMessageChunk) and message.chunk_position != "last":
        blocks += cast("list[ContentBlock]", message.tool_call_chunks)
    else:
        blocks += cast("list[ContentBlock]", [*message.tool_calls, *message.invalid_tool_calls])
    return blocks


register_translator(PROVIDER, _content_blocks, _content_blocks)
