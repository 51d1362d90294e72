"""How an operation is described in the OpenAPI document: its bodies, streams and errors, as arguments of its route."""

from typing import Any

from pydantic import BaseModel

from citewire_gateway.api import examples

Docs = dict[str, Any]

REF = "#/components/schemas/"
_KEY_PARAMETER: Docs = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "The same key with the same request is done once and answered the same, for 24 hours; with another "
    "request it is a 409.",
}


def operation_docs(
    response: Docs,
    *,
    body: type[BaseModel] | None = None,
    status: int = 200,
    key: bool = False,
    missing: bool = False,
    conflicts: bool = False,
    unavailable: bool = False,
    more: tuple[int, ...] = (),
) -> Docs:
    """Arguments of a route decorator."""
    statuses = {401, 422, *more}
    statuses |= {400, 413, 415} if body is not None else set()
    statuses |= {404} if missing else set()
    statuses |= {409} if conflicts else set()
    statuses |= {503} if unavailable else set()
    responses: dict[int, Docs] = {status: response} | {code: _problem(code) for code in sorted(statuses)}
    extra: Docs = {}
    if body is not None:
        schema = {"$ref": f"{REF}{body.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if key:
        extra["parameters"] = [_KEY_PARAMETER]
    return {"responses": responses, "openapi_extra": extra}


def json_docs(
    description: str,
    example: Docs,
    *,
    missing: bool = False,
    conflicts: bool = False,
    unavailable: bool = False,
    more: tuple[int, ...] = (),
) -> Docs:
    """An answer in JSON, shown by example."""
    return operation_docs(
        {"description": description, **json_content(example)},
        missing=missing,
        conflicts=conflicts,
        unavailable=unavailable,
        more=more,
    )


def body_docs(
    description: str, example: Docs, body: type[BaseModel], *, conflicts: bool = False, more: tuple[int, ...] = ()
) -> Docs:
    """An answer in JSON to a body in JSON."""
    return operation_docs(
        {"description": description, **json_content(example)}, body=body, conflicts=conflicts, more=more
    )


def deleted_docs(*, more: tuple[int, ...] = ()) -> Docs:
    """An answer without a body."""
    return operation_docs({"description": "It is gone."}, status=204, missing=True, more=more)


def json_content(example: Docs, schema: str | None = None) -> Docs:
    """A body in JSON, shown by example."""
    shape: Docs = {"$ref": f"{REF}{schema}"} if schema else {"type": "object"}
    return {"content": {"application/json": {"schema": shape, "example": example}}}


def event_stream(description: str, schema: str, example: str) -> Docs:
    """A stream of events, each of the shape of `schema`."""
    # OpenAPI 3.1 has no word for a stream's items: the schema is that of each frame's data.
    return {
        "text/event-stream": {
            "schema": {"type": "string", "description": description, "x-event-schema": {"$ref": f"{REF}{schema}"}},
            "example": example,
        }
    }


def _problem(status: int) -> Docs:
    schema = {"$ref": f"{REF}Problem"}
    return {"description": examples.PROBLEM_TITLES[status], "content": {"application/problem+json": {"schema": schema}}}
