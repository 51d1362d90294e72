"""Many operations in one request, done one after another: each has its own result, error and idempotency key."""

import binascii
import hashlib
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, StrictStr, WithJsonSchema, model_validator

from citewire_http.api.parameters import MAX_KEY
from citewire_http.api.problems import problem_json
from citewire_http.api.schemas import MAX_ID, Problem, RequestModel
from citewire_kit.audit import note
from citewire_kit.audit_events import Action, Outcome
from citewire_kit.errors import CitewireError, FieldViolation

MAX_OPERATIONS: Final = 100
_MAKING: Final = ("create", "replace")
_MOST_NUMBERED: Final = MAX_KEY - len(f" {MAX_OPERATIONS - 1}")
"""Characters of a request's key that leave room for the number of an operation."""


def _decode(value: object) -> bytes:
    try:
        return b64decode(value if isinstance(value, str) else "*", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueError("must be base64") from exc


Base64 = Annotated[
    bytes, BeforeValidator(_decode), WithJsonSchema({"type": "string", "contentEncoding": "base64", "minLength": 1})
]
"""Bytes in a JSON body."""
Key = Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY, pattern=r"^[\x20-\x7e]+$")]


class Operation(RequestModel):
    """One change."""

    op: Literal["create", "replace", "update", "retry", "delete"]
    id: Annotated[int, Field(strict=True, ge=1, le=MAX_ID)] | None = Field(
        default=None, description="The document; not for `create`."
    )
    key: Key | None = Field(default=None, description="For `create` and `replace`: this operation's Idempotency-Key.")
    document: dict[str, Any] | None = Field(
        default=None,
        description="For `create` and `replace`: the body of `POST /v1/documents`; with `file_name`, a small file "
        "whose `content` is base64. For `update`: the body of `PATCH /v1/documents/{document_id}`.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.id is None) is not (self.op == "create"):
            raise ValueError(f"`id` {'must be absent' if self.op == 'create' else 'is required'} for {self.op}")
        if (self.document is None) is not (self.op in ("retry", "delete")):
            raise ValueError(f"`document` {'is required' if self.document is None else 'must be absent'} for {self.op}")
        return self


class Batch(RequestModel):
    """The changes, in order."""

    operations: Annotated[list[Operation], Field(min_length=1, max_length=MAX_OPERATIONS)]

    def keyed(self, key: str | None) -> list[Operation]:
        """Returns the operations; those without their own key get one derived from the request's."""
        if key is None:
            return self.operations
        # Cut short, two long keys that begin alike would be one.
        short = key if len(key) <= _MOST_NUMBERED else hashlib.sha256(key.encode()).hexdigest()
        numbered = (f"{short} {number}" for number in range(MAX_OPERATIONS))
        return [
            operation if operation.key else operation.model_copy(update={"key": name})
            for operation, name in zip(self.operations, numbered, strict=False)
        ]


async def attempt(
    number: int, operation: Operation, do: Callable[[Operation], Awaitable[None]]
) -> tuple[int, Problem | None]:
    """Performs one operation and records it in the audit trail; returns its status, and its error for the client."""
    action, objects = Action(f"document.{operation.op}"), [f"document:{operation.id}"] if operation.id else []
    try:
        await do(operation)
    except CitewireError as error:
        at = f"operations.{number}.document."
        error.violations = tuple(FieldViolation(at + wrong.field, wrong.message) for wrong in error.violations)
        problem = Problem(**problem_json(error))
        outcome = Outcome.REFUSED if problem.status in (402, 403, 429) else Outcome.FAILED
        note(action, *objects, outcome=outcome, reason=error.reason)
        return problem.status, problem
    note(action, *objects)
    return {"update": 200, "delete": 204}.get(operation.op, 202), None
