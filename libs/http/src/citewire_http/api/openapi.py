"""The OpenAPI document: what FastAPI finds out, and what it can't: bodies, streams, errors and keys."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Response
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from citewire_http.api.schemas import Problem
from citewire_http.bodies import JsonBody

Docs = dict[str, Any]
Events = Mapping[str, type[BaseModel]] | tuple[type[BaseModel], ...]
"""Events of a stream: by name, or if frames have no names, the models of their data."""

REF = "#/components/schemas/"
_PROBLEMS = {
    400: "The body can't be read (reason `INVALID_JSON`), or a provider is missing (`PROVIDER_MISSING`, with `types`).",
    401: "The API key, token or session is missing, unknown, revoked or expired, or the sign-in failed.",
    402: "A budget is used up: `budget`, `limit_usd`, `left_usd` and `resets_at` have the details.",
    403: "The caller's role doesn't allow this, or the key lacks the required scope, which `scope` names.",
    404: "Something that the request names doesn't exist in the caller's scope.",
    409: "The request conflicts with the current state.",
    413: "The body is larger than the limit.",
    415: "The media type isn't supported here.",
    422: "A field is out of range; `errors` names each.",
    429: "A limit of the caller's plan is reached: `limit` and `quota` name it; retry after `Retry-After`.",
    503: "A component is unavailable or full; retry after `Retry-After`.",
    507: "The plan's storage is used up (`STORAGE_FULL`): `limit`, `quota`, `used` and `size_bytes` have the details.",
}


@dataclass(frozen=True, slots=True)
class Description:
    """Parts of an API that FastAPI can't determine."""

    tags: list[dict[str, Any]]
    streams: Mapping[str, tuple[Events, bool]]
    """Events of streams by the name of their schema, and whether frames have an `id`."""
    forms: tuple[type[BaseModel], ...]
    """Bodies that routes read themselves."""
    callers: tuple[tuple[Callable[..., object], Docs], ...]
    """Authentication schemes by name, for each dependency of routes that need a caller."""


def problems(*statuses: int) -> dict[int | str, Docs]:
    """Returns the errors of an operation as an argument of its route; those of keys and bodies are always added."""
    content = {"application/problem+json": {"schema": {"$ref": f"{REF}Problem"}}}
    return {status: {"description": _PROBLEMS[status], "content": content} for status in statuses}


def deleted(*statuses: int) -> Docs:
    """Returns the arguments of a route that deletes something and returns no body."""
    description = {"response_description": "Deleted or removed."}
    return {"status_code": 204, "response_class": Response, "responses": problems(*statuses), **description}


def streamed(name: str, description: str, *statuses: int) -> Docs:
    """Returns the arguments of a route that returns a stream, whose frames follow the schema `name`."""
    responses = {200: {"content": event_stream(name, description)}, **problems(*statuses)}
    return {"response_class": Response, "response_description": "A stream.", "responses": responses}


def event_stream(name: str, description: str, **dialects: str) -> Docs:
    """Returns the content of a streamed response, whose frames follow the schema `name`, or that of a dialect."""
    schema = _text_of(f"{REF}{name}") | {"description": description}
    for dialect, other in dialects.items():
        schema[f"x-event-schema-{dialect.replace('_', '-')}"] = {"$ref": f"{REF}{other}"}
    return {"text/event-stream": {"schema": schema}}


def install(app: FastAPI, routers: Sequence[APIRouter], described: Description) -> None:
    """Makes `app.openapi()` return the complete document of the routers."""

    def openapi() -> Docs:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app, routers, described)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way


def _build(app: FastAPI, routers: Sequence[APIRouter], described: Description) -> Docs:
    routes = [
        route
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
    ]
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=described.tags
    )
    schemas: Docs = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own error body, which isn't used here
        schemas.pop(name, None)
    _, definitions = models_json_schema(
        [
            (Problem, "serialization"),
            *((model, "serialization") for events, _ in described.streams.values() for model in _models(events)),
            *((body, "validation") for route in routes for body in _bodies(route.dependant)),
            *((model, "validation") for model in described.forms),
        ],
        ref_template=f"{REF}{{model}}",
    )
    for name, schema in definitions["$defs"].items():
        if schemas.setdefault(name, schema) != schema:
            raise ValueError(f"two schemas are named {name}")
    for name, (events, numbered) in described.streams.items():
        schemas[name] = {"oneOf": _frames(events, numbered=numbered)}
    document["components"]["securitySchemes"] = {
        name: scheme for _, schemes in described.callers for name, scheme in schemes.items()
    }
    for route in routes:
        for method in route.methods or ():
            _complete(document["paths"][route.path_format][method.lower()], route, schemas, described)
    return document


