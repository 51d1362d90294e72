"""Every route is in the audit trail, or says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from citewire_gateway.api.audited import AUDITED, UNAUDITED, audited
from citewire_gateway.app import ROUTES
from citewire_kit.audit_events import Action

PAGE = Path("docs/explanation/audit.md")
ROUTED = {
    (method, route.path)
    for module in ROUTES
    for route in module.router.routes
    if isinstance(route, APIRoute)
    for method in route.methods or ()
}


def test_every_route_is_audited_or_exempt() -> None:
    assert len(ROUTED) > 50
    assert AUDITED.keys() | UNAUDITED == ROUTED
    assert not AUDITED.keys() & UNAUDITED


COUNTS_WHAT_IT_IS_SENT = ("POST", "/anthropic/v1/messages/count_tokens")
"""A POST as in Anthropic's API, but it changes nothing."""


@pytest.mark.parametrize("route", sorted(UNAUDITED - {COUNTS_WHAT_IT_IS_SENT}))
def test_every_unaudited_route_only_reads(route: tuple[str, str]) -> None:
    assert route[0] in ("GET", "HEAD")


@pytest.mark.parametrize("route", sorted(AUDITED))
def test_objects_are_named_by_the_parameters_of_the_address(route: tuple[str, str]) -> None:
    class Route:
        path = route[1]

    parameters = {name.partition(":")[0]: "x" for name in re.findall(r"{([^}]+)}", route[1])}
    entry = audited({"method": route[0], "route": Route(), "path_params": parameters})
    assert entry is not None
    assert entry[1] in ("", entry[1].partition(":")[0] + ":" + "/".join("x" for _ in parameters))
    assert bool(entry[1]) == bool(parameters)


def test_the_documentation_names_every_action() -> None:
    listed = PAGE.read_text().partition("## Actions")[2].partition("## Verification")[0]
    assert set(re.findall(r"`([a-z._]+)`", listed)) == set(Action)
