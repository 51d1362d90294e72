"""Writes the gateway's OpenAPI document, or checks that it is current and breaks no client of the baseline.

Usage: python scripts/openapi.py [--check | --baseline]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
CURRENT = ROOT / "docs" / "reference" / "openapi.json"
BASELINE = ROOT / "baseline" / "openapi.json"
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
EVENT = "x-event-schema"  # in streams: the schema of the events' data
LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems")

Json = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit status."""
    text = current_document()
    if "--check" not in arguments:
        CURRENT.write_text(text, encoding="utf-8")
        if "--baseline" in arguments:
            BASELINE.write_text(text, encoding="utf-8")
        return 0
    complaints = list(breaking_changes(json.loads(BASELINE.read_text(encoding="utf-8")), json.loads(text)))
    if CURRENT.read_text(encoding="utf-8") != text:
        complaints.append(f"{CURRENT.relative_to(ROOT)} isn't current: run `make openapi` and commit it")
    sys.stdout.writelines(f"openapi: {complaint}\n" for complaint in complaints)
    return 1 if complaints else 0


def current_document() -> str:
    """The document that the gateway serves, as text."""
    from citewire_gateway.app import build_api  # neither the comparison nor its tests need a gateway

    return json.dumps(build_api().openapi(), indent=1, sort_keys=True) + "\n"


def breaking_changes(old: Json, new: Json) -> Iterator[str]:
    """Yields the changes that break clients of the old document."""
    compare = Comparison(old, new)
    for path, operations in old["paths"].items():
        for method in METHODS & operations.keys():
            where = f"{method.upper()} {path}"
            operation = new["paths"].get(path, {}).get(method)
            if operation is None:
                yield f"{where} is gone"
            else:
                yield from compare.operations(where, operations[method], operation)


@dataclass(frozen=True)
class Comparison:
    """Compares parts of two OpenAPI documents."""

    old: Json
    """The document that clients were written for."""
    new: Json
    """The document that they would now use."""

    def operations(self, where: str, old: Json, new: Json) -> Iterator[str]:
        """Yields the breaking changes of an operation."""
        accepted = {(p["in"], p["name"]): p for p in new.get("parameters", ())}
        known = {(p["in"], p["name"]): p for p in old.get("parameters", ())}
        for (place, name), parameter in known.items():
            if (place, name) not in accepted:
                yield f"{where}: the {place} parameter {name} is gone"
            else:
                part = f"{where} {name}"
                yield from self.schemas(part, parameter["schema"], accepted[place, name]["schema"], "request")
        for place, name in accepted.keys() - known.keys():
            if accepted[place, name].get("required"):
                yield f"{where}: the {place} parameter {name} is now required"
        yield from self.contents(f"{where} request", old.get("requestBody"), new.get("requestBody"), "request")
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{where}: the response {status} is gone"
            else:
                yield from self.contents(f"{where} {status}", response, new["responses"][status], "response")

    def contents(
        self, where: str, old: Json | None, new: Json | None, direction: Literal["request", "response"]
    ) -> Iterator[str]:
        """Yields the breaking changes of a body, for each of its media types."""
        offered = (new or {}).get("content", {})
        for media_type, content in (old or {}).get("content", {}).items():
            if media_type not in offered:
                yield f"{where}: {media_type} is gone"
                continue
            for key in ("schema", "itemSchema"):
                if key in content:
                    yield from self.schemas(where, content[key], offered[media_type].get(key, {}), direction)

    def schemas(
        self,
        where: str,
        old: Json,
        new: Json,
        direction: Literal["request", "response"],
        seen: frozenset[tuple[str, str]] = frozenset(),
    ) -> Iterator[str]:
        """Yields the breaking changes of a schema: a request may only require less, a response may only return more."""
        references = (str(old.get("$ref", id(old))), str(new.get("$ref", id(new))))
        if references in seen:
            return
        seen |= {references}
        if EVENT in old:
            yield from self.schemas(f"{where} event", old[EVENT], new.get(EVENT, {}), direction, seen)
        before, after = _flatten(self.old, old), _flatten(self.new, new)
        if direction == "response" and before.types == frozenset({"null"}) and "null" in after.types:
            return  # a member that was always null was a placeholder for the new one
        narrower, wider = (before, after) if direction == "request" else (after, before)
        if wider.types and not (narrower.types and narrower.types <= wider.types):
            was, now = ("|".join(sorted(flat.types)) or "anything" for flat in (before, after))
            yield f"{where}: the type {was} became {now}"
            return
        if direction == "request":
            yield from _narrowed(where, before, after)
            yield from (f"{where}.{name} is now required" for name in sorted(after.required - before.required))
        else:
            optional = (before.required - after.required) & after.properties.keys()
            yield from (f"{where}.{name} may now be missing" for name in sorted(optional))
        for name, part in before.properties.items():
            if name in after.properties:
                yield from self.schemas(f"{where}.{name}", part, after.properties[name], direction, seen)
            elif not after.open or direction == "response":
                yield f"{where}.{name} is gone"
        if before.items is not None and after.items is not None:
            yield from self.schemas(f"{where}[]", before.items, after.items, direction, seen)


