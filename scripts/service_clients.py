"""Generates the Python client's classes for the services over gRPC from the contracts' stubs; part of `make proto`.

Usage: python -m scripts.service_clients [--check]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.python_client.tools import PACKAGE, ROOT, formatted

TARGET = PACKAGE / "services" / "operations.py"
SERVICES = {
    "EmbedderService": ("embedder", "citewire.embedder.v1", "embedder"),
    "RetrieverService": ("retriever", "citewire.retriever.v1", "retriever"),
    "CorpusService": ("retriever", "citewire.retriever.v1", "corpus"),
    "GeneratorService": ("generator", "citewire.generator.v1", "generator"),
}
"""The process that serves each service, and its contract's package and file."""
_STREAMS_TOKENS = frozenset({"GeneratorService"})
_HOW = "timeout: float | None = None, caller: Caller | None = None, request_id: str = ''"
_GIVEN = "timeout, caller, request_id"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a service, as in its stub."""

    name: str
    many_requests: bool
    many_replies: bool
    request: str
    reply: str
    text: str


def read_calls(stub: str, service: str) -> tuple[str, list[Call]]:
    """Reads a service's description and calls from the text of its typed stub."""
    tree = ast.parse(stub)
    matched = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == f"{service}Stub")
    return ast.get_docstring(matched) or "", list(_calls(matched))


def _calls(stub: ast.ClassDef) -> Iterator[Call]:
    for node, after in zip(stub.body, [*stub.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign):
            continue
        match = re.fullmatch(
            r"aio\.(Unary|Stream)(Unary|Stream)MultiCallable\[(\S+), (\S+)\]", ast.unparse(node.annotation)
        )
        assert match is not None, ast.unparse(node)  # noqa: S101 # any other stub is a defect here
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        yield Call(ast.unparse(node.target), match[1] == "Stream", match[2] == "Stream", match[3], match[4], str(text))


def module() -> str:
    """Returns the generated module."""
    parts = [
        '"""The calls of Citewire\'s services. Generated from the contracts by `make proto`."""',
        "from collections.abc import AsyncIterable, Iterable",
        "from typing import Any, ClassVar",
        "import grpc",
    ]
    classes: list[str] = []
    for service, (_, package, file) in SERVICES.items():
        stub = (ROOT / "protos" / package.replace(".", "/") / f"{file}_pb2_grpc.pyi").read_text(encoding="utf-8")
        text, calls = read_calls(stub, service)
        needed = sorted(
            {name.split(".")[0] for call in calls for name in (call.request, call.reply)} | {f"{file}_pb2_grpc"}
        )
        parts += [f"from {package} import {name}" for name in needed]
        classes += [_class(service, text, calls, awaits=awaits) for awaits in (True, False)]
    parts += [
        "from citewire_client.services.aio import AsyncServiceClient, AsyncStream",
        "from citewire_client.services.blocking import ServiceClient, Stream",
        "from citewire_client.services.callers import Caller",
    ]
    return formatted("\n".join([*parts, *classes]), "operations.py")


def _class(service: str, text: str, calls: list[Call], *, awaits: bool) -> str:
    answers, _, file = SERVICES[service]
    prefix, channel = ("Async", "grpc.aio.Channel") if awaits else ("", "Any")
    lines = [
        f"class {prefix}{service.removesuffix('Service')}Client({prefix}ServiceClient):",
        f'    """{text}\n\n    All methods raise `CitewireError`.\n    """',
        f"    SERVICE: ClassVar[str] = {answers!r}",
        "    STREAMS_TOKENS: ClassVar[bool] = True" if service in _STREAMS_TOKENS else "",
        f"    def _make_stub(self, channel: {channel}) -> object:",
        f"        return {file}_pb2_grpc.{service}Stub(channel)",
        *(_method(call, awaits=awaits) for call in calls),
    ]
    return "\n".join(lines)


def _method(call: Call, *, awaits: bool) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", call.name).lower()
    prefix = "Async" if awaits else ""
    sent = f"requests: {prefix}Iterable[{call.request}]" if call.many_requests else f"request: {call.request}"
    argument = "requests" if call.many_requests else "request"
    many = "_to_many" if call.many_requests else ""
    if call.many_replies:
        head = f"def {name}(self, {sent}, *, {_HOW}) -> {prefix}Stream[{call.reply}]:"
        body = f"return self._replies{many}({call.name!r}, {argument}, lambda: self._how({_GIVEN}))"
    else:
        head = f"{'async ' if awaits else ''}def {name}(self, {sent}, *, {_HOW}) -> {call.reply}:"
        body = f"return {'await ' if awaits else ''}self._reply{many}({call.name!r}, {argument}, self._how({_GIVEN}))"
    text = call.text.replace("\\", "\\\\").strip()
    return f'    {head}\n        """{_indented(text)}"""\n        {body}'


def _indented(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    if not rest:
        return first
    return "\n".join([first, *(f"        {line.strip()}".rstrip() for line in rest), "        "])


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit status."""
    text = module()
    current = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
    if "--check" in arguments:
        if not current:
            sys.stdout.write(f"{TARGET.relative_to(ROOT)} isn't current: run `make proto`\n")
        return 0 if current else 1
    if not current:
        TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
