"""The gateway stays thin and uses the services' messages: outside the API, no class duplicates one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from citewire.common.v1 import common_pb2, place_pb2
from citewire.embedder.v1 import embedder_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import calibration_pb2, corpus_pb2, filter_pb2, retriever_pb2

import citewire_accounts
import citewire_dialects
import citewire_gateway

ROOTS = [Path(str(package.__file__)).parent for package in (citewire_gateway, citewire_accounts, citewire_dialects)]
FILES = (common_pb2, place_pb2, embedder_pb2, generator_pb2, calibration_pb2, corpus_pb2, filter_pb2, retriever_pb2)
MESSAGES: Mapping[str, frozenset[str]] = {
    message.full_name: frozenset(message.fields_by_name)
    for file in FILES
    for message in file.DESCRIPTOR.message_types_by_name.values()
}
MOST_LINES = 8_000
MOST_FILES = 60
LEAST_FIELDS = 3
MOST_SHARED = 0.7


def mirrored_messages(fields: frozenset[str]) -> list[str]:
    """Returns the messages that share most of their fields, or most of the class's fields, with a class."""
    return [
        name
        for name, declared in MESSAGES.items()
        if min(len(fields), len(declared)) >= LEAST_FIELDS
        and len(fields & declared) >= MOST_SHARED * min(len(fields), len(declared))
    ]


def classes_of(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields the classes of a file with the fields that they declare."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            names = [item.target.id for item in node.body
                     if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]  # fmt: skip
            yield node.name, frozenset(names) - {"type", "model_config"}


def test_no_class_outside_the_api_mirrors_a_message() -> None:
    mirrors = {
        f"{path.relative_to(root.parent)}: {name}": messages
        for root in ROOTS
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in ("api", "schemas")
        for name, fields in classes_of(path)
        if (messages := mirrored_messages(fields))
    }
    assert mirrors == {}


def test_the_gateway_is_small() -> None:
    files = list(ROOTS[0].rglob("*.py"))
    assert len(files) <= MOST_FILES
    assert sum(len(path.read_bytes().splitlines()) for path in files) <= MOST_LINES


def test_a_mirrored_message_is_detected() -> None:
    assert mirrored_messages(frozenset({"model", "revision", "dimensions"})) == ["citewire.common.v1.EmbeddingSpace"]
    assert mirrored_messages(frozenset({"needs_retrieval", "reason", "fallback"})) == [
        "citewire.generator.v1.DecideResponse"
    ]
    assert mirrored_messages(frozenset({"index", "result"})) == []
