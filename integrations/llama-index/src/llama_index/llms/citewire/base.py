"""The language model."""
# LlamaIndex's decorators have no types:
# pyright: reportUnknownVariableType=false, reportUntypedFunctionDecorator=false

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.generic_utils import (
    achat_to_completion_decorator,
    astream_chat_to_completion_decorator,
    chat_to_completion_decorator,
    stream_chat_to_completion_decorator,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM

from citewire_client import AsyncCitewire
from citewire_client import Citewire as CitewireClient
from citewire_client.adapters import (
    TOOL_FIELDS,
    AnswerReader,
    ChatSettings,
    GatewayConnection,
    Question,
    answer_details,
)
from citewire_client.events import ChatEvent

_DEFAULT_NUM_OUTPUT = 1_024


class Citewire(LLM):
    """Answers questions from the caller's documents.

    `additional_kwargs` of a response has `citations` (each verified sentence with its quote, verdict and place),
    `passages` (what the model was given), `uncited`, and the tokens.

    Example:
        ```python
        from llama_index.llms.citewire import Citewire

        answer = Citewire(collection="physics").complete("At how many degrees does water boil?")
        for citation in answer.additional_kwargs["citations"]:
            print(citation["verdict"], citation["quote"])
        ```
    """

    model: str = Field(default="grounded", description="A profile; a chat model may follow: `grounded/openai/gpt-4.1`.")
    collection: str | None = Field(default=None, description="Answered from alone; none: all that the caller may read.")
    document_ids: list[int] | None = Field(default=None, description="Answered from alone.")
    filter: Any = Field(default=None, description="On the documents' metadata, as `POST /v1/chat` takes it.")
    top_k: int | None = Field(default=None, description="Passages that are searched for; none: the profile's.")
    min_score: float | None = Field(default=None, description="Lowest cosine similarity of a passage.")
    max_tokens: int | None = Field(default=None, description="Most tokens of an answer; none: the profile's.")
    stop: list[str] = Field(default_factory=list, description="An answer ends where one of these begins.")
    options: dict[str, Any] = Field(default_factory=dict, description="Fields of the profile that are changed.")
    include: list[str] = Field(
        default_factory=lambda: ["citation"], description="Events beyond those that the profile shows."
    )
    conversation_id: str | None = Field(
        default=None, description="Continues a conversation that is kept: only the last message is sent."
    )
    keep: bool = Field(default=False, description="Whether question and answer are kept, as the profile has it.")
    grace_seconds: int | None = Field(default=None, description="How long an answer goes on without a reader.")
    context_window: int = Field(default=32_768, description="Tokens that LlamaIndex may put into its prompts.")
    _gateway: GatewayConnection = PrivateAttr()

    def __init__(
        self,
        model: str = "grounded",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        client: CitewireClient | None = None,
        async_client: AsyncCitewire | None = None,
        **kwargs: Any,
    ) -> None:
        """Prepares a model; nothing is sent.

        Args:
            model: A profile; a chat model may follow: `grounded/openai/gpt-4.1`.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: A key or token; None: `CITEWIRE_API_KEY`, or none.
            timeout: Seconds without a byte after which a connection counts as lost; None: 60.
            max_retries: Tries after the first.
            client: A client of your own, which you close.
            async_client: A client of your own, which you close; None: one for each call.
            **kwargs: The fields of this class, and LlamaIndex's, such as `system_prompt` and `callback_manager`.

        Raises:
            ValueError: Something is given that there is no field for.
        """
        unknown = sorted(kwargs.keys() - type(self).model_fields.keys())
        if unknown:
            raise ValueError(f"{', '.join(unknown)} can't be set: a Citewire model has no such field")
        fields: dict[str, Any] = {"model": model, **kwargs}
        super().__init__(**fields)
        self._gateway = GatewayConnection(
            base_url, api_key, timeout=timeout, retries=max_retries, client=client, async_client=async_client
        )

    @classmethod
    def class_name(cls) -> str:
        """By which LlamaIndex tells classes."""
        return "Citewire"

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex has to know of the model."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or _DEFAULT_NUM_OUTPUT,
            is_chat_model=True,
            is_function_calling_model=False,
            model_name=self.model,
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answers the last message."""
        arguments, reader, stop = self._asked(messages, kwargs)
        if not stop:
            answer = self._gateway.blocking.chat(**arguments)
            return _response(answer.answer, answer_details(answer, reader.details["model"]))
        with self._gateway.blocking.stream_chat(**arguments) as events:
            for event in events:
                reader.read(event)
                if reader.is_over:
                    break
        return _response(reader.text, reader.details)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answers the last message, piece by piece; the last response has all citations."""
        arguments, reader, _ = self._asked(messages, kwargs)

        def pieces() -> ChatResponseGen:
            with self._gateway.blocking.stream_chat(**arguments) as events:
                for event in events:
                    if (response := _piece(reader, event)) is not None:
                        yield response
                    if reader.is_over:
                        return

        return pieces()

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Like `chat`."""
        arguments, reader, stop = self._asked(messages, kwargs)
        async with self._gateway.awaiting() as client:
            if not stop:
                answer = await client.chat(**arguments)
                return _response(answer.answer, answer_details(answer, reader.details["model"]))
            async with client.stream_chat(**arguments) as events:
                async for event in events:
                    reader.read(event)
                    if reader.is_over:
                        break
        return _response(reader.text, reader.details)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Like `stream_chat`."""
        arguments, reader, _ = self._asked(messages, kwargs)

        async def pieces() -> ChatResponseAsyncGen:
            async with self._gateway.awaiting() as client, client.stream_chat(**arguments) as events:
                async for event in events:
                    if (response := _piece(reader, event)) is not None:
                        yield response
                    if reader.is_over:
                        return

        return pieces()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answers a question."""
        return chat_to_completion_decorator(self.chat)(prompt, **kwargs)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answers a question, piece by piece."""
        return stream_chat_to_completion_decorator(self.stream_chat)(prompt, **kwargs)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Like `complete`."""
        return await achat_to_completion_decorator(self.achat)(prompt, **kwargs)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Like `stream_complete`."""
        return await astream_chat_to_completion_decorator(self.astream_chat)(prompt, **kwargs)

    def _asked(
        self, messages: Sequence[ChatMessage], told: dict[str, Any]
    ) -> tuple[dict[str, Any], AnswerReader, list[str]]:
        """The arguments of a chat, what reads its events, and where it is to stop.

        Raises:
            ValueError: A message can't be sent, or something is told that there is no field for.
        """
        names = [name for name in ChatSettings.__dataclass_fields__ if name not in TOOL_FIELDS]
        unknown = sorted(told.keys() - {*names, "stop"})
        if unknown:
            raise ValueError(f"{', '.join(unknown)} can't be set here; these can: {', '.join(names)}, stop")
        told = dict(told)
        stop: list[str] = told.pop("stop", None) or self.stop
        fields: dict[str, Any] = {name: getattr(self, name, None) for name in names} | told
        fields["keep"] = None if fields["keep"] else False
        question = Question.read((_role(message, at), _text(message, at)) for at, message in enumerate(messages))
        return ChatSettings(**fields).arguments(question), AnswerReader(fields["model"], stop), stop


def _piece(reader: AnswerReader, event: ChatEvent) -> ChatResponse | None:
    """What is known after an event; None: nothing new that LlamaIndex would show."""
    delta = reader.read(event)
    return _response(reader.text, reader.details, delta) if delta or reader.is_over else None


def _response(text: str, details: dict[str, Any], delta: str | None = None) -> ChatResponse:
    more = {**details, **details.get("usage", {})}
    message = ChatMessage(
        role=MessageRole.ASSISTANT, content=text, additional_kwargs={"citations": details["citations"]}
    )
    return ChatResponse(message=message, delta=delta, raw=dict(details), additional_kwargs=more)


def _role(message: ChatMessage, at: int) -> str:
    role = "system" if message.role is MessageRole.DEVELOPER else message.role.value
    if role not in {"system", "user", "assistant"}:
        raise ValueError(f"messages.{at}: one of role {role} can't be sent; system, user and assistant can")
    return role


def _text(message: ChatMessage, at: int) -> str:
    unread = [block.block_type for block in message.blocks if not isinstance(block, TextBlock)]
    if unread and message.role is not MessageRole.ASSISTANT:
        raise ValueError(
            f"messages.{at}.blocks: a block of type {unread[0]!r} can't be sent; text can, and files are uploaded: see "
            "CitewireRetriever.add"
        )
    return message.content or ""
