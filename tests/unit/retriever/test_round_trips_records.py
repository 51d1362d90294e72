"""In records, the quote is in the value that other parsers find at its path, and in the lines of its place."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape, quoteattr

import pytest
from ruamel.yaml import YAML

from citewire_retriever.ingest.chunks import Chunk
from proof_scale import ProofScale
from round_trips import QUOTES, Prose, Taken, check

_STEP = re.compile(r'\.?([^.\[\]]+)|\[(\d+)(?::(\d+))?\]|\[("(?:[^"\\]|\\.)*")\]')
_KEYS = ("name", "größe", "年度", "الاسم", "unit price", "a.b", "note-1", 'say "so"', "12")


def made_value(prose: Prose, depth: int = 0) -> object:
    """Nested records: objects of several keys, lists of texts, numbers and objects."""
    choices = prose.choices
    kind = choices.choice(("text", "text", "text", "number", "flag", "long")) if depth > 2 else choices.randint(0, 3)
    match kind:
        case "text":
            return prose.sentence()
        case "long":
            return f"{prose.paragraph()}\n{prose.paragraph()}"
        case "number":
            return choices.choice((choices.randint(0, 10**9), choices.randint(1, 10**6) / 8))
        case "flag":
            return choices.choice((True, False, None))
        case 0:
            return [made_value(prose, depth + 2) for _ in range(choices.randint(1, 4))]
        case _:
            keys = choices.sample(_KEYS, choices.randint(1, 5))
            return {key: made_value(prose, depth + 1) for key in keys}


def made_records(prose: Prose) -> list[dict[str, object]]:
    return [
        {"id": prose.name(), "text": prose.sentence(), "more": made_value(prose), "größe": made_value(prose)}
        for _ in range(12)
    ]


def read_path(root: object, path: str) -> tuple[list[str], object]:
    """The names on a path, and the value at its end."""
    names: list[str] = []
    value: Any = root
    for match in _STEP.finditer(path.removeprefix("$")):
        key, first, last, quoted = match.groups()
        names.append(match.group() if first else str(key or json.loads(quoted)))
        part: Any = names[-1]
        if first:
            part = slice(int(first), int(last)) if last else int(first)
        value = value[part]
    return names, value


def at_path(read: Callable[[bytes], object]) -> Taken:
    """Takes the value at a path as `name: value`, with each name that may be shown; headings are its keys."""

    def take(data: bytes, chunk: Chunk) -> str:
        names, value = read_path(read(data), chunk.place.record_path)
        shown = _shown(value)
        ways = [re.sub(r"\.\[(\d+)\]", r"[\1]", ".".join(names[start:])) for start in range(len(names))]
        return "\n".join([shown, *_numbers(chunk), *(f"{way}: {shown}" for way in ways)])

    return take


def _numbers(chunk: Chunk) -> list[str]:
    """The name of a section of several elements of a list: their numbers, which aren't in the file."""
    label = chunk.section.rpartition(" > ")[2]
    return (
        [label]
        if "[" in label and re.fullmatch(r"(?:/@?[\w-]+)?(?:\[\d+\])?(?: – (?:/[\w-]+)?\[\d+\])?", label)
        else []
    )


def _shown(value: object) -> str:
    """The text shown for a value: none for an object, as its members have their own paths."""
    if isinstance(value, list):
        elements = cast("list[object]", value)
        return ", ".join(
            _shown(element) for element in elements if element is not None and not isinstance(element, dict)
        )
    if isinstance(value, dict):
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def in_lines(taken: Taken) -> Taken:
    """Also checks that the place's lines contain the value, if it is on one line."""

    def both(data: bytes, chunk: Chunk) -> str:
        lines = data.decode().split("\n")[chunk.place.start_line - 1 : chunk.place.end_line]
        value = chunk.text.strip().partition(": ")[2].partition("\n")[0]
        if value.isalpha():
            assert value in "\n".join(lines), chunk.place
        return taken(data, chunk)

    return both


def made_json(prose: Prose) -> bytes:
    return json.dumps({"title": prose.sentence(), "orders": made_records(prose)}, ensure_ascii=False, indent=1).encode()


def made_json_lines(prose: Prose) -> bytes:
    return "\n".join(json.dumps(record) for record in made_records(prose)).encode()


