"""A language model that answers from the caller's documents."""
# LlamaIndex's decorators are untyped:
# pyright: reportUnknownVariableType=false, reportUntypedFunctionDecorator=false

from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Final

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
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.program.streaming_utils import process_streaming_content_incremental
from llama_index.core.program.utils import FlexibleModel
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import BaseTool
from llama_index.core.types import Model, PydanticProgramMode

from citewire_client import AsyncCitewire
from citewire_client import Citewire as CitewireClient
from citewire_client.adapters import (
    AnswerReader,
    ChatSettings,
    GatewayConnection,
    answer_details,
    answer_format,
    chosen_tool,
)
from llama_index.llms.citewire.messages import keep_one_call, make_response, piece_of, read_question, selected_tools

_DEFAULT_NUM_OUTPUT = 1_024
_OF_PROGRAMS: Final = frozenset({"tool_required", "tool_choice", "allow_parallel_tool_calls"})
"""Arguments of LlamaIndex's programs that don't apply to an answer in JSON."""


class Citewire(FunctionCallingLLM):
    """Answers questions from the caller's documents.

    `additional_kwargs` of a response has `citations` (each verified sentence with its quote, verdict and place),
    `passages` (the passages given to the model), `uncited`, and the token counts.

    Example:
        ```python
        from llama_index.llms.citewire import Citewire

        answer = Citewire(collection="physics").complete("At how many degrees does water boil?")
        for citation in answer.additional_kwargs["citations"]:
            print(citation["verdict"], citation["quote"])
        ```
    """

    model: str = Field(
        default="grounded", description="A profile, optionally with a chat model: `grounded/openai/gpt-4.1`."
    )
    collection: str | None = Field(
        default=None, description="Answer only from this collection; none: from all documents that the caller may read."
    )
    document_ids: list[int] | None = Field(default=None, description="Answer only from these documents.")
    filter: Any = Field(
        default=None, description="Conditions on the documents' metadata, in the format of `POST /v1/chat`."
    )
    top_k: int | None = Field(default=None, description="Number of passages to retrieve; none: the profile's.")
    min_score: float | None = Field(default=None, description="Lowest cosine similarity of a passage.")
    max_tokens: int | None = Field(
        default=None, description="Maximum number of tokens in an answer; none: the profile's."
    )
    stop: list[str] = Field(default_factory=list, description="An answer ends where one of these texts begins.")
    options: dict[str, Any] = Field(default_factory=dict, description="Overrides for fields of the profile.")
    include: list[str] = Field(
        default_factory=lambda: ["citation"], description="Events to receive besides those that the profile shows."
    )
    conversation_id: str | None = Field(
        default=None, description="Continues a stored conversation: only the last message is sent."
    )
    keep: bool = Field(default=False, description="Whether to store question and answer if the profile does so.")
    grace_seconds: int | None = Field(
        default=None, description="How long generation continues after the reader has disconnected."
    )
    context_window: int = Field(default=32_768, description="Maximum number of tokens in LlamaIndex's prompts.")
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
        """Prepares a model; no request is sent.

        Args:
            model: A profile, optionally with a chat model: `grounded/openai/gpt-4.1`.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token; None: `CITEWIRE_API_KEY` if it is set.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.
            client: Your own client, which you close.
            async_client: Your own client, which you close; None: a new one for each call.
            **kwargs: The fields of this class, and LlamaIndex's, such as `system_prompt` and `callback_manager`.

        Raises:
            ValueError: An argument isn't a field of this class.
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
        """The name by which LlamaIndex identifies the class."""
        return "Citewire"

    @property
    def metadata(self) -> LLMMetadata:
        """The properties of the model for LlamaIndex."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or _DEFAULT_NUM_OUTPUT,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=self.model,
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answers the last message of a conversation."""
        arguments, reader, stop = self._asked(messages, kwargs)
        if not stop:
            answer = self._gateway.blocking.chat(**arguments)
            return make_response(answer.answer, answer_details(answer, reader.details["model"]))
        with self._gateway.blocking.stream_chat(**arguments) as events:
            for event in events:
                reader.read(event)
                if reader.is_over:
                    break
        return make_response(reader.text, reader.details)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Streams the answer to the last message; the last response has all citations."""
        arguments, reader, _ = self._asked(messages, kwargs)

        def pieces() -> ChatResponseGen:
            with self._gateway.blocking.stream_chat(**arguments) as events:
                for event in events:
                    if (response := piece_of(reader, event)) is not None:
                        yield response
                    if reader.is_over:
                        return

        return pieces()

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The asynchronous form of `chat`."""
        arguments, reader, stop = self._asked(messages, kwargs)
        async with self._gateway.awaiting() as client:
            if not stop:
                answer = await client.chat(**arguments)
                return make_response(answer.answer, answer_details(answer, reader.details["model"]))
            async with client.stream_chat(**arguments) as events:
                async for event in events:
                    reader.read(event)
                    if reader.is_over:
                        break
        return make_response(reader.text, reader.details)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """The asynchronous form of `stream_chat`."""
        arguments, reader, _ = self._asked(messages, kwargs)

        async def pieces() -> ChatResponseAsyncGen:
            async with self._gateway.awaiting() as client, client.stream_chat(**arguments) as events:
                async for event in events:
                    if (response := piece_of(reader, event)) is not None:
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
        """Streams the answer to a question."""
        return stream_chat_to_completion_decorator(self.stream_chat)(prompt, **kwargs)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The asynchronous form of `complete`."""
        return await achat_to_completion_decorator(self.achat)(prompt, **kwargs)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """The asynchronous form of `stream_complete`."""
        return await astream_chat_to_completion_decorator(self.astream_chat)(prompt, **kwargs)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The tool calls of an answer; during streaming, with the arguments received so far.

        Raises:
            ValueError: There are none, and `error_on_no_tool_call` is set.
        """
        selected = selected_tools(response.message)
        if not selected and error_on_no_tool_call:
            raise ValueError("the model called no tool")
        return selected

    def structured_predict(
        self,
        output_cls: type[Model],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """Answers with an object of a Pydantic class, as JSON with its schema unless the program's mode differs.

        The object has no citations: `chat(…, response_format=output_cls)` returns JSON with a citation for each value.

        Raises:
            ValueError: There is no answer in this format; the message says why.
        """
        if self.pydantic_program_mode is not PydanticProgramMode.DEFAULT:
            return super().structured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
        messages, told = self._structured(output_cls, prompt, llm_kwargs, prompt_args)
        return _object(self.chat(messages, **told), output_cls)

    async def astructured_predict(
        self,
        output_cls: type[Model],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """The asynchronous form of `structured_predict`."""
        if self.pydantic_program_mode is not PydanticProgramMode.DEFAULT:
            return await super().astructured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
        messages, told = self._structured(output_cls, prompt, llm_kwargs, prompt_args)
        return _object(await self.achat(messages, **told), output_cls)

    def _structured_stream_call(
        self,
        output_cls: type[Model],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Generator[Model | list[Model] | FlexibleModel | list[FlexibleModel], None, None]:
        if self.pydantic_program_mode is not PydanticProgramMode.DEFAULT:
            yield from super()._structured_stream_call(output_cls, prompt, llm_kwargs, **prompt_args)
            return
        messages, told = self._structured(output_cls, prompt, llm_kwargs, prompt_args)
        partial: Model | FlexibleModel | None = None
        for response in self.stream_chat(messages, **told):
            _require_answer(response)
            partial = process_streaming_content_incremental(response, output_cls, partial)
            yield partial

    async def _structured_astream_call(
        self,
        output_cls: type[Model],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> AsyncGenerator[Model | list[Model] | FlexibleModel | list[FlexibleModel], None]:
        if self.pydantic_program_mode is not PydanticProgramMode.DEFAULT:
            return await super()._structured_astream_call(output_cls, prompt, llm_kwargs, **prompt_args)
        messages, told = self._structured(output_cls, prompt, llm_kwargs, prompt_args)

        async def partials() -> AsyncGenerator[Model | list[Model] | FlexibleModel | list[FlexibleModel], None]:
            partial: Model | FlexibleModel | None = None
            async for response in await self.astream_chat(messages, **told):
                _require_answer(response)
                partial = process_streaming_content_incremental(response, output_cls, partial)
                yield partial

        return partials()

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: str | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The arguments of a chat with tools.

        Args:
            tools: LlamaIndex's tools.
            user_msg: The message after the history.
            chat_history: Oldest message first.
            verbose: LlamaIndex's option; nothing is printed here.
            allow_parallel_tool_calls: False allows only one call at a time.
            tool_required: Whether a tool must be called.
            tool_choice: `auto`, `none`, `required`, a tool's name, or OpenAI's format.
            **kwargs: Other fields of this model to set for this question.

        Raises:
            ValueError: There is no tool with that name.
        """
        messages = list(chat_history or [])
        if user_msg is not None:
            messages.append(ChatMessage(content=user_msg) if isinstance(user_msg, str) else user_msg)
        forms = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        if not forms:
            return {"messages": messages, **kwargs}
        names = [form["function"]["name"] for form in forms]
        choice = chosen_tool(tool_choice or ("required" if tool_required else None), names)
        only_one = {} if allow_parallel_tool_calls else {"parallel_tool_calls": False}
        return {"messages": messages, "tools": forms, "tool_choice": choice, **only_one, **kwargs}

    def _validate_chat_with_tools_response(
        self,
        response: ChatResponse,
        tools: Sequence[BaseTool],
        allow_parallel_tool_calls: bool = False,
        **kwargs: Any,
    ) -> ChatResponse:
        return response if allow_parallel_tool_calls else keep_one_call(response)

    def _structured(
        self,
        output_cls: type[Model],
        prompt: PromptTemplate,
        told: dict[str, Any] | None,
        prompt_args: dict[str, Any],
    ) -> tuple[list[ChatMessage], dict[str, Any]]:
        """The messages and arguments of a chat whose answer is an object."""
        messages = self._extend_messages(prompt.format_messages(llm=self, **prompt_args))
        more = {name: value for name, value in (told or {}).items() if name not in _OF_PROGRAMS}
        return messages, more | {"response_format": output_cls}

    def _asked(
        self, messages: Sequence[ChatMessage], told: dict[str, Any]
    ) -> tuple[dict[str, Any], AnswerReader, list[str]]:
        """The arguments of a chat, the reader of its events, and the stop sequences.

        Raises:
            ValueError: A message can't be sent, or an argument isn't a field of this model.
        """
        names = ChatSettings.__dataclass_fields__
        unknown = sorted(told.keys() - {*names, "stop"})
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)} can't be set here; the available fields are {', '.join(names)}, stop"
            )
        told = dict(told)
        stop: list[str] = told.pop("stop", None) or self.stop
        fields: dict[str, Any] = {name: getattr(self, name, None) for name in names} | told
        fields["keep"] = None if fields["keep"] else False
        fields["response_format"] = answer_format(fields["response_format"])
        arguments = ChatSettings(**fields).arguments(read_question(messages))
        return arguments, AnswerReader(fields["model"], stop), stop


def _require_answer(response: ChatResponse) -> None:
    """Raises ValueError with the reason if there is no answer in the requested format."""
    refusal: object = response.additional_kwargs.get("refusal")  # pyright: ignore[reportUnknownMemberType] # a dictionary without types
    if refusal:
        raise ValueError(f"there is no answer in this form: {refusal}")


def _object(response: ChatResponse, output_cls: type[Model]) -> Model:
    _require_answer(response)
    return output_cls.model_validate_json(response.message.content or "")
