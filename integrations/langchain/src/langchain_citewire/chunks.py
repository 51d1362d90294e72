"""Converts a streamed answer to LangChain's chunks."""

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from citewire_client import models
from citewire_client.adapters import StopSequences, members
from citewire_client.events import ChatEvent
from langchain_citewire.messages import PROVIDER, answer_metadata, citation_of, usage_of


class AnswerChunks:
    """Converts events to chunks. Their sum equals the complete answer, as each item appears in only one chunk."""

    def __init__(self, model: str, stop: StopSequences) -> None:
        """`model` is the name in the request."""
        self._model = model
        self._stop = stop
        self._passages: list[models.Citation] = []
        self._conversation: str | None = None
        self.is_over = False
        """Whether the answer is complete or a stop sequence was reached."""

    def read(self, event: ChatEvent) -> Iterator[ChatGenerationChunk]:
        """Yields the chunks that an event adds to the answer."""
        match event:
            case models.ConversationEvent(data=data):
                self._conversation = str(data.conversation_id)
            case models.CitationsEvent(data=data):
                self._passages = list(data.citations)
                yield _added(passages=[members(passage) for passage in self._passages])
            case models.TokenEvent(data=data):
                yield from self._text(self._stop.feed(data.text) if self._stop else data.text)
                if self._stop.reached:
                    yield self._last("stop")
            case models.ToolCallEvent(data=data):
                call = tool_call_chunk(name=data.name, args=data.arguments, id=data.id, index=data.index)
                yield _chunk(tool_call_chunks=[call])
            case models.CitationEvent(data=data):
                yield _added(citations=[citation_of(data, self._passages)])
            case models.UncitedEvent(data=data):
                yield _added(uncited=[members(data)])
            case models.UsageEvent(data=data):
                yield from self._text(self._stop.rest())
                yield _chunk(usage_metadata=usage_of(data))
            case models.DoneEvent(data=data):
                yield from self._text(self._stop.rest())
                if data.refusal:
                    yield _added(refusal=data.refusal)
                yield self._last(data.finish_reason)
            case _:
                pass

    def _text(self, text: str) -> Iterator[ChatGenerationChunk]:
        if text:
            yield _chunk(text)

    def _last(self, finish_reason: str | None) -> ChatGenerationChunk:
        self.is_over = True
        metadata = answer_metadata(
            self._model,
            self._model.partition("/")[0],
            finish_reason=finish_reason,
            conversation_id=self._conversation,
        )
        return _chunk(response_metadata=metadata, chunk_position="last")


def _added(**kwargs: Any) -> ChatGenerationChunk:
    return _chunk(additional_kwargs=kwargs)


def _chunk(text: str = "", **fields: Any) -> ChatGenerationChunk:
    message: dict[str, Any] = {"response_metadata": {"model_provider": PROVIDER}} | fields
    return ChatGenerationChunk(message=AIMessageChunk(content=text, **message))
