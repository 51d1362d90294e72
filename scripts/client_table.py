"""Writes docs/clients.md, the tested features of each client, from the tests; `--check` only compares.

A test of a third-party client, or of a client that we publish, has the mark `@pytest.mark.client(NAME, FEATURE)`,
with `refused=MESSAGE` for rejected requests. Versions come from the environments in which the tests run. So writing the
page runs no tests; each row is proved by its test.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs", "clients.md")
PACKAGES = Path("tests", "clients", "package.json")
"""The npm clients that tests install, each at one version."""
_UV = Path("uv.lock")
_LITELLM = Path("benchmarks", "litellm-requirements.txt")
_PYTHON = Path("tests", "clients", "requirements.txt")
_AGENTS = Path("tests", "clients", "agents-requirements.txt")
_GENERATOR = Path("tests", "integration", "python-client-requirements.txt")
_FRAMEWORKS = Path("integrations", "requirements.txt")


@dataclass(frozen=True, slots=True)
class Client:
    """A client and the file that pins its tested version."""

    title: str
    pinned: Path | None
    """A lock file, a list of requirements or a package.json; None: whatever version the operating system has."""
    package: str = ""


CLIENTS = {
    "openai": Client("OpenAI, Python", _UV, "openai"),
    "anthropic": Client("Anthropic, Python", _UV, "anthropic"),
    "langchain-openai": Client("LangChain `ChatOpenAI`, `OpenAIEmbeddings`", _PYTHON, "langchain-openai"),
    "langchain-core": Client("LangChain, by `langchain-citewire`", _FRAMEWORKS, "langchain-core"),
    "llama-index-core": Client("LlamaIndex, by `llama-index-citewire`", _FRAMEWORKS, "llama-index-core"),
    "haystack-ai": Client("Haystack, by `citewire-haystack`", _FRAMEWORKS, "haystack-ai"),
    "cohere": Client("Cohere, Python", _PYTHON, "cohere"),
    "litellm": Client("LiteLLM, Python", _LITELLM, "litellm"),
    "instructor": Client("Instructor, Python", _AGENTS, "instructor"),
    "pydantic-ai-slim": Client("Pydantic AI", _AGENTS, "pydantic-ai-slim"),
    "openai-agents": Client("OpenAI Agents SDK, Python", _AGENTS, "openai-agents"),
    "llm": Client("`llm`, the command", _AGENTS, "llm"),
    "ollama": Client("Ollama, Python", _AGENTS, "ollama"),
    "openai-node": Client("OpenAI, Node", PACKAGES, "openai"),
    "anthropic-node": Client("Anthropic, Node", PACKAGES, "@anthropic-ai/sdk"),
    "ai-providers": Client("Vercel AI SDK, its providers of OpenAI and Anthropic", PACKAGES, "@ai-sdk/anthropic"),
    "ai": Client("Vercel AI SDK", PACKAGES, "ai"),
    "mcp": Client("MCP SDK, Python", _UV, "mcp"),
    "mcp-inspector": Client("MCP Inspector", PACKAGES, "@modelcontextprotocol/inspector"),
    "mcp-conformance": Client("MCP conformance suite", PACKAGES, "@modelcontextprotocol/conformance"),
    "eventsource": Client("`EventSource`, `eventsource` for Node", PACKAGES, "eventsource"),
    "chromium": Client("`EventSource`, Chromium", None),
    "openapi-typescript": Client("openapi-typescript", PACKAGES, "openapi-typescript"),
    "openapi-python-client": Client("openapi-python-client", _GENERATOR, "openapi-python-client"),
    "grpcio": Client("gRPC, Python", _UV, "grpcio"),
    "buf": Client("`buf curl`", _UV, "buf-bin"),
    "citewire-client": Client("Citewire, Python", Path("clients", "python", "pyproject.toml")),
    "citewire-client-ts": Client("Citewire, TypeScript", Path("web", "packages", "client", "package.json")),
}
"""The clients, in the order of the page."""


@dataclass(frozen=True, slots=True)
class Row:
    """A feature of a client that a test proves."""

    client: str
    feature: str
    refused: str
    """The message if we reject the request; "": we support it."""
    file: Path
    """The test's location."""


