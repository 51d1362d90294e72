"""`citewire providers` against a gateway with scripted answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fake_gateway import reply_json, reply_problem

if TYPE_CHECKING:
    from pathlib import Path

    from cli_types import Run
    from fake_gateway import FakeGateway

WORK = {"type": "chat", "scope": "user", "name": "work", "active": False, "provider": "openai", "model": "gpt-4.1-mini"}


def test_providers_are_listed(gateway: FakeGateway, run: Run) -> None:
    active = WORK | {"name": "home", "active": True, "provider": "ollama", "model": "llama3.2"}
    gateway.on("GET", "/v1/providers", reply_json({"providers": [active, WORK]}))
    lines = run("providers", "list").stdout.splitlines()
    assert lines[1].split() == ["chat", "user", "home", "active", "ollama", "llama3.2"]
    assert lines[2].split() == ["chat", "user", "work", "-", "openai", "gpt-4.1-mini"]
    gateway.on("GET", "/v1/providers", reply_json({"providers": []}))
    assert run("providers", "list").stdout == "You have none: the server's are used.\n"


def test_a_provider_is_saved_with_a_key_that_no_argument_shows(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    gateway.on("PUT", "/v1/providers/chat/work", reply_json(WORK))
    key = tmp_path / "key"
    key.write_text("sk-1\n")
    done = run("providers", "save", "chat", "work", "openai", "--model", "gpt-4.1-mini", "--api-key-file", str(key))
    assert done.exit_code == 0, done.stderr
    assert gateway.requests[-1].json() == {"provider": "openai", "model": "gpt-4.1-mini", "api_key": "sk-1"}
    assert "sk-1" not in done.stdout
    run("providers", "save", "chat", "work", "ollama", "--api-base", "http://gpu:11434", "--activate", "--org")
    assert gateway.requests[-1].json() == {"provider": "ollama", "api_base": "http://gpu:11434"}
    assert gateway.requests[-1].query == {"scope": "org", "activate": "true"}


def test_a_provider_is_activated_and_deleted(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/providers/chat/work:activate", reply_json(WORK | {"active": True}))
    assert run("providers", "activate", "chat", "work").stdout.splitlines()[1].split()[3] == "active"
    gateway.on("POST", "/v1/providers/chat:deactivate", reply_json(WORK))
    assert run("providers", "deactivate", "chat").stdout.splitlines()[1].split()[3] == "-"
    assert gateway.requests[-1].query == {"scope": "user"}
    missing = reply_problem(
        404, "Not found", reason="PROVIDER_NOT_FOUND", detail="there is no chat provider of your own"
    )
    gateway.on("DELETE", "/v1/providers/chat/gone", missing)
    refused = run("providers", "delete", "chat", "gone")
    assert refused.exit_code == 5
    assert "there is no chat provider" in refused.stderr


def test_a_provider_is_tested_and_the_result_shown(gateway: FakeGateway, run: Run) -> None:
    worked = {"tried": True, "ok": True, "text": "It answered in 210 ms."}
    gateway.on("POST", "/v1/providers/chat/work:test", reply_json(WORK | {"test": worked}))
    done = run("providers", "test", "chat", "work")
    assert done.exit_code == 0, done.stderr
    assert gateway.requests[-1].query == {"scope": "user"}
    assert done.stdout.splitlines()[-1] == "It answered in 210 ms."
    refused = {"tried": True, "ok": False, "reason": "PROVIDER_AUTH", "status": 401, "text": "It refused the key."}
    gateway.on("POST", "/v1/providers/chat/work:test", reply_json(WORK | {"test": refused}))
    failed = run("providers", "test", "chat", "work", "--org")
    assert failed.exit_code == 1
    assert gateway.requests[-1].query == {"scope": "org"}
    assert failed.stdout.splitlines()[-1] == "It refused the key."
    shown = run("providers", "test", "chat", "work", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["test"]) == (1, refused)
    missing = reply_problem(
        404, "Not found", reason="PROVIDER_NOT_FOUND", detail="there is no chat provider of your own"
    )
    gateway.on("POST", "/v1/providers/chat/gone:test", missing)
    assert run("providers", "test", "chat", "gone").exit_code == 5
