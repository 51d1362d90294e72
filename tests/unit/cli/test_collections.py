"""`citewire collections` against a gateway with scripted answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_gateway import reply_json, reply_problem

if TYPE_CHECKING:
    from cli_types import Run
    from fake_gateway import FakeGateway

SAVED = {"name": "saved", "documents": 3, "enrich": True}


def test_collections_are_listed(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/collections", reply_json({"collections": [SAVED], "next_page_token": ""}))
    assert run("collections", "list").stdout.splitlines()[1].split() == ["saved", "3", "yes"]
    assert '"enrich": true' in run("collections", "list", "--json").stdout


def test_a_collection_is_made(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/collections", reply_json(SAVED))
    assert run("collections", "create", "saved", "--enrich").stdout.splitlines()[1].split() == ["saved", "3", "yes"]
    assert gateway.requests[-1].json() == {"name": "saved", "enrich": True}
    run("collections", "create", "saved")
    assert gateway.requests[-1].json() == {"name": "saved", "enrich": False}


def test_a_collection_is_changed(gateway: FakeGateway, run: Run) -> None:
    gateway.on("PATCH", "/v1/collections/a%2Fb", reply_json(SAVED | {"enrich": False}))
    assert run("collections", "update", "a/b", "--no-enrich").stdout.splitlines()[1].split() == ["saved", "3", "no"]
    assert gateway.requests[-1].json() == {"enrich": False}
    run("collections", "update", "a/b", "--name", "saved", "--enrich", "--json")
    assert gateway.requests[-1].json() == {"name": "saved", "enrich": True}


def test_nothing_to_change_is_refused_here(gateway: FakeGateway, run: Run) -> None:
    refused = run("collections", "update", "saved")
    assert refused.exit_code == 2
    assert "--no-enrich" in refused.stderr
    assert not gateway.requests


def test_a_taken_name_is_refused(gateway: FakeGateway, run: Run) -> None:
    problem = reply_problem(409, "Conflict", reason="COLLECTION_EXISTS", detail="a collection 'saved' exists already")
    gateway.on("POST", "/v1/collections", problem)
    refused = run("collections", "create", "saved")
    assert refused.exit_code == 1
    assert "exists already" in refused.stderr


def test_grants_are_listed_given_and_revoked(gateway: FakeGateway, run: Run) -> None:
    path = "/v1/collections/a%2Fb/grants"
    hr, everyone = {"subject": "group:hr", "access": "manage"}, {"subject": "everyone", "access": "read"}
    gateway.on("GET", path, reply_json({"grants": [hr]}))
    gateway.on("PUT", path, reply_json({"grants": [everyone, hr]}))
    assert run("collections", "grants", "a/b").stdout.splitlines()[1].split() == ["group:hr", "manage"]
    assert run("collections", "grant", "a/b", "everyone").stdout.splitlines()[1].split() == ["everyone", "read"]
    assert gateway.requests[-1].json() == {"grants": [hr, everyone]}
    run("collections", "grant", "a/b", "group:hr", "--access", "write")
    assert gateway.requests[-1].json() == {"grants": [hr | {"access": "write"}]}
    run("collections", "revoke", "a/b", "group:hr", "--json")
    assert gateway.requests[-1].json() == {"grants": []}
    refused = run("collections", "revoke", "a/b", "user:zoe")
    assert refused.exit_code == 1
    assert "user:zoe" in refused.stderr
