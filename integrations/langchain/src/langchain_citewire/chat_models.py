"""A chat model that answers from an organisation's documents and verifies the citation of each sentence."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, closing
from operator import itemgetter
from typing import Any, Literal, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, ConfigDict, Field

from citewire_client import models
from citewire_client.adapters import ChatSettings, StopSequences, chosen_tool
from langchain_citewire.chunks import AnswerChunks
from langchain_citewire.connection import GatewayConnection
from langchain_citewire.messages import PROVIDER, answer_message, read_question


class ChatCitewire(GatewayConnection, BaseChatModel):
    """Answers questions from the caller's documents.

    `additional_kwargs` of an answer has `citations` (each verified sentence with its quote, in LangChain's own format,
    which `content_blocks` shows as annotations), `passages` (the passages given to the model) and `uncited`;
    `response_metadata` has the rest.

    Example:
        ```python
        from langchain_citewire import ChatCitewire

        answer = ChatCitewire(collection="physics").invoke("At how many degrees does water boil?")
        for citation in answer.additional_kwargs["citations"]:
            print(citation["extras"]["verdict"], citation["cited_text"])
        ```
    """

    model_config = ConfigDict(extra="forbid")

    model: str = Field(default="grounded", alias="model_name")
    """A profile, optionally with a chat model: `grounded/openai/gpt-4.1`."""
    collection: str | None = None
    """Answer only from this collection; none: from all documents that the caller may read."""
    document_ids: list[int] | None = None
    """Answer only from these documents."""
    filter: Any = None
    """Conditions on the documents' metadata, in the format of `POST /v1/chat`."""
    top_k: int | None = None
    """Number of passages to retrieve; none: the profile's."""
    min_score: float | None = None
    """Lowest cosine similarity of a passage; none: the profile's."""
    max_tokens: int | None = None
    """Maximum number of tokens in an answer; none: the profile's."""
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    """An answer ends where one of these texts begins. It keeps the citations up to that point."""
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Overrides for fields of the profile, such as `answer_language`."""
    include: list[str] = Field(default_factory=lambda: ["citation"])
    """Events to receive besides those that the profile shows: `citation`, `uncited`, `assessment`, `step`, `cost`."""
    conversation_id: str | None = None
    """Continues a conversation stored in the gateway: only the last message is sent. None: all messages are sent,
    and nothing is stored unless `keep` is set."""
    keep: bool = False
    """Whether to store question and answer if the profile does so; false: never."""
    streaming: bool = False
    """Whether `invoke` also reads a stream, so that callbacks receive each chunk."""
    grace_seconds: int | None = None
    """How long generation continues after the reader has disconnected. A broken connection is reopened."""

    @property
    def _llm_type(self) -> str:
        return "chat-citewire"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, "collection": self.collection}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(
            ls_provider=PROVIDER, ls_model_name=str(kwargs.get("model", self.model)), ls_model_type="chat"
        )
        if (limit := kwargs.get("max_tokens", self.max_tokens)) is not None:
            params["ls_max_tokens"] = limit
        if sequences := stop or self.stop:
            params["ls_stop"] = sequences
        return params

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if stop or self.stop:  # also stops the model
            with closing(self._stream(messages, stop, run_manager, **kwargs)) as chunks:
                return generate_from_stream(chunks)
        settings = self._settings(kwargs)
        return _result(self.gateway.blocking.chat(**settings.arguments(read_question(messages))), settings.model)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if stop or self.stop:
            async with aclosing(self._astream(messages, stop, run_manager, **kwargs)) as chunks:
                return await agenerate_from_stream(chunks)
        settings = self._settings(kwargs)
        arguments = settings.arguments(read_question(messages))
        async with self.gateway.awaiting() as client:
            return _result(await client.chat(**arguments), settings.model)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Generator[ChatGenerationChunk]:
        settings = self._settings(kwargs)
        arguments = settings.arguments(read_question(messages))
        answer = AnswerChunks(settings.model, StopSequences(stop or self.stop or ()))
        with self.gateway.blocking.stream_chat(**arguments) as events:
            for event in events:
                for chunk in answer.read(event):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
                if answer.is_over:
                    return

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        settings = self._settings(kwargs)
        arguments = settings.arguments(read_question(messages))
        answer = AnswerChunks(settings.model, StopSequences(stop or self.stop or ()))
        async with self.gateway.awaiting() as client, client.stream_chat(**arguments) as events:
            async for event in events:
                for chunk in answer.read(event):
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
                if answer.is_over:
                    return

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Gives the model tools that the caller runs; answers still come from the documents.

        Args:
            tools: In any form that LangChain accepts.
            tool_choice: `auto`, `none`, `any` (one must be called), or a tool's name.
            parallel_tool_calls: False allows only one call at a time, if the provider supports that.
            strict: Whether arguments must follow the tool's schema, if the provider supports that.
            **kwargs: Other fields of this model to set for these questions.
        """
        forms = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        names = [form["function"]["name"] for form in forms]
        return self.bind(
            tools=forms,
            tool_choice=chosen_tool(tool_choice, names),
            parallel_tool_calls=parallel_tool_calls,
            **kwargs,
        )

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: Literal["json_schema", "function_calling", "json_mode"] = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Answers with data that follows a schema.

        Each value is verified like a sentence: with `include_raw`, `raw.additional_kwargs["citations"]` has the
        citations, each with the value's `pointer` in its `extras`.

        Args:
            schema: A Pydantic class, a TypedDict, or a JSON schema.
            method: `json_schema` and `json_mode` ask for JSON, which only the first guarantees to follow the schema;
                `function_calling` passes the data as the arguments of a tool, without citations.
            include_raw: Returns `raw`, `parsed` and `parsing_error`.
            strict: Whether the schema is in OpenAI's strict subset.
            **kwargs: Other fields of this model to set for these questions.

        Raises:
            ValueError: The method doesn't exist.
        """
        told: dict[str, Any] = {
            "kwargs": {"method": method, "strict": strict},
            "schema": convert_to_json_schema(schema),
        }
        is_class = isinstance(schema, type) and is_basemodel_subclass(schema)
        parser: Runnable[Any, Any]
        if method == "function_calling":
            bound = self.bind_tools(
                [schema], tool_choice="any", strict=strict, ls_structured_output_format=told, **kwargs
            )
            name = convert_to_openai_tool(schema)["function"]["name"]
            if is_class:
                parser = PydanticToolsParser(tools=[cast("type[BaseModel]", schema)], first_tool_only=True)
            else:
                parser = JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        elif method in {"json_schema", "json_mode"}:
            form = _format(schema, strict=strict) if method == "json_schema" else {"type": "json_object"}
            bound = self.bind(response_format=form, ls_structured_output_format=told, **kwargs)
            parser = RunnableLambda(_unless_refused) | (
                PydanticOutputParser(pydantic_object=cast("type[BaseModel]", schema))
                if is_class
                else JsonOutputParser()
            )
        else:
            raise ValueError(f"method: must be json_schema, function_calling or json_mode, not {method!r}")
        if not include_raw:
            return bound | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        unparsed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=bound) | parsed.with_fallbacks([unparsed], exception_key="parsing_error")

    def _settings(self, told: dict[str, Any]) -> ChatSettings:
        """The settings for one question: this model's fields with the overrides in `told`.

        Raises:
            ValueError: An argument isn't a field of this model.
        """
        names = ChatSettings.__dataclass_fields__
        unknown = sorted(told.keys() - names.keys())
        if unknown:
            raise ValueError(f"{', '.join(unknown)} can't be set here; the available fields are {', '.join(names)}")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names.keys() & type(self).model_fields} | told
        fields["keep"] = None if fields["keep"] else False
        return ChatSettings(**fields)


def _result(answer: models.ChatAnswer, model: str) -> ChatResult:
    message = answer_message(answer, model)
    generation = ChatGeneration(message=message, generation_info={"finish_reason": answer.finish_reason})
    return ChatResult(generations=[generation], llm_output={"model_name": model})


def _format(schema: dict[str, Any] | type, *, strict: bool | None) -> dict[str, Any]:
    """The response format for an answer that follows a schema."""
    function = convert_to_openai_tool(schema, strict=strict)["function"]
    form: dict[str, Any] = {"name": function["name"], "schema": function["parameters"]}
    if function.get("description"):
        form["description"] = function["description"]
    return {"type": "json_schema", "json_schema": form | ({} if strict is None else {"strict": strict})}


def _unless_refused(message: AIMessage) -> AIMessage:
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        raise OutputParserException(f"there is no answer in this form: {refusal}")
    return message
