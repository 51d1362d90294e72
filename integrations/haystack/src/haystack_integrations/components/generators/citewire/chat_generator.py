"""A chat generator that answers from the caller's documents."""
# Haystack's callback helpers aren't fully typed:
# pyright: reportUnknownVariableType=false

from typing import Any, Final

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import (
    AsyncStreamingCallbackT,
    ChatMessage,
    ComponentInfo,
    StreamingCallbackT,
    StreamingChunk,
    SyncStreamingCallbackT,
    select_streaming_callback,
)
from haystack.tools import (
    ToolsType,
    deserialize_tools_or_toolset_inplace,
    flatten_tools_or_toolsets,
    serialize_tools_or_toolset,
)
from haystack.utils import (
    Secret,
    deserialize_callable,
    deserialize_secrets_inplace,
    serialize_callable,
)

from citewire_client.adapters import (
    AnswerReader,
    ChatSettings,
    GatewayConnection,
    answer_details,
    answer_format,
    chosen_tool,
)
from haystack_integrations.components.generators.citewire.messages import (
    ReplyChunks,
    describe_tools,
    read_question,
    reply_of,
)
from haystack_integrations.components.retrievers.citewire.filters import translate_filters

_FIELDS = (
    *("model", "collection", "filters", "top_k", "min_score", "max_tokens", "stop", "options", "include"),
    *("conversation_id", "keep", "grace_seconds", "base_url", "timeout", "max_retries"),
)
_SET_ELSEWHERE: Final = frozenset({"filter", "document_ids", "tools"})
"""Chat settings that can't be set in `generation_kwargs`."""


