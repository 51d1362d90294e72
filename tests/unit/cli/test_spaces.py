"""`citewire spaces` against a gateway with scripted answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_gateway import reply_json, reply_problem

if TYPE_CHECKING:
    from cli_types import Run
    from fake_gateway import FakeGateway

SPACE = {
    "model": "new", "revision": "r2", "dimensions": 768, "role": "next", "items": 10, "with_vectors": 7, "missing": 3,
    "given_up": 1, "chunks": 40, "chunks_with_vectors": 33, "calibration": None,
}  # fmt: skip


def test_spaces_are_listed(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/spaces", reply_json({"spaces": [SPACE]}))
    lines = run("spaces", "list").stdout.splitlines()
    assert lines[1].split() == ["next", "new", "r2", "768", "10", "7", "3", "1"]
    assert '"given_up": 1' in run("spaces", "list", "--json").stdout


def test_a_library_without_documents_has_none(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/spaces", reply_json({"spaces": []}))
    assert run("spaces", "list").stdout == "There are no spaces yet: the first document creates one.\n"


def test_a_space_is_prepared(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/spaces:prepare", reply_json(SPACE))
    done = run("spaces", "prepare", "new")
    assert "Searches stay in the live space." in done.stdout
    assert gateway.requests[-1].json() == {"space": {"model": "new"}}
    run("spaces", "prepare", "new", "--revision", "r2", "--dimensions", "768")
    assert gateway.requests[-1].json() == {"space": {"model": "new", "revision": "r2", "dimensions": 768}}


def test_preparing_the_live_space_explains_its_effect(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/spaces:prepare", reply_json(SPACE | {"role": "live"}))
    assert run("spaces", "prepare", "new").stdout == "new is already live: nothing else is being prepared now.\n"


def test_a_switch_is_forced_only_on_demand(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/spaces:switch", reply_json(SPACE | {"role": "live"}))
    assert run("spaces", "switch", "new").stdout.splitlines()[1].split()[0] == "live"
    assert gateway.requests[-1].json() == {"space": {"model": "new"}, "force": False}
    run("spaces", "switch", "new", "--force")
    assert gateway.requests[-1].json() == {"space": {"model": "new"}, "force": True}


def test_a_refused_switch_fails(gateway: FakeGateway, run: Run) -> None:
    detail = "3 of 10 documents lack vectors in this space"
    gateway.on("POST", "/v1/spaces:switch", reply_problem(409, "Conflict", reason="WRONG_STATE", detail=detail))
    refused = run("spaces", "switch", "new")
    assert refused.exit_code == 1
    assert detail in refused.stderr
