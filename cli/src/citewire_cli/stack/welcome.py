"""What a newcomer is told once the stack is ready."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from citewire_cli.settings import DEFAULT_URL
from citewire_cli.stack import sample
from citewire_cli.stack.layout import Layout
from citewire_cli.stack.provider import describe_provider, describe_simple

ANY_QUESTION = "What are the documents about?"


@dataclass(frozen=True, slots=True)
class Welcome:
    """A text for people, and its facts for `--json`."""

    text: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


def welcome(url: str, environ: Mapping[str, str], layout: Layout, *, sample_loaded: bool) -> Welcome:
    """Which provider sees text, and lines that can be pasted into another terminal.

    Args:
        url: the gateway's address.
        environ: the environment that `up` was started with.
        layout: the data folder.
        sample_loaded: whether the library holds the sample documents.
    """
    question = sample.QUESTION if sample_loaded else ANY_QUESTION
    provider, simple = describe_provider(environ), describe_simple(environ)
    command = _command() if url == DEFAULT_URL else f"CITEWIRE_URL={url} {_command()}"
    body = shlex.quote(json.dumps({"question": question}))
    curl = f"curl -N {url}/v1/chat -H 'Content-Type: application/json' -d {body}"
    ask = f'{command} ask "{question}"'
    lines = [
        "",
        f"  Answers   {provider}",
        *([f"  Simple    {simple}"] if simple else []),
        f"  API       {url}/docs",
        f"  Logs      {_short(layout.logs)}",
        "",
        "Try next, in another terminal:",
        "",
    ]
    if not sample_loaded:
        lines.append(f"  {command} ingest PATH")
    lines += [f"  {curl}", f"  {ask}"]
    if sample_loaded:
        lines.append(f"  {command} ingest PATH    # your own documents")
    lines += ["", "Ctrl-C stops everything.", ""]
    facts = {"url": url, "provider": provider, "curl": curl, "ask": ask, **({"simple": simple} if simple else {})}
    return Welcome("\n".join(lines), facts)


def _command() -> str:
    """How this command is called from here: by its name if that is on the PATH, else by its place."""
    return "citewire" if shutil.which("citewire") else _short(sys.argv[0])


def _short(path: str | os.PathLike[str]) -> str:
    relative = os.path.relpath(path)
    return os.fspath(path) if relative.startswith("..") else relative
