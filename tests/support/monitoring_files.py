"""Reads the files of deploy/monitoring for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
RULES = sorted((FOLDER / "rules").glob("*.yaml"))
RULE_TESTS = sorted((FOLDER / "tests").glob("*.yaml"))
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))


@dataclass(frozen=True)
class Expression:
    """An expression and its location."""

    where: str
    text: str


@cache
def rules() -> list[dict[str, Any]]:
    """Every rule of every file, read once: nobody may change them."""
    return [
        rule
        for path in RULES
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts, by name."""
    return {str(rule["alert"]): rule for rule in rules() if "alert" in rule}


def recorded() -> set[str]:
    """Names of the series that rules record."""
    return {str(rule["record"]) for rule in rules() if "record" in rule}


def dashboards() -> dict[str, dict[str, Any]]:
    """The dashboards, by file name."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """A dashboard's panels, without its rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[Expression]:
    """Every expression of rules and dashboards, with Grafana's variables filled in."""
    for rule in rules():
        yield Expression(str(rule.get("alert") or rule.get("record")), str(rule["expr"]))
    for name, dashboard in dashboards().items():
        for annotation in dashboard["annotations"]["list"]:
            yield Expression(f"{name}, annotations", str(annotation["expr"]))
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Expression(f"{name}, {panel['title']}", filled(str(target["expr"])))


def filled(expression: str, *, interval: str = "5m") -> str:
    """A dashboard's expression as Grafana sends it."""
    return expression.replace("$__rate_interval", interval).replace("$job", ".+")
