"""`citewire usage`, `citewire limits` and `citewire budgets`."""

from __future__ import annotations

import json

import pytest

from cli_types import Run
from fake_gateway import FakeGateway, Reply, reply_json, reply_problem

FIGURES = {
    "calls": 1200,
    "unpriced_calls": 2,
    "embedding_tokens": 0,
    "prompt_tokens": 58214,
    "cached_input_tokens": 20480,
    "completion_tokens": 6120,
    "cost_usd": 0.211146,
}
USAGE = {
    "from": "2026-11-01T00:00:00Z",
    "to": "2026-12-01T00:00:00Z",
    "scope": "org",
    "rows": [{"day": "2026-11-21", "provider": "anthropic", "model": "claude", **FIGURES}],
    "total": FIGURES,
}
BUDGET = {
    "scope": "key",
    "key_id": "key_1",
    "period": "day",
    "limit_usd": 5.0,
    "spent_usd": 1.25,
    "reserved_usd": 0.0,
    "left_usd": 3.75,
    "resets_at": "2026-11-22T00:00:00Z",
}


def test_usage_is_a_table_with_its_total(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/usage", reply_json(USAGE))
    result = run("usage", "--source", "calls", "--from", "2026-11-01", "--to", "2026-11-30")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1].split() == [
        *("day", "provider", "model", "calls", "embedding", "prompt", "cached", "completion", "USD")
    ]
    assert lines[2].split()[:4] == ["2026-11-21", "anthropic", "claude", "1,200"]
    assert lines[3].split() == ["total", "1,200", "0", "58,214", "20,480", "6,120", "0.211146"]
    assert "2 calls went to models whose price" in lines[4]
    assert gateway.requests[0].query == {
        "group_by": "day,model",
        "source": "calls",
        "from": "2026-11-01",
        "to": "2026-11-30",
        "format": "json",
    }


