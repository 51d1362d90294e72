"""What all bodies share: their base classes, the types of their fields, and what errors look like."""

import json
import re
from typing import Annotated, Any, TypeVar

from google.protobuf.message import Message
from pydantic import MISSING, AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from citewire_http.api.reading import ReadableModel

M = TypeVar("M", bound=Message)

MAX_ID = 2**53 - 1
"""Largest id of a document or chunk: what a JavaScript number holds exactly."""

SCHEMA_VERSION = 2
"""Of what is stored in the form of these schemas. 1 stands nowhere: it is what releases before wrote."""


class RequestModel(BaseModel):
    """What a client sends. Unknown fields are refused: a misspelt option is an error, not ignored."""

    model_config = ConfigDict(extra="forbid")

    def to_message(self, message_type: type[M], **fields: Any) -> M:  # noqa: ANN401 # fields of any message
        """Returns a message of the fields that it has by the same name; `fields` are beyond them, or instead."""
        shared = set(message_type.DESCRIPTOR.fields_by_name) & type(self).model_fields.keys() - fields.keys()
        return message_type(**{name: getattr(self, name) for name in shared}, **fields)


class ResponseModel(ReadableModel):
    """What the API sends. A field that is `MISSING` is left out, one that is None is null."""

    model_config = ConfigDict(frozen=True)

    def members(self) -> dict[str, Any]:
        """Returns it as JSON's values."""
        return self.model_dump(mode="json", by_alias=True)

    def frame(self) -> str:
        """Returns the line `data:` of a frame, with the empty line that ends it."""
        return f"data: {json.dumps(self.members(), ensure_ascii=False)}\n\n"

    def stored(self) -> dict[str, Any]:
        """Returns it as it is stored: JSON's values, and the version of their form."""
        return {"schema_version": SCHEMA_VERSION} | self.members()


# Of what is sent, only the schema has bounds: what the services say is not checked twice.
Id = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_ID})]
Count = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0})]
Ratio = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
Rounded = Annotated[float, AfterValidator(lambda score: round(score, 6))]
"""A score with six digits: what follows is noise of 32-bit vectors."""
Uuid = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A moment as RFC 3339, in UTC."""
Second = Annotated[Time, AfterValidator(lambda moment: re.sub(r"\.\d+", "", moment))]
"""The same, to the second."""

JsonObject = dict[str, Any]


class FieldError(ResponseModel):
    """A field of a request that is wrong."""

    field: str = Field(examples=["top_k"])
    message: str = Field(examples=["must be between 1 and 50 in profile documents"])


class OpenAiError(ResponseModel):
    """An error as clients of compatible APIs read it."""

    message: str
    type: str
    param: str | None
    code: str


class Problem(ResponseModel):
    """RFC 9457. `reason` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["https://citewire.dev/errors/invalid-field"], json_schema_extra={"format": "uri"})
    title: str = Field(examples=["The request is not valid"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["top_k: must be between 1 and 50 in profile documents"])
    reason: str = Field(description="A stable code in upper case.", examples=["INVALID_FIELD"])
    errors: list[FieldError]
    types: list[str] | MISSING = Field(
        default=MISSING, description="Of `PROVIDER_MISSING`: which providers are missing."
    )
    budget: str | MISSING = Field(default=MISSING, description="Of `BUDGET_EXCEEDED`: which budget is spent.")
    resets_at: str | MISSING = Field(default=MISSING, description="When it begins anew.")
    provider: str | MISSING = Field(default=MISSING, description="Of a provider's failure: which, and its `model`.")
    model: str | MISSING = MISSING
    scope: str | MISSING = Field(default=MISSING, description="Of `SCOPE_MISSING`: the scope that this needs.")
    limit: str | MISSING = Field(
        default=MISSING,
        description="Of `RATE_LIMITED` and `STORAGE_FULL`: which limit, by measure and scope.",
        examples=["requests-user"],
    )
    quota: int | MISSING = Field(default=MISSING, description="What it allows.")
    window_seconds: int | MISSING = Field(default=MISSING, description="In which time; absent: at every moment.")
    used: int | MISSING = Field(default=MISSING, description="Of `STORAGE_FULL`: bytes that are stored.")
    size_bytes: int | MISSING = Field(default=MISSING, description="Of `STORAGE_FULL`: bytes of what was refused.")
    limit_usd: float | MISSING = MISSING
    left_usd: float | MISSING = MISSING
    request_id: str = Field(examples=["0193a1b2c3d4"])
    error: OpenAiError | MISSING = Field(default=MISSING, description="On the routes of OpenAI's clients.")


class Nothing(ResponseModel):
    """No members: the event's name says it all."""
