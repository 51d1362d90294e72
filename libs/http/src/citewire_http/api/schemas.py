"""Shared by all bodies: their base classes, the types of their fields, and the format of errors."""

import json
import re
from typing import Annotated, Any, TypeVar

from google.protobuf.message import Message
from pydantic import MISSING, AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from citewire_http.api.reading import ReadableModel
from citewire_kit.nesting import MAX_METADATA_NESTING, is_deeper

M = TypeVar("M", bound=Message)

MAX_ID = 2**53 - 1
"""Largest id of a document or chunk: what a JavaScript number holds exactly."""

SCHEMA_VERSION = 2
"""Version of data stored in the form of these schemas. Version 1 isn't marked: earlier releases wrote it."""


class RequestModel(BaseModel):
    """A request body. Unknown fields are rejected, so that a misspelt option isn't ignored."""

    model_config = ConfigDict(extra="forbid")

    def to_message(self, message_type: type[M], **fields: Any) -> M:  # noqa: ANN401 # fields of any message
        """Returns a message with the fields of the same name; `fields` are added or take precedence."""
        shared = set(message_type.DESCRIPTOR.fields_by_name) & type(self).model_fields.keys() - fields.keys()
        return message_type(**{name: getattr(self, name) for name in shared}, **fields)


class ResponseModel(ReadableModel):
    """A response body. Fields that are `MISSING` are left out, and None becomes null."""

    model_config = ConfigDict(frozen=True)

    def members(self) -> dict[str, Any]:
        """Returns it as JSON's values."""
        return self.model_dump(mode="json", by_alias=True)

    def frame(self) -> str:
        """Returns the `data:` line of a frame, with the empty line at its end."""
        return f"data: {json.dumps(self.members(), ensure_ascii=False)}\n\n"

    def stored(self) -> dict[str, Any]:
        """Returns it for storage: JSON values with the version of their form."""
        return {"schema_version": SCHEMA_VERSION} | self.members()


# For responses, only the schema has bounds: values from the services aren't checked twice.
Id = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_ID})]
Count = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0})]
Ratio = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
Rounded = Annotated[float, AfterValidator(lambda score: round(score, 6))]
"""A score with six digits: further ones are noise of 32-bit vectors."""
Uuid = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time as RFC 3339, in UTC."""
Second = Annotated[Time, AfterValidator(lambda moment: re.sub(r"\.\d+", "", moment))]
"""The same, to the second."""

JsonObject = dict[str, Any]


def _check_nesting(value: JsonObject) -> JsonObject:
    if is_deeper(value, MAX_METADATA_NESTING):
        raise ValueError(f"must be nested at most {MAX_METADATA_NESTING} levels deep")
    return value


FlatObject = Annotated[JsonObject, AfterValidator(_check_nesting)]
"""An object that is passed on to a service."""


class FieldError(ResponseModel):
    """An invalid field of a request."""

    field: str = Field(examples=["top_k"])
    message: str = Field(examples=["must be between 1 and 50 in profile documents"])


class OpenAiError(ResponseModel):
    """An error as clients of compatible APIs read it."""

    message: str
    type: str
    param: str | None
    code: str


class Problem(ResponseModel):
    """RFC 9457 problem. `reason` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["https://citewire.dev/errors/invalid-field"], json_schema_extra={"format": "uri"})
    title: str = Field(examples=["The request is not valid"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["top_k: must be between 1 and 50 in profile documents"])
    reason: str = Field(description="A stable code in upper case.", examples=["INVALID_FIELD"])
    errors: list[FieldError]
    types: list[str] | MISSING = Field(default=MISSING, description="For `PROVIDER_MISSING`: the missing providers.")
    budget: str | MISSING = Field(default=MISSING, description="For `BUDGET_EXCEEDED`: the budget that is used up.")
    resets_at: str | MISSING = Field(default=MISSING, description="When the budget's next period begins.")
    provider: str | MISSING = Field(default=MISSING, description="For provider errors: the provider, with its `model`.")
    model: str | MISSING = MISSING
    scope: str | MISSING = Field(default=MISSING, description="For `SCOPE_MISSING`: the required scope.")
    limit: str | MISSING = Field(
        default=MISSING,
        description="For `RATE_LIMITED` and `STORAGE_FULL`: the limit, by measure and scope.",
        examples=["requests-user"],
    )
    quota: int | MISSING = Field(default=MISSING, description="What the limit allows.")
    window_seconds: int | MISSING = Field(
        default=MISSING, description="The period; absent: the limit applies at any time."
    )
    used: int | MISSING = Field(default=MISSING, description="For `STORAGE_FULL`: stored bytes.")
    size_bytes: int | MISSING = Field(
        default=MISSING, description="For `STORAGE_FULL`: size of the rejected upload in bytes."
    )
    limit_usd: float | MISSING = MISSING
    left_usd: float | MISSING = MISSING
    request_id: str = Field(examples=["0193a1b2c3d4"])
    error: OpenAiError | MISSING = Field(default=MISSING, description="Only on routes for OpenAI's clients.")


class Nothing(ResponseModel):
    """No fields: the event's name is enough."""
