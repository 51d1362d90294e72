"""The check that the API breaks no client of the baseline, with a planted change of each kind."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scripts import openapi

Json = dict[str, Any]

DOCUMENT: Json = {
    "paths": {
        "/v1/search": {
            "post": {
                "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 50}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Search"}}}},
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Results"}}}},
                    "404": {"description": "Unknown."},
                },
            }
        },
        "/v1/chat": {
            "post": {
                "responses": {
                    "200": {"content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/Event"}}}}
                }
            }
        },
    },
    "components": {
        "schemas": {
            "Search": {
                "type": "object",
                "additionalProperties": False,
                "required": ["query"],
                "properties": {
                    "query": {"type": "string", "maxLength": 100},
                    "mode": {"anyOf": [{"enum": ["dense", "hybrid"], "type": "string"}, {"type": "null"}]},
                    "filter": {"$ref": "#/components/schemas/Filter"},
                },
            },
            "Filter": {"properties": {"all": {"type": "array", "items": {"$ref": "#/components/schemas/Filter"}}}},
            "Results": {
                "type": "object",
                "required": ["results"],
                "properties": {"results": {"type": "array", "items": {"$ref": "#/components/schemas/Result"}}},
            },
            "Result": {
                "type": "object",
                "required": ["score"],
                "properties": {"score": {"type": "number"}, "url": {"type": "string"}},
            },
            "Event": {"oneOf": [{"type": "object", "properties": {"text": {"type": "string"}}}]},
        }
    },
}


def _with_change(path: str, value: object) -> Json:
    """The document with one part replaced, or removed if the value is None."""
    document = copy.deepcopy(DOCUMENT)
    target: Any = document
    *parents, last = [part.replace("~", "/") for part in path.split(".")]
    for part in parents:
        target = target[int(part) if part.isdigit() and part not in target else part]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return document


SEARCH = "paths.~v1~search.post"
SCHEMAS = "components.schemas"


BREAKS: list[tuple[str, Any, str]] = [
    ("paths.~v1~search", None, "POST /v1/search is gone"),
    (SEARCH, None, "POST /v1/search is gone"),
    (f"{SEARCH}.parameters", [], "the query parameter limit is gone"),
    (f"{SEARCH}.parameters.0.schema.maximum", 20, "maximum became 20"),
    (f"{SEARCH}.responses.404", None, "the response 404 is gone"),
    (f"{SEARCH}.responses.200.content", {"text/csv": {}}, "application/json is gone"),
    (f"{SCHEMAS}.Search.required", ["query", "mode"], "mode is now required"),
    (f"{SCHEMAS}.Search.properties.mode", None, "mode is gone"),
    (f"{SCHEMAS}.Search.properties.query", {"type": "integer"}, "the type string became integer"),
    (f"{SCHEMAS}.Search.properties.query.maxLength", 10, "maxLength became 10"),
    (
        f"{SCHEMAS}.Search.properties.mode.anyOf",
        [{"enum": ["dense"], "type": "string"}, {"type": "null"}],
        "hybrid",
    ),
    (f"{SCHEMAS}.Search.properties.mode.anyOf", [{"type": "string"}], "the type null|string became string"),
    (f"{SCHEMAS}.Filter.properties.all.items", {"type": "string"}, "all[]: the type object became string"),
    (f"{SCHEMAS}.Results.required", [], "results may now be missing"),
    (f"{SCHEMAS}.Result.properties.url", None, "results[].url is gone"),
    (f"{SCHEMAS}.Result.properties.score.type", ["number", "null"], "became integer|null|number"),
    (f"{SCHEMAS}.Result.properties.url", {}, "the type string became anything"),
    (f"{SCHEMAS}.Event.oneOf", [{"type": "object", "properties": {}}], "text is gone"),
]


@pytest.mark.parametrize(("path", "value", "complaint"), BREAKS)
def test_a_planted_break_is_reported(path: str, value: object, complaint: str) -> None:
    complaints = list(openapi.breaking_changes(DOCUMENT, _with_change(path, value)))
    assert any(complaint in line for line in complaints), complaints


ADDITIONS: list[tuple[str, Any]] = [
    ("paths.~v1~new", {"get": {"responses": {}}}),
    (f"{SEARCH}.responses.409", {"description": "Conflict."}),
    (f"{SEARCH}.parameters.0.schema.maximum", 100),
    (f"{SCHEMAS}.Search.properties.tag", {"type": "string"}),
    (f"{SCHEMAS}.Search.required", []),
    (f"{SCHEMAS}.Search.properties.query", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    (f"{SCHEMAS}.Search.properties.mode.anyOf.0.enum", ["dense", "hybrid", "lexical"]),
    (f"{SCHEMAS}.Result.properties.place", {"type": "object"}),
    (f"{SCHEMAS}.Result.required", ["score", "url"]),
    (f"{SCHEMAS}.Result.properties.score.type", "integer"),
]


@pytest.mark.parametrize(("path", "value"), ADDITIONS)
def test_additions_pass(path: str, value: object) -> None:
    assert list(openapi.breaking_changes(DOCUMENT, _with_change(path, value))) == []