def read_rows(folder: Path) -> list[Row]:
    """Reads the marks of all tests in a folder, sorted by client, file and line.

    Raises:
        ValueError: A mark can't be read without running the test, or its client is unknown.
    """
    rows = [row for path in sorted(folder.rglob("test_*.py")) for row in _rows_of(path)]
    order = list(CLIENTS)
    return sorted(dict.fromkeys(rows), key=lambda row: order.index(row.client))


def _rows_of(path: Path) -> Iterator[Row]:
    source = path.read_text(encoding="utf-8")
    if "mark.client(" not in source:
        return
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        if ast.unparse(call.func) != "pytest.mark.client":
            continue
        at = f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{call.lineno}"
        try:
            name, feature = (ast.literal_eval(argument) for argument in call.args)
            named = {keyword.arg or "**": ast.literal_eval(keyword.value) for keyword in call.keywords}
            refused = named.pop("refused", "")
        except ValueError:
            raise ValueError(f"{at}: a client's marker has two texts, and `refused` may be a third") from None
        if name not in CLIENTS or named:
            raise ValueError(
                f"{at}: {', '.join(named) or repr(name)} is unknown; clients stand in {Path(__file__).name}"
            )
        yield Row(name, feature, refused, path)


def version_of(name: str, root: Path = ROOT) -> str:
    """Returns the version of a client that the tests use.

    Raises:
        ValueError: Its file doesn't pin it.
    """
    client = CLIENTS[name]
    if client.pinned is None:
        return "the system's"
    text = (root / client.pinned).read_text(encoding="utf-8")
    matched = _pinned(client, text)
    if matched is None:
        raise ValueError(f"{client.pinned} pins no version of {client.package}")
    return matched


def _pinned(client: Client, text: str) -> str | None:
    assert client.pinned is not None  # noqa: S101 # for the type checker: the caller has checked this
    match client.pinned.name:
        case "uv.lock":
            packages = cast("list[dict[str, Any]]", tomllib.loads(text)["package"])
            return next((entry["version"] for entry in packages if entry["name"] == client.package), None)
        case "pyproject.toml":
            return tomllib.loads(text)["project"]["version"]
        case "package.json":
            members = json.loads(text)
            return members.get("dependencies", {}).get(client.package) if client.package else members["version"]
        case _:
            matched = re.search(rf"^{re.escape(client.package)}==([^\s;]+)", text, re.MULTILINE)
            return matched and matched[1]


_HEAD = """# Clients

The tests run these unmodified clients against Citewire, at the version shown. `make clients` writes this table from the
tests; `make lint` fails if it is out of date. Anything not listed isn't tested. A request in italics is rejected
with that message.

| client | version | feature | tested in |
|---|---|---|---|
"""

_TAIL = """
## Not offered

| what a program may look for | use instead |
|---|---|
| LlamaIndex's vector store (`BasePydanticVectorStore`), of nodes with vectors | `CitewireRetriever`, which stores \
documents and finds their passages ([why](adr/0050-frameworks.md)) |
| Haystack's `DocumentStore` | `CitewireWriter` and `CitewireRetriever` ([why](adr/0050-frameworks.md)) |
"""


def page() -> str:
    """Returns the current text of the page."""
    lines: list[str] = []
    before = ""
    for row in read_rows(ROOT / "tests"):
        client = "" if row.client == before else CLIENTS[row.client].title
        version = "" if row.client == before else version_of(row.client)
        before = row.client
        feature = f"*{row.feature}: “{_cell(row.refused)}”*" if row.refused else row.feature
        file = row.file.relative_to(ROOT).as_posix()
        lines.append(f"| {client} | {version} | {feature} | [{row.file.stem.removeprefix('test_')}](../{file}) |\n")
    return _HEAD + "".join(lines) + _TAIL


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Writes or compares the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    if not parser.parse_args().check:
        (ROOT / PAGE).write_text(page(), encoding="utf-8")
    elif (ROOT / PAGE).read_text(encoding="utf-8") != page():
        sys.stderr.write(f"{PAGE} is out of date: run `make clients` and commit it\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