@dataclass
class Flat:
    """A schema with resolved references and merged alternatives."""

    types: frozenset[str]
    """The JSON types that it allows; empty allows any."""
    properties: Json
    required: frozenset[str]
    items: Json | None
    values: frozenset[str] | None
    """The values that it allows; None allows any."""
    bounds: dict[str, float]
    open: bool
    """Whether it allows properties that it doesn't name."""


def _flatten(document: Json, schema: Json) -> Flat:
    while "$ref" in schema:
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    named = schema.get("type", [])
    types = frozenset([named] if isinstance(named, str) else named or ["object"] if "properties" in schema else named)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    flat = Flat(
        types=types | {"integer"} if "number" in types else types,
        properties=dict(schema.get("properties", {})),
        required=frozenset(schema.get("required", ())),
        items=schema.get("items"),
        values=None if values is None else frozenset(map(str, values)),
        bounds={key: schema[key] for key in (*UPPER_BOUNDS, *LOWER_BOUNDS) if key in schema},
        open=schema.get("additionalProperties", True) is not False,
    )
    alternatives = [_flatten(document, part) for key in ("anyOf", "oneOf") for part in schema.get(key, ())]
    if alternatives:
        _merge_alternatives(flat, alternatives)
    for part in schema.get("allOf", ()):
        whole = _flatten(document, part)
        flat.types |= whole.types
        flat.properties |= whole.properties
        flat.required |= whole.required
        flat.items = flat.items or whole.items
    return flat


def _merge_alternatives(flat: Flat, alternatives: list[Flat]) -> None:
    any_type = any(not alternative.types for alternative in alternatives)
    flat.types |= frozenset() if any_type else frozenset().union(*(alternative.types for alternative in alternatives))
    objects = [alternative for alternative in alternatives if alternative.properties]
    for alternative in alternatives:
        flat.properties = {**alternative.properties, **flat.properties}
        flat.items = flat.items or alternative.items
        flat.bounds = {**alternative.bounds, **flat.bounds}
        flat.open = flat.open and alternative.open
    if objects:
        flat.required |= frozenset(
            name for name in objects[0].required if all(name in alternative.required for alternative in objects)
        )
    if all(alternative.values is not None or alternative.types == frozenset({"null"}) for alternative in alternatives):
        flat.values = frozenset().union(*(alternative.values or () for alternative in alternatives))


def _narrowed(where: str, before: Flat, after: Flat) -> Iterator[str]:
    """Yields values and bounds of a request that are no longer accepted."""
    if after.values is not None and before.values is None:
        yield f"{where}: only {', '.join(sorted(after.values))} accepted"
    elif after.values is not None and before.values is not None and not before.values <= after.values:
        yield f"{where}: {', '.join(sorted(before.values - after.values))} no longer accepted"
    for key, bound in after.bounds.items():
        was = before.bounds.get(key)
        if was is None or (bound < was if key in UPPER_BOUNDS else bound > was):
            yield f"{where}: {key} became {bound}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
