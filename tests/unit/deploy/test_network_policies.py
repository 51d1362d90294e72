"""The labels by which the network policies admit callers, and their documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from manifest_policies import CALLED

ROOT = Path(__file__).resolve().parents[3]
BASE = ROOT / "deploy" / "k8s" / "base"
PAGES = [BASE / "README.md", ROOT / "docs" / "how-to" / "grpc.md", ROOT / "docs" / "how-to" / "deploy.md"]
LABEL = re.compile(r"citewire\.dev/calls-[a-z]+")


def policies() -> dict[str, Any]:
    return {
        entry["metadata"]["name"]: entry for entry in yaml.safe_load_all((BASE / "network-policies.yaml").read_text())
    }


def test_each_service_admits_by_its_own_label_only() -> None:
    named = policies()
    admitting = {name: set(LABEL.findall(str(entry["spec"].get("ingress")))) for name, entry in named.items()}
    expected = {name: {f"citewire.dev/calls-{name}"} if name in CALLED else set[str]() for name in named}
    assert admitting == expected


def test_another_namespace_carries_the_label_as_well() -> None:
    for name in CALLED:
        label = {"matchLabels": {f"citewire.dev/calls-{name}": "true"}}
        [rule] = policies()[name]["spec"]["ingress"]
        own, elsewhere = (peer for peer in rule["from"] if peer["podSelector"] == label)
        assert own == {"podSelector": label}
        assert elsewhere == {"podSelector": label, "namespaceSelector": label}
        assert [entry["port"] for entry in rule["ports"]] == [{"embedder": 50051, "retriever": 50052}.get(name, 50053)]


def test_every_page_names_existing_labels() -> None:
    labels = {f"citewire.dev/calls-{name}" for name in CALLED}
    for page in PAGES:
        assert set(LABEL.findall(page.read_text(encoding="utf-8"))) == labels, page.name
