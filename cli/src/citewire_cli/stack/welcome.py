"""The text that `up` prints once the stack is ready."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping

from citewire_cli.settings import DEFAULT_URL
from citewire_cli.stack import sample
from citewire_cli.stack.layout import Layout
from citewire_cli.stack.provider import describe_provider, describe_simple

ANY_QUESTION = "What are the documents about?"


def welcome(url: str, environ: Mapping[str, str], layout: Layout, *, sample_loaded: bool) -> tuple[str, dict[str, str]]:
    """Which provider sees text, and lines that can be pasted into another terminal.

    Args:
        url: the gateway's address.
        environ: the environment that `up` was started with.
        layout: the data folder.
        sample_loaded: whether the library holds the sample documents.

    Returns:
        A text for people, and its facts for `--json`.
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
        f"  Logs      {short_path(layout.logs)}",
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
    return "\n".join(lines), facts


def short_path(path: str | os.PathLike[str]) -> str:
    """A path relative to the current folder where that is shorter to read."""
    relative = os.path.relpath(path)
    return os.fspath(path) if relative.startswith("..") else relative


def _command() -> str:
    """How this command is called from here: by its name if that is on the PATH, else by its place."""
    return "citewire" if shutil.which("citewire") else short_path(sys.argv[0])
