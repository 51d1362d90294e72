"""The client's models."""

from __future__ import annotations

import copy
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from scripts.python_client.operations import operations
from scripts.python_client.tools import Json, formatted, generator

LIMITS: Final = frozenset(
    [
        *("title", "examples", "example", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
        *("pattern", "exclusiveMinimum", "exclusiveMaximum", "default", "writeOnly"),
    ]
)
"""The parts of a schema that only the gateway needs: a newer one may allow more and have other defaults."""


def models_module(document: Json) -> str:
    """Returns the module of the models."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "models.py")
        source.write_text(json.dumps(simplified(document)), encoding="utf-8")
        options = ["--input-file-type", "openapi", "--output-model-type", "pydantic_v2.BaseModel"]
        options += ["--target-python-version", "3.11", "--base-class", "citewire_client.base.Model"]
        options += ["--enum-field-as-literal", "all", "--use-standard-collections", "--use-union-operator"]
        options += ["--use-schema-description", "--use-inline-field-description", "--disable-timestamp"]
        options += ["--use-annotated", "--use-type-alias", "--formatters", "builtin", "--wrap-string-literal"]
        command = [str(generator()), "--input", str(source), "--output", str(target), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"models can't be generated:\n{done.stderr[-3000:]}")
        return formatted(target.read_text(encoding="utf-8"), "models.py")


def simplified(document: Json) -> Json:
    """Returns a document with the models for a client: open enumerations, no limits, a name for each event."""
    schemas: Json = copy.deepcopy(document["components"]["schemas"])
    for name in ("ChatEvent", "ProgressEvent"):
        union = schemas.pop(name)
        if name == "ChatEvent":
            schemas[name] = {"oneOf": list(_named_events(union["oneOf"], schemas))}
    reached = _reached(
        {"ChatEvent", "DocumentProgress", "StreamError", "ExportLine", *_used(document, schemas)}, schemas
    )
    return {
        "openapi": document["openapi"],
        "info": {"title": "Citewire", "version": "1"},
        "paths": {},
        "components": {"schemas": {name: _open(schemas[name]) for name in sorted(reached)}},
    }


def _named_events(events: list[Json], schemas: Json) -> Iterator[Json]:
    for event in events:
        kind: str = event["properties"]["event"]["const"]
        name = f"{kind.capitalize()}Event"
        schemas[name] = {**event, "description": f"The event `{kind}` of a chat's stream."}
        yield {"$ref": f"#/components/schemas/{name}"}


def _used(document: Json, schemas: Json) -> Iterator[str]:
    for operation in operations(document):
        yield from (name for name in _references(operation.definition) if name in schemas)


def _reached(names: set[str], schemas: Json) -> set[str]:
    reached: set[str] = set()
    while names:
        name = names.pop()
        reached.add(name)
        names |= set(_references(schemas[name])) - reached
    return reached


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in cast("Json", node).items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in cast("list[object]", node):
            yield from _references(value)


def _open(node: object) -> object:
    """Removes the parts that only the gateway needs from a schema, and allows texts that only a newer gateway knows."""
    if isinstance(node, list):
        return [_open(value) for value in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Json", node)
    if "properties" in schema:
        properties = {name: _open(value) for name, value in schema["properties"].items()}
        rest = _without(schema, {"properties", "additionalProperties"})
        return {**{key: _open(value) for key, value in rest.items()}, "properties": properties}
    if "enum" in schema:
        closed = {"type": "string", "enum": schema["enum"]}
        return {**_without(schema, {"type", "enum"}), "anyOf": [closed, {"type": "string"}]}
    return {key: _open(value) for key, value in schema.items() if key not in LIMITS}


def _without(schema: Mapping[str, Any], more: set[str]) -> Json:
    return {key: value for key, value in schema.items() if key not in LIMITS | more}
