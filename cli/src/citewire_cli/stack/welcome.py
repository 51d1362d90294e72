"""The text that `up` prints once the stack is ready."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping

from citewire_cli.settings import DEFAULT_URL, data_dir_from
from citewire_cli.stack.layout import Layout
from citewire_cli.stack.provider import describe_provider, describe_simple
from citewire_cli.stack.sample import FOLDER, QUESTION

ANY_QUESTION = "What are the documents about?"


def needs_keys(environ: Mapping[str, str]) -> bool:
    """Whether the processes of this environment refuse a request without an API key."""
    return environ.get("CITEWIRE_AUTH", "").strip().lower() != "off"


def welcome(
    url: str, environ: Mapping[str, str], layout: Layout, *, sample_loaded: bool, sample: bool = True
) -> tuple[str, dict[str, str]]:
    """Which provider sees text, and lines that can be pasted into another terminal.

    Args:
        url: the gateway's address.
        environ: the environment of the processes.
        layout: the data folder.
        sample_loaded: whether the library holds the sample documents.
        sample: whether it should.

    Returns:
        A text for people, and its facts for `--json`.
    """
    keys = needs_keys(environ)
    by_hand = keys and sample and not sample_loaded
    question = QUESTION if sample_loaded or by_hand else ANY_QUESTION
    provider, simple = describe_provider(environ), describe_simple(environ)
    here = _command()
    command = here if url == DEFAULT_URL else f"CITEWIRE_URL={url} {here}"
    body = shlex.quote(json.dumps({"question": question}))
    header = ' -H "Authorization: Bearer $CITEWIRE_API_KEY"' if keys else ""
    facts = {
        "url": url,
        "provider": provider,
        "curl": f"curl -N {url}/v1/chat{header} -H 'Content-Type: application/json' -d {body}",
        "ask": f'{command} ask "{question}"',
    }
    rows = [("Answers", provider)]
    if simple:
        facts["simple"] = simple
        rows.append(("Simple", simple))
    if keys:
        folder = (
            "" if layout.data_dir == data_dir_from({}) else f"CITEWIRE_DATA_DIR={shlex.quote(str(layout.data_dir))} "
        )
        facts["key"] = f"export CITEWIRE_API_KEY=$({folder}{here} keys create --org acme --user me)"
        rows.append(("Keys", "on: every request needs an API key"))
    rows += [("API", f"{url}/docs"), ("Logs", short_path(layout.logs))]
    ingest = f"{command} ingest {short_path(FOLDER.resolve()) if by_hand else 'PATH'}"
    questions = [facts["curl"], facts["ask"]]
    following = [*questions, f"{ingest}    # your own documents"] if sample_loaded else [ingest, *questions]
    lines = ["", *(f"  {name:<8}  {text}" for name, text in rows), ""]
    if keys:
        lines += ["Create a key in another terminal; it is shown only once:", "", f"  {facts['key']}", ""]
    lines += ["Then try there:" if keys else "Try next, in another terminal:"]
    lines += ["", *(f"  {line}" for line in following), "", "Ctrl-C stops everything.", ""]
    return "\n".join(lines), facts


def short_path(path: str | os.PathLike[str]) -> str:
    """A path relative to the current folder where that is shorter to read."""
    relative = os.path.relpath(path)
    return os.fspath(path) if relative.startswith("..") else relative


def _command() -> str:
    """How this command is called from here: by its name if that is on the PATH, else by its place."""
    return "citewire" if shutil.which("citewire") else short_path(sys.argv[0])
