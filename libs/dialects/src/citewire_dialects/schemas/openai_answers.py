"""Answers of OpenAI's chat completions, as its clients read them."""

from typing import Literal

from pydantic import MISSING, Field

from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_dialects.schemas.tools import ToolCallParam
from citewire_http.api.schemas import Count, OpenAiError, ResponseModel


class UrlCitation(ResponseModel):
    """A marker's position in the text, and its target."""

    start_index: Count = Field(examples=[20])
    end_index: Count = Field(examples=[27])
    url: str = Field(examples=["http://127.0.0.1:8080/v1/documents/7/content?version=1#page=3"])
    title: str = Field(examples=["report.pdf § Results"])


class Annotation(ResponseModel):
    """A citation as OpenAI's clients read it."""

    citewire: VerifiedCitation | MISSING = Field(
        default=MISSING, description="Of a verified sentence; OpenAI's clients pass it through."
    )
    type: Literal["url_citation"]
    url_citation: UrlCitation


class PromptTokensDetails(ResponseModel):
    """Details of the prompt's tokens."""

    cached_tokens: Count = Field(description="Tokens that the provider read from its cache.", examples=[640])


class CompletionUsage(ResponseModel):
    """Tokens of the chat model."""

    prompt_tokens: Count = Field(examples=[812])
    completion_tokens: Count = Field(examples=[44])
    total_tokens: Count = Field(examples=[856])
    prompt_tokens_details: PromptTokensDetails


class AnswerMessage(ResponseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str = Field(
        description="Empty if there is a refusal, or only tool calls.",
        examples=["Revenue grew by 12 %[ref:1]."],
    )
    refusal: str | None = Field(description="With `response_format`: why there is no JSON.", examples=[None])
    annotations: list[Annotation]
    tool_calls: list[ToolCallParam] | MISSING = MISSING


class CompletionChoice(ResponseModel):
    """The only choice."""

    index: Count = Field(examples=[0])
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"]


class Completion(ResponseModel):
    """A chat completion."""

    id: str = Field(examples=["chatcmpl-0a1b2c"])
    created: Count = Field(examples=[1768470000])
    model: str = Field(examples=["grounded"])
    object: Literal["chat.completion"]
    choices: list[CompletionChoice]
    usage: CompletionUsage


class FunctionChunk(ResponseModel):
    """The next fragment of a call's function."""

    name: str | MISSING = Field(default=MISSING, description="Only in a call's first delta.", examples=["weather"])
    arguments: str = Field(examples=['{"ci'])


class ToolCallChunk(ResponseModel):
    """The next fragment of a tool call."""

    index: Count = Field(examples=[0])
    id: str | MISSING = Field(default=MISSING, description="Only in a call's first delta.", examples=["call_0a1b2c"])
    type: Literal["function"] | MISSING = MISSING
    function: FunctionChunk


class Delta(ResponseModel):
    """The new part."""

    role: Literal["assistant"] | MISSING = MISSING
    content: str | MISSING = Field(default=MISSING, examples=["Revenue grew"])
    refusal: str | MISSING = Field(default=MISSING, description="With `response_format`: why there is no JSON.")
    tool_calls: list[ToolCallChunk] | MISSING = MISSING
    annotations: list[Annotation] | MISSING = Field(default=MISSING, description="On the last delta with a choice.")


class ChunkChoice(ResponseModel):
    """The only choice."""

    index: Count = Field(examples=[0])
    delta: Delta
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"] | None = Field(examples=[None])


class CompletionChunk(ResponseModel):
    """A chunk of a chat completion."""

    id: str = Field(examples=["chatcmpl-0a1b2c"])
    created: Count = Field(examples=[1768470000])
    model: str = Field(examples=["grounded"])
    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
    usage: CompletionUsage | MISSING | None = Field(
        default=MISSING,
        description="With `include_usage`: null, and on the last chunk, which has no choice, the tokens.",
    )


class CompletionFault(ResponseModel):
    """The end of a stream that failed."""

    error: OpenAiError


COMPLETION_STREAM = (CompletionChunk, CompletionFault)