def test_usage_as_json_and_csv(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/usage", reply_json(USAGE))
    assert json.loads(run("usage", "--json", "--source", "calls").stdout) == USAGE
    assert json.loads(run("usage", "--json").stdout) == {**USAGE, "exchanges": USAGE}
    gateway.on("GET", "/v1/usage", Reply(content_type="text/csv", chunks=[b"day,calls\r\n2026-11-21,3\r\n"]))
    result = run("usage", "--csv", "--by", "day")
    assert result.stdout.splitlines() == ["day,calls", "2026-11-21,3"]
    assert gateway.requests[-1].query["format"] == "csv"
    assert run("usage", "--csv", "--json").exit_code == 2


def test_nothing_used(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/usage", reply_json({**USAGE, "scope": "user", "rows": [], "total": {}}))
    assert run("usage", "--source", "exchanges").stdout.splitlines()[1:] == ["Nothing was used."]
    assert "None: everything ran on models of this stack." in run("usage").stdout


def test_usage_without_provider_calls_is_shown_too(gateway: FakeGateway, run: Run) -> None:
    row: dict[str, object] = {
        "day": "2026-11-21",
        "model": "extractive",
        "exchanges": 7,
        "embedding_tokens": 84,
        "cost_usd": 0,
    }
    chats: dict[str, object] = {
        "scope": "org",
        "from": "a",
        "to": "b",
        "rows": [row],
        "total": {"exchanges": 7, "embedding_tokens": 84},
    }
    calls: dict[str, object] = {"scope": "org", "from": "a", "to": "b", "rows": [], "total": {}}
    gateway.on("GET", "/v1/usage", lambda r: reply_json(chats if r.query["source"] == "exchanges" else calls))
    assert [line.split() for line in run("usage").stdout.splitlines()] == [
        ["Usage", "of", "the", "organisation", "from", "a", "until", "b"],
        [],
        ["Chats:"],
        ["day", "model", "chats", "embedding", "USD"],
        ["2026-11-21", "extractive", "7", "84", "0.000000"],
        ["total", "7", "84", "0.000000"],
        [],
        ["Calls", "to", "providers,", "as", "billed:"],
        ["None:", "everything", "ran", "on", "models", "of", "this", "stack."],
    ]


@pytest.mark.parametrize("arguments", [(), ("--csv",)])
def test_a_refusal_is_reported(gateway: FakeGateway, run: Run, arguments: tuple[str, ...]) -> None:
    gateway.on("GET", "/v1/usage", reply_problem(422, "The request is not valid", detail="group_by: must be of: org"))
    result = run("usage", "--by", "month", *arguments)
    assert result.exit_code == 2
    assert "group_by: must be of: org" in result.stderr


def test_limits_are_shown_with_their_usage(gateway: FakeGateway, run: Run) -> None:
    requests = {"name": "requests-user", "measure": "requests", "scope": "user", "limit": 600, "used": 12}
    limits = [{**requests, "window_seconds": 60, "resets_in_seconds": 30}]
    gateway.on("GET", "/v1/limits", reply_json({"plan": "free", "limits": limits}))
    lines = run("limits").stdout.splitlines()
    assert lines[0] == "Plan free"
    assert lines[2].split() == ["requests", "user", "12", "600", "60", "s"]
    assert json.loads(run("limits", "--json").stdout)["limits"] == limits
    away = {"plan": "free", "limits": limits, "unknown": ["stored-bytes"]}
    gateway.on("GET", "/v1/limits", reply_json(away))
    assert run("limits").stderr == "Not known at the moment: stored-bytes\n"


def test_budgets_are_listed_set_and_deleted(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/budgets", reply_json({"budgets": [BUDGET]}))
    gateway.on("PUT", "/v1/budgets", reply_json(BUDGET))
    gateway.on("DELETE", "/v1/budgets", Reply(204))
    lines = run("budgets", "list").stdout.splitlines()
    assert lines[1].split() == ["key_1", "day", "5.000000", "1.250000", "0.000000", "3.750000", "2026-11-22T00:00:00Z"]
    assert run("budgets", "set", "day", "5", "--key", "key_1").exit_code == 0
    assert gateway.requests[-1].json() == {"period": "day", "limit_usd": 5.0, "scope": "key", "key_id": "key_1"}
    assert run("budgets", "set", "month", "0.5", "--json").exit_code == 0
    assert gateway.requests[-1].json() == {"period": "month", "limit_usd": 0.5, "scope": "org"}
    assert run("budgets", "set", "month", "3", "--user", "ada").exit_code == 0
    assert gateway.requests[-1].json() == {"period": "month", "limit_usd": 3.0, "scope": "user", "user": "ada"}
    assert run("budgets", "set", "month", "3", "--user", "ada", "--key", "key_1").exit_code == 2
    assert run("budgets", "delete", "day", "--key", "key_1").stdout == "Deleted.\n"
    assert gateway.requests[-1].query == {"period": "day", "scope": "key", "key_id": "key_1"}


def test_users_and_keys_are_limited(gateway: FakeGateway, run: Run) -> None:
    limit = {"scope": "user", "user": "ada", "measure": "requests", "limit": 1200, "updated_by": "bob"}
    gateway.on("GET", "/v1/admin/limits", reply_json({"limits": [limit]}))
    gateway.on("PUT", "/v1/admin/limits", reply_json(limit))
    gateway.on("DELETE", "/v1/admin/limits", Reply(204))
    gateway.on("GET", "/v1/limits", reply_json({"plan": "free", "limits": [], "unknown": []}))
    assert run("limits", "list").stdout.splitlines()[1].split() == ["ada", "requests", "1,200", "bob"]
    assert run("limits", "set", "requests", "1200", "--user", "ada").exit_code == 0
    assert gateway.requests[-1].json() == {"measure": "requests", "limit": 1200, "scope": "user", "user": "ada"}
    assert run("limits", "delete", "tokens", "--key", "key_1").stdout == "Deleted.\n"
    assert gateway.requests[-1].query == {"measure": "tokens", "scope": "key", "key_id": "key_1"}
    assert run("limits", "--user", "ada").exit_code == 0
    assert gateway.requests[-1].query == {"user": "ada"}
    assert run("limits", "set", "requests", "1").exit_code == 2
    assert run("limits", "set", "stored-bytes", "1", "--user", "ada").exit_code == 2


def test_no_budgets_and_none_to_delete(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/budgets", reply_json({"budgets": []}))
    gateway.on("DELETE", "/v1/budgets", reply_problem(404, "Not found", reason="BUDGET_NOT_FOUND"))
    assert run("budgets", "list").stdout == "There are no budgets: spending isn't limited.\n"
    assert run("budgets", "delete", "month").exit_code == 5
    assert run("budgets", "set", "year", "1").exit_code == 2
    assert run("budgets", "set", "day", "--", "-1").exit_code == 2


ERASURE = {"id": "e1", "kind": "user", "user": "bob", "successor": "erased:1", "state": "running"}


def test_a_user_is_erased_after_a_question(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/erasures", reply_json(ERASURE, 202))
    gateway.on("GET", "/v1/erasures", reply_json({"erasures": [ERASURE | {"kind": "organisation", "state": "done"}]}))
    assert run("erasures", "user", "bob", stdin="n\n").exit_code != 0
    assert gateway.received("POST", "/v1/erasures") == []
    done = run("erasures", "user", "bob", "--documents", "keep", stdin="y\n")
    assert done.exit_code == 0
    assert done.stdout.endswith("e1  user bob  running\n")
    assert gateway.requests[-1].json() == {"user": "bob", "documents": "keep"}
    assert run("erasures", "organisation", "acme", "--yes").exit_code == 0
    assert gateway.requests[-1].json() == {"organisation": "acme"}
    assert run("erasures", "list").stdout == "e1  organisation  done\n"


def test_retention_periods_are_set_after_a_question(gateway: FakeGateway, run: Run) -> None:
    policy = {"conversation_days": None, "document_days": 365, "expired_document_days": 30}
    gateway.on("GET", "/v1/admin/retention", reply_json(policy))
    gateway.on("PUT", "/v1/admin/retention", reply_json(policy | {"conversation_days": 90}))
    assert run("retention", "set", "90", stdin="n\n").exit_code != 0
    assert gateway.received("PUT", "/v1/admin/retention") == []
    done = run("retention", "set", "90", stdin="y\n")
    assert done.stdout.endswith(
        "conversations are kept for 90 days after their last message\n"
        "documents are kept for 365 days after their last version was stored\n"
        "expired documents are kept for 30 days after their validity ended\n"
    )
    assert gateway.requests[-1].json() == {"conversation_days": 90}
    assert run("retention", "set", "365", "--of", "documents", "--yes").exit_code == 0
    assert gateway.requests[-1].json() == {"document_days": 365}
    assert run("retention", "set", "7", "--of", "expired-documents", "--yes").exit_code == 0
    assert gateway.requests[-1].json() == {"expired_document_days": 7}
    assert run("retention", "off", "--of", "documents").exit_code == 0
    assert gateway.requests[-1].json() == {"document_days": None}
    assert run("retention", "show").stdout.startswith("conversations are kept until they are deleted\n")


def test_a_users_data_is_printed_and_checked_for_completeness(gateway: FakeGateway, run: Run) -> None:
    lines = '{"kind":"export","record":{}}\n{"kind":"chat.users","record":{"user_id":"bob:x"}}\n'
    end = '{"kind":"end","record":{"records":1}}\n'
    for body, code in ((lines + end, 0), (lines, 1), ("", 1)):
        gateway.on(
            "GET", "/v1/users/bob%3Ax/export", Reply(content_type="application/x-ndjson", chunks=(body.encode(),))
        )
        result = run("users", "export", "bob:x")
        assert (result.exit_code, result.stdout) == (code, body)
    gateway.on("GET", "/v1/users/bob%3Ax/export", reply_problem(403, "You may not", reason="PERMISSION_DENIED"))
    assert run("users", "export", "bob:x").exit_code == 4