@component
class CitewireChatGenerator:
    """Answers questions from the caller's documents.

    `meta` of a reply has `citations` (each verified sentence with its quote, verdict and place), `passages` (what the
    model was given), `uncited`, and `usage`.

    Example:
        ```python
        from haystack.dataclasses import ChatMessage
        from haystack_integrations.components.generators.citewire import CitewireChatGenerator

        question = ChatMessage.from_user("At how many degrees does water boil?")
        (reply,) = CitewireChatGenerator(collection="physics").run([question])["replies"]
        for citation in reply.meta["citations"]:
            print(citation["verdict"], citation["quote"])
        ```
    """

    def __init__(
        self,
        model: str = "grounded",
        collection: str | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        min_score: float | None = None,
        max_tokens: int | None = None,
        stop: list[str] | None = None,
        options: dict[str, Any] | None = None,
        include: list[str] | None = None,
        conversation_id: str | None = None,
        keep: bool = False,
        grace_seconds: int | None = None,
        streaming_callback: StreamingCallbackT | None = None,
        tools: ToolsType | None = None,
        base_url: str | None = None,
        api_key: Secret | None = Secret.from_env_var("CITEWIRE_API_KEY", strict=False),  # noqa: B008 # it is immutable
        timeout: float | None = None,
        max_retries: int = 2,
    ) -> None:
        """Prepares a generator; no request is sent.

        Args:
            model: A profile, optionally with a chat model: `grounded/openai/gpt-4.1`.
            collection: Answer only from this collection; None: from all documents that the caller may read.
            filters: Conditions on the documents' metadata, in Haystack's format.
            top_k: Number of passages to retrieve; None: the profile's.
            min_score: Lowest cosine similarity of a passage; None: the profile's.
            max_tokens: Maximum number of tokens in an answer; None: the profile's.
            stop: A reply ends where one of these texts begins.
            options: Overrides for fields of the profile, such as `answer_language`.
            include: Events to receive besides those that the profile shows; None: `citation`.
            conversation_id: Continues a conversation stored in the gateway: only the last message is sent.
            keep: Whether to store question and answer if the profile does so.
            grace_seconds: How long generation continues after the reader has disconnected.
            streaming_callback: Called with each chunk.
            tools: Tools that the model may call and an agent runs. Answers still come from the documents.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.

        Raises:
            FilterError: The filters aren't in Haystack's format.
        """
        self.model = model
        self.collection = collection
        self.filters = filters
        self.top_k = top_k
        self.min_score = min_score
        self.max_tokens = max_tokens
        self.stop = stop or []
        self.options = options or {}
        self.include = ["citation"] if include is None else include
        self.conversation_id = conversation_id
        self.keep = keep
        self.grace_seconds = grace_seconds
        self.streaming_callback = streaming_callback
        self.tools = tools
        self.base_url = base_url
        self.api_key = api_key
        self.timeout = timeout
        self.max_retries = max_retries
        if filters:
            translate_filters(filters)
        key = None if api_key is None else api_key.resolve_value()
        self._gateway = GatewayConnection(base_url, key, timeout=timeout, retries=max_retries)

    def to_dict(self) -> dict[str, Any]:
        """Serialises the component, as Haystack does when it saves a pipeline."""
        callback = None if self.streaming_callback is None else serialize_callable(self.streaming_callback)
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields |= {"streaming_callback": callback, "tools": serialize_tools_or_toolset(self.tools)}
        return default_to_dict(self, **fields, api_key=None if self.api_key is None else self.api_key.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "CitewireChatGenerator":
        """Restores the component from a saved pipeline."""
        parameters = data["init_parameters"]
        deserialize_secrets_inplace(parameters, keys=["api_key"])
        deserialize_tools_or_toolset_inplace(parameters)
        if parameters.get("streaming_callback"):
            parameters["streaming_callback"] = deserialize_callable(parameters["streaming_callback"])
        return default_from_dict(cls, data)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        generation_kwargs: dict[str, Any] | None = None,
        streaming_callback: StreamingCallbackT | None = None,
        *,
        tools: ToolsType | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """Answers the last message of a conversation.

        Args:
            messages: The conversation, oldest message first, or a single question.
            generation_kwargs: Fields of this generator for this call only, such as `max_tokens` or `stop`;
                `response_format`, a Pydantic class or OpenAI's format: then the reply is JSON, or `meta` has a
                `refusal`; `tool_choice` (`auto`, `none`, `required`, a tool's name) and `parallel_tool_calls`.
            streaming_callback: Replaces this generator's callback.
            tools: Replaces this generator's tools.

        Returns:
            `replies`, a list with one reply.

        Raises:
            ValueError: A message can't be sent, or a field doesn't exist.
            CitewireError: The gateway rejected the request or failed.
        """
        told = select_streaming_callback(self.streaming_callback, streaming_callback, requires_async=False)
        arguments, reader, stop = self._asked(messages, generation_kwargs or {}, tools)
        if told is None and not stop:
            answer = self._gateway.blocking.chat(**arguments)
            return {"replies": [reply_of(answer.answer, answer_details(answer, reader.details["model"]))]}
        chunks = ReplyChunks(reader, ComponentInfo.from_component(self))
        with self._gateway.blocking.stream_chat(**arguments) as events:
            for event in events:
                _tell(told, chunks.read(event))
                if reader.is_over:
                    break
        return {"replies": [reply_of(reader.text, reader.details)]}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        generation_kwargs: dict[str, Any] | None = None,
        streaming_callback: StreamingCallbackT | None = None,
        *,
        tools: ToolsType | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """The asynchronous form of `run`."""
        told = select_streaming_callback(self.streaming_callback, streaming_callback, requires_async=True)
        arguments, reader, stop = self._asked(messages, generation_kwargs or {}, tools)
        async with self._gateway.awaiting() as client:
            if told is None and not stop:
                answer = await client.chat(**arguments)
                return {"replies": [reply_of(answer.answer, answer_details(answer, reader.details["model"]))]}
            chunks = ReplyChunks(reader, ComponentInfo.from_component(self))
            async with client.stream_chat(**arguments) as events:
                async for event in events:
                    await _tell_waiting(told, chunks.read(event))
                    if reader.is_over:
                        break
        return {"replies": [reply_of(reader.text, reader.details)]}

    def _asked(
        self, messages: list[ChatMessage] | str, told: dict[str, Any], tools: ToolsType | None
    ) -> tuple[dict[str, Any], AnswerReader, list[str]]:
        """The arguments of a chat, the reader of its events, and the stop sequences."""
        names = [name for name in ChatSettings.__dataclass_fields__ if name not in _SET_ELSEWHERE]
        unknown = sorted(told.keys() - {*names, "filters", "stop"})
        if unknown:
            raise ValueError(
                f"generation_kwargs: {', '.join(unknown)} can't be set; the available fields are {', '.join(names)}"
            )
        given = flatten_tools_or_toolsets(self.tools if tools is None else tools)
        fields: dict[str, Any] = {name: told.get(name, getattr(self, name, None)) for name in names}
        filters = told.get("filters", self.filters)
        fields["filter"] = translate_filters(filters) if filters else None
        fields["keep"] = None if fields["keep"] else False
        fields["tools"] = describe_tools(given)
        fields["tool_choice"] = chosen_tool(fields["tool_choice"], [tool.name for tool in given])
        fields["response_format"] = answer_format(fields["response_format"])
        stop: list[str] = told.get("stop") or self.stop
        return ChatSettings(**fields).arguments(read_question(messages)), AnswerReader(fields["model"], stop), stop


def _tell(callback: SyncStreamingCallbackT | None, chunk: StreamingChunk | None) -> None:
    if callback is not None and chunk is not None:
        callback(chunk)


async def _tell_waiting(
    callback: AsyncStreamingCallbackT | SyncStreamingCallbackT | None, chunk: StreamingChunk | None
) -> None:
    if callback is not None and chunk is not None:
        waiting = callback(chunk)
        if waiting is not None:
            await waiting
