"""The Kubernetes component contains the current rules and dashboards of deploy/monitoring."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from scripts.monitoring_component import SOURCE, component_files, stale, write


def test_its_copies_are_current() -> None:
    assert stale(component_files()) == [], "run `make monitoring`"


def test_the_component_contains_everything() -> None:
    files = component_files()
    groups = [
        group["name"]
        for name, text in files.items()
        if name.startswith("rules/") and not name.endswith("kustomization.yaml")
        for group in yaml.safe_load(text)["spec"]["groups"]
    ]
    sources = [yaml.safe_load(path.read_text())["groups"] for path in (SOURCE / "rules").glob("*.yaml")]
    assert sorted(groups) == sorted(group["name"] for source in sources for group in source)
    for path in (SOURCE / "dashboards").glob("*.json"):
        copy = files[f"dashboards/{path.name}"]
        assert json.loads(copy) == json.loads(path.read_text())
        assert len(copy) < 1024 * 1024


def test_changed_missing_and_unwanted_files_are_detected_and_fixed(tmp_path: Path) -> None:
    files = {"rules/a.yaml": "a", "dashboards/b.json": "b"}
    assert write(files, tmp_path) == ["dashboards/b.json", "rules/a.yaml"]
    assert stale(files, tmp_path) == []
    (tmp_path / "rules" / "a.yaml").write_text("changed")
    (tmp_path / "dashboards" / "b.json").unlink()
    (tmp_path / "rules" / "old.yaml").write_text("old")
    assert stale(files, tmp_path) == ["dashboards/b.json", "rules/a.yaml", "rules/old.yaml"]
    write(files, tmp_path)
    assert stale(files, tmp_path) == []
