"""Checks a gateway's responses against its own OpenAPI document."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from citewire_gateway.app import build_api

Json = dict[str, Any]

_REF = "#/components/schemas/"
_DOCUMENT = "urn:document"


class UndescribedError(AssertionError):
    """A response doesn't match the document."""


class CheckedClient(httpx.AsyncClient):
    """A client that checks each complete response against the document."""

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:  # noqa: ANN401 # options of the client it wraps
        """Sends a request and checks the response, unless its body is streamed."""
        response = await super().send(request, stream=stream, **options)
        if not stream:
            check_response(response)
        return response


def check_response(response: httpx.Response) -> None:
    """Checks a response's status, media type and body, including each frame of a complete stream."""
    operation = _operation(response.request.method.lower(), response.request.url.path)
    if operation is None:
        return
    where = f"{response.request.method} {response.request.url.path} → {response.status_code}"
    media_type = response.headers.get("content-type", "").partition(";")[0]
    described = operation["responses"].get(str(response.status_code))
    if response.status_code >= 400:
        described = described or {"content": {"application/problem+json": {"schema": {"$ref": f"{_REF}Problem"}}}}
    if described is None:
        raise UndescribedError(f"{where}: not described")
    if response.status_code == 204:
        return
    content: Json | None = described["content"].get(media_type)
    if media_type == "text/event-stream":
        query = parse_qs(response.request.url.query.decode())
        dialect = query.get("dialect", [""])[0]
        schema = (content or {}).get("schema", {})
        frames = schema.get(f"x-event-schema-{dialect}", schema["x-event-schema"])
        for frame in _frames(response.text):
            _check(frame, frames["$ref"], where)
    elif media_type == "application/x-ndjson":
        for line in response.text.split("\n")[:-1]:
            _check(json.loads(line), (content or {})["schema"]["x-event-schema"]["$ref"], where)
    elif media_type in ("application/json", "application/problem+json"):
        if content is None:
            raise UndescribedError(f"{where}: no {media_type} is described")
        _check(response.json(), content["schema"]["$ref"], where)


def _frames(text: str) -> list[Json]:
    """The whole frames of a stream: with names, as an object of their fields, else the data alone."""
    frames: list[Json] = []
    for raw in text.split("\n\n")[:-1]:
        lines = [line for line in raw.split("\n") if not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        if not fields or fields["data"] == "[DONE]":
            continue
        data = json.loads(fields["data"])
        if "event" not in fields:
            frames.append(data)
            continue
        number = {"id": int(fields["id"])} if "id" in fields else {}
        frames.append({"event": fields["event"], **number, "data": data})
    return frames


def _check(value: object, ref: str, where: str) -> None:
    error = next(iter(_validator(ref).iter_errors(value)), None)  # pyright: ignore[reportUnknownMemberType, reportArgumentType] - jsonschema has no types for its errors
    if error is not None:
        raise UndescribedError(f"{where}: {error.json_path}: {error.message} ({ref})")


def _operation(method: str, path: str) -> Json | None:
    for pattern, operations in _paths():
        if pattern.fullmatch(path):
            operation: Json | None = operations.get(method)
            if operation is not None:
                return operation
    return None


@cache
def _paths() -> list[tuple[re.Pattern[str], Json]]:
    paths: list[tuple[re.Pattern[str], Json]] = []
    for template, operations in _document()["paths"].items():
        pattern = re.sub(r"\\\{name\\\}$", ".+", re.escape(template))
        paths.append((re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)), operations))
    return paths


@cache
def _validator(ref: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"{_DOCUMENT}{ref}"}, registry=_registry())


@cache
def _registry() -> Registry[Any]:
    # An undocumented field is as wrong as a missing one.
    schemas = {name: _closed(schema) for name, schema in _document()["components"]["schemas"].items()}
    resource = DRAFT202012.create_resource({"components": {"schemas": schemas}})
    return Registry[Any]().with_resource(_DOCUMENT, resource).crawl()


def _closed(schema: Json) -> Json:
    if "properties" in schema:
        schema = {"additionalProperties": False} | schema
    if "oneOf" in schema:
        schema = schema | {"oneOf": [_closed(member) for member in schema["oneOf"]]}
    return schema


@cache
def _document() -> Json:
    return build_api().openapi()
