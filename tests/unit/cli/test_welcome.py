"""The message for newcomers once the stack is ready."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from citewire_cli.stack.layout import Layout
from citewire_cli.stack.provider import EXTRACTIVE, describe_provider
from citewire_cli.stack.sample import QUESTION
from citewire_cli.stack.welcome import welcome

DEFAULT = "http://127.0.0.1:8080"
LOCAL = {"CITEWIRE_AUTH": "off"}


def on_the_path(name: str) -> str:
    return f"/usr/bin/{name}"


def remote(base: str) -> dict[str, str]:
    return {
        "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
        "CITEWIRE_GENERATOR_API_BASE": base,
        "CITEWIRE_GENERATOR_MODEL": "m",
        "CITEWIRE_GENERATOR_API_KEY": "secret",
    }


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, EXTRACTIVE),
        ({"CITEWIRE_GENERATOR_PROVIDER": "extractive"}, EXTRACTIVE),
        (remote("http://localhost:11434"), "m at http://localhost:11434: no text leaves this machine"),
        (remote("http://[::1]:1/v1"), "m at http://[::1]:1/v1: no text leaves this machine"),
        (
            remote("https://llm.example/v1"),
            "m at https://llm.example/v1: questions and the passages found are sent to llm.example",
        ),
        (
            remote("http://127.0.0.1.evil.example"),
            "m at http://127.0.0.1.evil.example: questions and the passages found are sent to 127.0.0.1.evil.example",
        ),
    ],
)
def test_provider_that_sees_text(environ: dict[str, str], text: str) -> None:
    assert describe_provider(environ) == text
    assert "secret" not in describe_provider(environ)


def test_lines_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", on_the_path)
    text, facts = welcome(DEFAULT, LOCAL, Layout(tmp_path), sample_loaded=True)
    curl = shlex.split(facts["curl"])
    assert curl[:3] == ["curl", "-N", f"{DEFAULT}/v1/chat"]
    assert json.loads(curl[-1]) == {"question": QUESTION}
    assert shlex.split(facts["ask"]) == ["citewire", "ask", QUESTION]
    for part in (facts["curl"], facts["ask"], f"{DEFAULT}/docs", EXTRACTIVE, "Ctrl-C"):
        assert part in text
    other_text, other_facts = welcome("http://127.0.0.1:9999", LOCAL, Layout(tmp_path), sample_loaded=False)
    assert other_facts["ask"].startswith("CITEWIRE_URL=http://127.0.0.1:9999 citewire ask ")
    assert QUESTION not in other_text
    assert "citewire ingest PATH" in other_text
    assert "Authorization" not in text + other_text
    assert "keys create" not in text + other_text


def test_with_keys_on_it_says_how_to_create_and_set_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", on_the_path)
    monkeypatch.chdir(tmp_path)
    text, facts = welcome(DEFAULT, {"CITEWIRE_AUTH": "keys"}, Layout(tmp_path / ".citewire"), sample_loaded=False)
    assert facts["key"] == "export CITEWIRE_API_KEY=$(citewire keys create --org acme --user me)"
    assert '-H "Authorization: Bearer $CITEWIRE_API_KEY"' in facts["curl"]
    assert QUESTION in facts["curl"]
    making, trying = text.index(facts["key"]), text.index(facts["curl"])
    assert making < text.index("citewire ingest ") < trying, "the sample library must come in between"
    _, elsewhere = welcome(DEFAULT, {}, Layout(tmp_path / "my data"), sample_loaded=False, sample=False)
    assert f"$(CITEWIRE_DATA_DIR='{tmp_path}/my data' citewire keys create" in elsewhere["key"]
    assert QUESTION not in elsewhere["curl"]
