"""The dashboards are up to date with their generator, and Grafana can lay them out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from monitoring_files import DASHBOARDS, FOLDER, dashboards, panels
from scripts.monitoring.__main__ import generated


def test_generated_files_are_up_to_date() -> None:
    made = generated()
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make monitoring`"
    assert set(DASHBOARDS) == {path for path in made if path.parent == FOLDER / "dashboards"}


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_panels_have_distinct_titles_and_do_not_overlap(name: str) -> None:
    dashboard = dashboards()[name]
    assert f"{dashboard['uid']}.json" == name
    everything: list[dict[str, Any]] = dashboard["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles)
    for first, second in combinations([panel["gridPos"] for panel in everything], 2):
        beside = first["x"] + first["w"] <= second["x"] or second["x"] + second["w"] <= first["x"]
        above = first["y"] + first["h"] <= second["y"] or second["y"] + second["h"] <= first["y"]
        assert beside or above, (first, second)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in everything)


def test_a_dashboards_queries_go_to_the_chosen_prometheus() -> None:
    for name, dashboard in dashboards().items():
        variables = {variable["name"] for variable in dashboard["templating"]["list"]}
        for panel in panels(dashboard):
            assert panel["targets"], (name, panel["title"])
            for target in panel["targets"]:
                assert target["datasource"]["uid"] == "${datasource}"
                assert ("$job" in target["expr"]) <= ("job" in variables), (name, panel["title"])


def test_the_required_panels_exist() -> None:
    shown = {panel["title"] for dashboard in dashboards().values() for panel in panels(dashboard)}
    assert {
        "Tokens per second",
        "Cost per hour",
        "First text, retrieval included",
        "A model's first token, p95",
        "Recall of sampled searches",
        "Waiting documents",
        "Citations by verdict",
    } <= shown
