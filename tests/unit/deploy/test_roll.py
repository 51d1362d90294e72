"""deploy/k8s/roll.sh against a kubectl that records its calls."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROLL = Path(__file__).resolve().parents[3] / "deploy" / "k8s" / "roll.sh"
KUBECTL = """#!/usr/bin/env bash
echo "$*" >> "$ASKED"
case "$*" in
  "get --raw /version"*) [ "$FAILING" != cluster ] || { echo "The connection was refused" >&2; exit 1; } ;;
  kustomize*) echo "kind: $KIND" ;;
  *wait*=Complete*"job/$FAILING "*) exit 1 ;;
  *wait*=Failed*) case "$*" in *"job/$FAILING "*) exit 0 ;; *) exit 1 ;; esac ;;
esac
"""


@pytest.fixture
def call_log(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL)
    program.chmod(0o755)
    return tmp_path / "asked"


def roll(call_log: Path, *, kind: str = "Deployment", failing: str = "none") -> tuple[int, list[str]]:
    done = subprocess.run(
        [str(ROLL), "overlay"],
        env={
            "PATH": f"{call_log.parent / 'bin'}:{os.environ['PATH']}",
            "ASKED": str(call_log),
            "KIND": kind,
            "FAILING": failing,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, call_log.read_text().splitlines()


def order(lines: list[str], *parts: str) -> list[int]:
    return [next(number for number, line in enumerate(lines) if part in line) for part in parts]


def test_the_steps_run_in_order(call_log: Path) -> None:
    code, lines = roll(call_log)
    assert code == 0
    steps = order(
        lines,
        "-l !citewire.dev/step",
        "delete job migrate-pre",
        "-l citewire.dev/step=migrate-pre",
        "--for=condition=Complete job/migrate-pre",
        "-l citewire.dev/step=serve",
        "rollout status deployment/gateway",
        "get pods",
        "delete job migrate-post",
        "-l citewire.dev/step=migrate-post",
        'patch job migrate-post --type merge -p {"spec":{"suspend":false}}',
        "--for=condition=Complete job/migrate-post",
    )
    assert steps == sorted(steps)
    assert not [line for line in lines if "cluster/" in line]


def test_our_own_database_is_waited_for(call_log: Path) -> None:
    code, lines = roll(call_log, kind="Cluster")
    assert code == 0
    waited, migrated = order(lines, "--for=condition=Ready cluster/citewire-postgres", "step=migrate-pre")
    assert waited < migrated


def test_each_node_of_a_cluster_is_waited_for(call_log: Path) -> None:
    code, lines = roll(call_log, kind="StatefulSet\nmetadata:\n  name: citus-coordinator")
    assert code == 0
    nodes = ["rollout status statefulset/citus-coordinator", "rollout status statefulset/citus-worker"]
    waited = order(lines, "-l !citewire.dev/step", *nodes, "step=migrate-pre")
    assert waited == sorted(waited)


def test_nothing_is_rolled_out_after_a_failed_migration(call_log: Path) -> None:
    code, lines = roll(call_log, failing="migrate-pre")
    assert code == 1
    assert "logs job/migrate-pre --all-containers --tail=50" in " ".join(lines)
    assert not [line for line in lines if "step=serve" in line or "migrate-post" in line]


def test_without_a_cluster_it_says_so_and_stops(call_log: Path) -> None:
    environ = {"PATH": f"{call_log.parent / 'bin'}:{os.environ['PATH']}", "ASKED": str(call_log), "FAILING": "cluster"}
    done = subprocess.run([str(ROLL), "overlay"], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    first, reason, advice = done.stderr.splitlines()
    assert first == "roll.sh: no cluster answers; nothing was changed"
    assert reason == "roll.sh: The connection was refused"
    assert "kubectl config use-context" in advice
    assert len(call_log.read_text().splitlines()) == 1


def test_without_an_overlay_it_prints_its_usage() -> None:
    done = subprocess.run([str(ROLL)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "roll.sh: usage: deploy/k8s/roll.sh OVERLAY, for example deploy/k8s/overlays/dev\n",
    )