def read_json_lines(data: bytes) -> list[object]:
    return [json.loads(line) for line in data.splitlines()]


def made_yaml(prose: Prose) -> bytes:
    text = io.StringIO()
    writer: Any = YAML()
    writer.dump({"title": prose.sentence(), "orders": made_records(prose)}, text)
    return text.getvalue().encode()


@cache
def read_yaml(data: bytes) -> object:
    reader: Any = YAML(typ="safe", pure=True)
    return reader.load(data)


MADE: dict[str, tuple[Callable[[Prose], bytes], Taken]] = {
    "a.json": (made_json, in_lines(at_path(json.loads))),
    "a.jsonl": (made_json_lines, in_lines(at_path(read_json_lines))),
    "a.yaml": (made_yaml, in_lines(at_path(read_yaml))),
}


@pytest.mark.parametrize("name", MADE)
def test_each_quote_is_the_value_at_its_path(name: str, proof: ProofScale) -> None:
    make, taken = MADE[name]
    choices = proof.random()
    for _ in range(proof.pick(scaled_down=1, full=10)):
        assert check(make(Prose(choices)), name, taken) >= QUOTES


def made_xml(prose: Prose) -> bytes:
    names = ("name", "größe", "年度", "unit-price", "note")

    def element(name: str, depth: int) -> str:
        choices = prose.choices
        attributes = f" kind={quoteattr(prose.sentence())}" if choices.random() < 0.2 else ""
        if depth > 3 or choices.random() < 0.4:
            inside = escape(prose.sentence())
        elif choices.random() < 0.2:
            inside = f"{escape(prose.sentence())} <b>{escape(prose.sentence())}</b>"
        else:
            inside = "\n".join(element(choices.choice(names), depth + 1) for _ in range(choices.randint(1, 4)))
        return f"<{name}{attributes}>{inside}</{name}>"

    orders = "\n".join(element("order", 0) for _ in range(40))
    return f"<?xml version='1.0'?>\n<orders>{orders}</orders>".encode()


def from_xml(data: bytes, chunk: Chunk) -> str:
    """The text at an XPath, with each name that may be shown."""
    path = chunk.place.record_path.split("/")[2:]
    node = ET.fromstring(data)  # noqa: S314 - made by this test
    names: list[str] = []
    value: str | None = None
    for step in path:
        if step.startswith("@"):
            value = node.get(step[1:])
        else:
            node = cast("ET.Element", node.find(step))
        names.append(step)
    text = "".join(node.itertext()) if value is None else value
    attributes = [f"{name}: {content}" for name, content in node.items()]
    texts = [text, ", ".join("".join(child.itertext()) for child in node)]
    shown = [*texts, node.tag, *names, *_numbers(chunk), *attributes]
    for start in range(len(names)):
        for way in _ways(names[start:]):
            shown += [*(f"{way}: {value}" for value in texts), *(f"{way}.{attribute}" for attribute in attributes)]
    return "\n".join(shown)


def _ways(steps: Sequence[str]) -> list[str]:
    """The ways to show a path: elements of a list by number, others by name."""
    ways = [""]
    for step in steps:
        name = step.removeprefix("@").partition("[")[0]
        numbered = [f"{way}/{step}" for way in ways if "[" in step]
        ways = [f"{way}.{name}" for way in ways] + numbered
    return [way.removeprefix(".") for way in ways]


def test_each_quote_is_the_text_at_its_xpath(proof: ProofScale) -> None:
    choices = proof.random()
    for _ in range(proof.pick(scaled_down=1, full=10)):
        assert check(made_xml(Prose(choices)), "a.xml", from_xml) >= QUOTES


def test_a_wrong_path_is_detected(proof: ProofScale) -> None:
    data = made_json(Prose(random.Random(proof.seed)))
    original = at_path(json.loads)

    def move(data: bytes, chunk: Chunk) -> str:
        number = re.sub(r"orders\[(\d+)", lambda match: f"orders[{(int(match[1]) + 1) % 12}", chunk.place.record_path)
        chunk.place.record_path = number
        return original(data, chunk)

    with pytest.raises((AssertionError, KeyError, IndexError, TypeError)):
        check(data, "a.json", move)
