"""Each alert fires when it should, is silent when it should, and links to the runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from monitoring_files import FOLDER, ROOT, RULE_TESTS, RULES, alerts, expressions, recorded
from promql import selectors
from scripts.monitoring.slo import OBJECTIVES, SPEEDS, WINDOWS

RUNBOOK = ROOT / "docs" / "how-to" / "runbook.md"
PARTS = ["Symptom", "Meaning", "First steps", "Commands"]
needs_promtool = pytest.mark.system(program="promtool", package="prometheus")


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_rules_and_configuration_are_valid() -> None:
    promtool("check", "rules", *RULES)
    promtool("check", "config", FOLDER / "prometheus.yml")


@needs_promtool
@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_alerts_fire_and_stay_silent(path: Path) -> None:
    promtool("test", "rules", path)


def test_every_alert_fires_in_a_test_and_is_silent_in_another() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for path in RULE_TESTS:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            assert test["input_series"], test["name"]
            for expected in test["alert_rule_test"]:
                (fires if expected["exp_alerts"] else silent).add(expected["alertname"])
    assert fires == silent == set(alerts())


def test_an_alert_has_a_severity_and_a_description() -> None:
    for name, rule in alerts().items():
        assert re.fullmatch(r"Citewire([A-Z][a-z]+)+", name)
        assert rule["labels"]["severity"] in {"page", "ticket"}, name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["runbook_url"] == f"docs/how-to/runbook.md#{name.lower()}"


def test_the_runbook_has_exactly_one_entry_for_each_alert() -> None:
    _, *entries = re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    names = [entry.split("\n", 1)[0] for entry in entries]
    assert len(names) == len(set(names))
    assert set(names) == set(alerts())
    for name, entry in zip(names, entries, strict=True):
        assert re.findall(r"^\*\*(.+?)\.\*\*", entry, re.MULTILINE) == PARTS, name
        assert f"*{alerts()[name]['labels']['severity'].capitalize()}*" in entry, name
        assert re.search(r"^```\n.+\n```$", entry, re.MULTILINE | re.DOTALL), name


def test_every_series_that_is_used_is_recorded() -> None:
    ratios = {f"citewire:{objective.series}:rate{window}" for objective in OBJECTIVES for window in WINDOWS}
    assert recorded() == ratios | {f"citewire:chats:rate{window}" for window in WINDOWS}
    used = {selector.name for expression in expressions() for selector in selectors(expression.text)}
    assert {name for name in used if name.startswith("citewire:")} <= recorded()


def test_every_window_of_an_alert_is_recorded() -> None:
    for speed in SPEEDS:
        for burn in speed.burns:
            assert {burn.long, burn.short} <= set(WINDOWS)
