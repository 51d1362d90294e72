"""Tools and formats of answers, as most clients give them: those of OpenAI's chat completions."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, StrictBool, StrictStr, Tag, model_validator

from citewire_http.api.schemas import RequestModel


def _is_function(kind: object) -> object:
    if kind == "custom":
        raise ValueError("must be function: custom tools aren't supported by every provider")
    return kind


class FunctionCall(BaseModel):
    """The called function."""

    name: StrictStr = Field(examples=["weather"])
    arguments: StrictStr = Field(description="JSON, as the model wrote it.", examples=['{"city": "Oslo"}'])


class ToolCallParam(BaseModel):
    """A tool call for the caller to run."""

    id: StrictStr = Field(examples=["call_0a1b2c"])
    type: Literal["function"]
    function: FunctionCall


class FunctionParam(RequestModel):
    """A function that the caller runs."""

    name: StrictStr = Field(examples=["weather"])
    description: StrictStr | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="JSON schema of its argument object.")
    strict: StrictBool | None = None


class ToolParam(RequestModel):
    """A tool."""

    type: Annotated[Literal["function"], BeforeValidator(_is_function)]
    function: FunctionParam


class FunctionName(RequestModel):
    """The function to call."""

    name: StrictStr


class NamedTool(RequestModel):
    """The one tool to call."""

    type: Annotated[Literal["function"], BeforeValidator(_is_function)]
    function: FunctionName


class JsonSchemaParam(RequestModel):
    """The form of a JSON answer."""

    name: StrictStr = Field(examples=["invoice"])
    description: StrictStr | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema", description="JSON schema, 2020-12.")
    strict: StrictBool | None = None


class ResponseFormat(RequestModel):
    """Whether the answer is JSON. Each annotation then has the value's JSON pointer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaParam | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema is required with the type json_schema, and has no meaning with others")
        return self


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("mode")] | Annotated[NamedTool, Tag("named")],
    Discriminator(lambda value: "mode" if isinstance(value, str) else "named"),
]
"""Whether tools are called, or the one that is."""


def check_choice(choice: object, tools: object) -> None:
    """Rejects a choice of tools if there are none."""
    if not tools and (choice == "required" or not isinstance(choice, str | None)):
        raise ValueError("tool_choice requires tools")
