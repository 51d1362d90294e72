"""Random schemas of OpenAI's strict subset, and values that follow them."""

from __future__ import annotations

from random import Random
from typing import Any

NAMES = (
    "answer",
    "title",
    "region",
    "amount",
    "count",
    "open",
    "kind",
    "notes",
    "items",
    "line two",
    "größe",
    'a"b/c~d',
)
TEXTS = (
    "Revenue grew by 12 %.",
    'She said "no", and left.\nThen it rained.',
    "",
    "größer als 5 €",
    "back\\slash and [ref:1] brackets {}",
    "😀 done",
)


def strict_schema(random: Random) -> dict[str, Any]:
    """A schema whose objects require all their members and allow no others, partly in `$defs` and recursive."""
    defs = {"leaf": _object(random, 3), "tree": _tree()}
    schema = _object(random, 0)
    if "defs" in str(schema):
        schema["$defs"] = defs
    return schema


def _tree() -> dict[str, Any]:
    properties = {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _object(random: Random, depth: int) -> dict[str, Any]:
    names = random.sample(NAMES, random.randint(1, 4))
    properties = {name: _part(random, depth + 1) for name in names}
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def _part(random: Random, depth: int) -> dict[str, Any]:
    kinds = ["string", "number", "integer", "boolean", "enum", "const", "nullable", "pattern", "limited", "date"]
    if depth < 4:
        kinds += ["object", "array", "array", "any_of", "ref"] if depth < 3 else ["array"]
    match random.choice(kinds):
        case "object":
            return _object(random, depth)
        case "array":
            return {"type": "array", "items": _part(random, depth + 1), "minItems": random.randint(0, 1)}
        case "any_of":
            return {"anyOf": [_part(random, depth + 1), {"type": "null"}]}
        case "ref":
            return {"$ref": random.choice(("#/$defs/leaf", "#/$defs/tree"))}
        case "enum":
            return {"type": "string", "enum": ["low", "medium", "high"]}
        case "const":
            return {"type": "string", "const": "v1"}
        case "nullable":
            return {"type": [random.choice(("string", "number")), "null"]}
        case "pattern":
            return {"type": "string", "pattern": r"^[A-Z]{2}-\d{3}$"}
        case "limited":
            return {"type": "integer", "minimum": 3, "maximum": 9, "description": "From 3 to 9."}
        case "date":
            return {"type": "string", "format": "date"}
        case kind:
            return {"type": kind}


def value_of(random: Random, part: dict[str, Any], root: dict[str, Any], depth: int = 0) -> object:
    """A value that follows such a schema."""
    if "$ref" in part:
        return value_of(random, root["$defs"][part["$ref"].rpartition("/")[2]], root, depth + 1)
    if "anyOf" in part:
        return value_of(random, random.choice(part["anyOf"]), root, depth + 1)
    if "enum" in part:
        return random.choice(part["enum"])
    if "const" in part:
        return part["const"]
    kinds: Any = part["type"]
    match kinds if isinstance(kinds, str) else random.choice(kinds):
        case "object":
            return {name: value_of(random, inner, root, depth + 1) for name, inner in part["properties"].items()}
        case "array":
            count = part.get("minItems", 0) + (random.randint(0, 2) if depth < 8 else 0)
            return [value_of(random, part["items"], root, depth + 1) for _ in range(count)]
        case "string":
            if "pattern" in part:
                return f"AB-{random.randint(100, 999)}"
            return "2026-11-23" if "format" in part else random.choice(TEXTS)
        case "integer":
            return random.randint(part.get("minimum", -9), part.get("maximum", 10**12))
        case "number":
            return random.choice((0, -1.5, 12, 3e10))
        case "boolean":
            return random.random() < 0.5
        case _:
            return None