def _complete(operation: Docs, route: APIRoute, schemas: Docs, described: Description) -> None:
    """Adds the body, the common errors, the key, and examples of streams."""
    bodies = _bodies(route.dependant)
    calls = {dependency.call for dependency in _dependencies(route.dependant)}
    schemes: Docs = next((schemes for call, schemes in described.callers if call in calls), dict[str, Any]())
    if bodies:
        schema = {"$ref": f"{REF}{bodies[0].__name__}"}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    common = (401, 403, 422, 429) if schemes else ()
    more = problems(*common, *((400, 413, 415) if bodies else ()))
    responses = operation["responses"] | {str(status): response for status, response in more.items()}
    if not schemes:
        responses.pop("422", None)  # FastAPI adds it
    operation["responses"] = dict(sorted(responses.items()))
    operation["security"] = [{name: []} for name in schemes]
    for response in operation["responses"].values():
        stream = response.get("content", {}).get("text/event-stream")
        if stream:
            name = stream["schema"]["x-event-schema"]["$ref"].removeprefix(REF)
            stream["example"] = _example_stream(described.streams[name], schemas)
        lines = response.get("content", {}).get("application/x-ndjson")
        if lines:
            lines["schema"] = _text_of(lines["schema"]["$ref"])


def _text_of(ref: str) -> Docs:
    """Text with frames or lines that each follow a schema, because OpenAPI 3.1 can't describe a stream's items."""
    return {"type": "string", "x-event-schema": {"$ref": ref}}


def _dependencies(dependant: Dependant) -> Iterable[Dependant]:
    for dependency in dependant.dependencies:
        yield dependency
        yield from _dependencies(dependency)


def _bodies(dependant: Dependant) -> list[type[BaseModel]]:
    calls = [dependency.call for dependency in _dependencies(dependant)]
    return [cast("JsonBody[BaseModel]", call).model for call in calls if isinstance(call, JsonBody)]


def _models(events: Events) -> tuple[type[BaseModel], ...]:
    return tuple(events.values()) if isinstance(events, Mapping) else events


def _frames(events: Events, *, numbered: bool) -> list[Docs]:
    """The schemas of a stream's frames: their fields, or only the data if frames have no names."""
    if not isinstance(events, Mapping):
        return [{"$ref": f"{REF}{model.__name__}"} for model in events]
    number = {"id": {"type": "integer", "minimum": 1}} if numbered else {}
    frames = [
        {"event": {"const": name, "type": "string"}, **number, "data": {"$ref": f"{REF}{model.__name__}"}}
        for name, model in events.items()
    ]
    return [{"type": "object", "properties": frame, "required": list(frame)} for frame in frames]


def _example_stream(stream: tuple[Events, bool], schemas: Docs) -> str:
    events, numbered = stream
    text = ""
    for number, (event, model) in enumerate(_named(events), 1):
        head = f"event: {event}\n" if event else ""
        head += f"id: {number}\n" if numbered else ""
        text += (
            f"{head}data: {json.dumps(_example({'$ref': f'{REF}{model.__name__}'}, schemas), ensure_ascii=False)}\n\n"
        )
    return text


def _named(events: Events) -> Iterable[tuple[str, type[BaseModel]]]:
    """The events of a successful stream."""
    pairs = events.items() if isinstance(events, Mapping) else (("", model) for model in events)
    return ((name, model) for name, model in pairs if not model.__name__.endswith(("Error", "Fault")))


def _example(schema: Docs, schemas: Docs) -> object:
    """Builds an example from those of the fields; optional fields without one are left out."""
    if "$ref" in schema:
        return _example(schemas[schema["$ref"].removeprefix(REF)], schemas)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    if schema["type"] == "array":
        return [_example(schema["items"], schemas)]
    if schema["type"] == "null":
        return None
    required = schema.get("required", ())
    members: Docs = schema.get("properties", {})
    return {
        name: _example(member, schemas) for name, member in members.items() if name in required or "examples" in member
    }
