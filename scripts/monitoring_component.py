"""Copies the alert rules and dashboards of deploy/monitoring into the Kubernetes component.

kustomize loads no files from outside its own folder, so the component has copies: `make monitoring` writes them, and a
test fails if they aren't current.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "deploy" / "monitoring"
COMPONENT = ROOT / "deploy" / "k8s" / "components" / "monitoring"
_HEADER = "# Made by `make monitoring` from deploy/monitoring. Change it there.\n"


def component_files(source: Path = SOURCE) -> dict[str, str]:
    """Returns the expected files of the component, by path."""
    files = {f"dashboards/{path.name}": _compact(path) for path in sorted((source / "dashboards").glob("*.json"))}
    for path in sorted((source / "rules").glob("*.yaml")):
        files[f"rules/{path.name}"] = _HEADER + yaml.safe_dump(_rule(path), sort_keys=False, width=200)
    files["rules/kustomization.yaml"] = _listing(
        "resources", sorted(path.name for path in (source / "rules").glob("*.yaml"))
    )
    files["dashboards/kustomization.yaml"] = _dashboards([path.name for path in (source / "dashboards").glob("*.json")])
    return files


def stale(files: dict[str, str], component: Path = COMPONENT) -> list[str]:
    """Returns the paths in the component that are missing, different, or obsolete."""
    there = {
        str(path.relative_to(component)): path.read_text(encoding="utf-8")
        for folder in ("rules", "dashboards")
        for path in (component / folder).glob("*")
    }
    return sorted(name for name in there.keys() | files.keys() if there.get(name) != files.get(name))


def write(files: dict[str, str], component: Path = COMPONENT) -> list[str]:
    """Updates the component; returns the changed paths."""
    changed = stale(files, component)
    for name in changed:
        path = component / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name], encoding="utf-8")
        else:
            path.unlink()
    return changed


def _rule(path: Path) -> dict[str, Any]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": f"citewire-{path.stem}"},
        "spec": {"groups": groups},
    }


def _compact(path: Path) -> str:
    """A dashboard on one line, because a ConfigMap is limited to 1 MiB."""
    return json.dumps(json.loads(path.read_text(encoding="utf-8")), separators=(",", ":")) + "\n"


def _listing(kind: str, entries: list[Any]) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    return _HEADER + yaml.safe_dump({**head, kind: entries}, sort_keys=False)


def _dashboards(names: list[str]) -> str:
    maps = [
        {
            "name": name.removesuffix(".json"),
            "namespace": "citewire",
            "files": [name],
            "options": {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}},
        }
        for name in sorted(names)
    ]
    return _listing("configMapGenerator", maps)


def main() -> int:
    """Writes the copies; with `--check`, lists those that aren't current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file isn't current")
    files = component_files()
    changed = stale(files) if parser.parse_args().check else write(files)
    sys.stdout.write("".join(f"{name}\n" for name in changed))
    return 1 if changed and parser.parse_args().check else 0


if __name__ == "__main__":
    raise SystemExit(main())
