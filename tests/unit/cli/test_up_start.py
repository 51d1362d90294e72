"""`citewire up` from start to end, with stand-ins for our services and the real Postgres: order, failures, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from citewire_cli.stack.sample import sample_sources
from local_stack import PORTS, StackError, local_stack, prepared
from small_disk import can_have_disks, small_disk_stack

STAND_IN = """
import http.server, json, os, pathlib, signal, sys, threading, time

name = NAME
if sys.argv[1:2] == ["worker"]:
    name = "worker"
told = json.loads(os.environ["STAND_INS"]).get(name, {})
print(f"{name} says hello", flush=True)
if "exit" in told:
    print("boom: " + told["exit"], flush=True)
    sys.exit(3)
assert os.environ["CITEWIRE_AUTH"] == "off"


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"{}"
        self.send_response(503 if told.get("not_ready") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(variable):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ[variable])), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def bye(*_):
    if told.get("stubborn"):
        print("not yet", flush=True)
        return
    with open(os.environ["ENDS"], "a") as ends:
        ends.write(name + "\\n")
    os._exit(0)


signal.signal(signal.SIGTERM, bye)
if not told.get("silent"):
    serve(f"CITEWIRE_{name.upper()}_METRICS_PORT")
    if name == "gateway":
        serve("CITEWIRE_GATEWAY_PORT")
while True:
    signal.pause()
"""

SCHEMA_STAND_IN = """
import json, os, sys
from citewire_kit.migrate import OwnedSchema

name = NAME
told = json.loads(os.environ["STAND_INS"]).get("migrate_" + name, {})
print(f"migrate_{name} says hello", flush=True)
if "exit" in told:
    print("boom: " + told["exit"], flush=True)
    sys.exit(3)
assert "citewire_owner@" in os.environ[f"CITEWIRE_{name.upper()}_MIGRATE_DSN"]
SCHEMA = OwnedSchema(name, package="citewire_" + name, prefix=f"CITEWIRE_{name.upper()}_")
"""


class StandIns:
    """A folder of stand-ins that shadow our packages, and the settings of their processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.ends_file = folder / "ends"
        for name in ("embedder", "retriever", "generator", "gateway", "ledger"):
            package = folder / "packages" / f"citewire_{name}"
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "__main__.py").write_text(STAND_IN.replace("NAME", repr(name), 1))
            if name in ("ledger", "retriever", "gateway"):
                (package / "migrations").mkdir()
                (package / "migrations" / "__init__.py").write_text(SCHEMA_STAND_IN.replace("NAME", repr(name), 1))
                (package / "migrations" / "0001_stand_in.sql").write_text(f"CREATE TABLE {name}.stand_in ();")

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def environ(self, told: dict[str, dict[str, object]]) -> dict[str, str]:
        return {
            "PYTHONPATH": str(self.folder / "packages"),
            "STAND_INS": json.dumps(told),
            "ENDS": str(self.ends_file),
            "TEST_MARK": self.mark,
        }

    def ends(self) -> list[str]:
        return self.ends_file.read_text().split()

    def left(self) -> list[str]:
        """Processes that still run, of all that were started, Postgres included."""
        return [" ".join(process.cmdline()) for process in psutil.process_iter() if marked(process, self.mark)]


def marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get("TEST_MARK") == mark
    except psutil.Error:
        return False


@pytest.fixture
def stand_ins(tmp_path: Path) -> Iterator[StandIns]:
    stand_ins = StandIns(tmp_path)
    yield stand_ins
    assert stand_ins.left() == []


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(stand_ins: StandIns) -> Iterator[Start]:
    """Returns a function that starts `citewire up` without waiting."""
    started: list[subprocess.Popen[str]] = []

    def begin(told: dict[str, dict[str, object]], *arguments: str) -> subprocess.Popen[str]:
        environ = {**os.environ, **dict.fromkeys(PORTS, "0"), **stand_ins.environ(told)}
        environ["CITEWIRE_DATA_DIR"] = str(prepared(stand_ins.data_dir))
        command = [sys.executable, "-m", "citewire_cli", "up", "--no-sample", *arguments]
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def test_start_and_end_in_order(stand_ins: StandIns) -> None:
    with local_stack(stand_ins.data_dir, environ=stand_ins.environ({})) as stack:
        stack.wait(lambda: stack.events("welcome") or None, "no welcome")
        assert stack.base_url.startswith("http://127.0.0.1:")
        assert (stack.logs / "retriever.log").read_text() == "retriever says hello\n"
        owners = ["ledger", "retriever", "gateway"]
        lines = (stack.logs / "migrate.log").read_text().splitlines()
        assert lines[:3] == [f"migrate_{name} says hello" for name in owners]
        logged = [json.loads(line) for line in lines[3:]]
        assert [entry["schema"] for entry in logged if entry["event"] == "migration_applied"] == owners
        postgres = psutil.Process(stack.pid("postgres"))
        assert stack.stop(signal.SIGINT) == 0
    ends = stand_ins.ends()
    assert ends[0] == "gateway"
    assert sorted(ends[1:]) == ["embedder", "generator", "retriever", "worker"]
    assert not postgres.is_running()
    assert "database system is shut down" in (stand_ins.data_dir / "logs" / "postgres.log").read_text()
    assert not (stand_ins.data_dir / "run.json").exists()


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("generator", "generator ended with exit code 3 before the stack was ready"),
        ("worker", "worker ended with exit code 3 before the stack was ready"),
        ("migrate_gateway", "The migrations failed"),
    ],
)
def test_early_death_ends_everything_with_the_reason(stand_ins: StandIns, start: Start, name: str, title: str) -> None:
    out, err = start({name: {"exit": "no such setting"}}).communicate(timeout=120)
    assert title in err
    assert "boom: no such setting" in err
    assert "Traceback" not in out + err
    assert out.rstrip().endswith("Everything is stopped.")
    assert stand_ins.left() == []


def test_exit_code_of_a_failed_start(start: Start) -> None:
    process = start({"embedder": {"exit": "x"}}, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    error = json.loads(err)
    assert error["error"]["title"] == "embedder ended with exit code 3 before the stack was ready"
    assert error["tail"] == ["embedder says hello", "boom: x"]
    assert [json.loads(line)["event"] for line in out.splitlines()][-1] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_in_the_middle_of_the_start(start: Start, number: signal.Signals) -> None:
    process = start({"embedder": {"silent": True}})
    assert process.stdout is not None
    for line in process.stdout:
        if "gateway" in line and "ready" in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.rstrip().endswith("Everything is stopped.")


def test_second_ctrl_c_stops_at_once(stand_ins: StandIns) -> None:
    told: dict[str, dict[str, object]] = {"gateway": {"stubborn": True}}
    arguments = ("--no-sample", "--grace", "600")
    with local_stack(prepared(stand_ins.data_dir), arguments=arguments, environ=stand_ins.environ(told)) as stack:
        stack.process.send_signal(signal.SIGINT)
        # The same keystroke may arrive twice at once, which doesn't count as a second.
        stack.process.send_signal(signal.SIGINT)
        gateway = stack.logs / "gateway.log"
        stack.wait(lambda: "not yet" in gateway.read_text() or None, "the gateway was not asked to end")
        time.sleep(0.7)  # a person's second keystroke
        began = time.monotonic()
        assert stack.stop(signal.SIGINT) == 0
        assert time.monotonic() - began < 20


def test_child_that_dies_after_readiness_is_reported_and_restarted(stand_ins: StandIns) -> None:
    with local_stack(prepared(stand_ins.data_dir), environ=stand_ins.environ({})) as stack:
        for name in ("postgres", "gateway"):
            old = stack.kill(name)
            stack.wait_restarted(name, old)
        assert [event["process"] for event in stack.events("process_ended")] == ["postgres", "gateway"]
        assert stack.restarts("worker") == 0


@pytest.mark.skipif(not can_have_disks(), reason="user namespaces are off, so that no disk can be mounted")
def test_child_that_dies_on_a_full_disk_is_restarted(stand_ins: StandIns) -> None:
    with small_disk_stack(stand_ins.data_dir, mebibytes=200, environ=stand_ins.environ({})) as stack:
        stack.fill_disk()
        old = stack.kill("gateway")
        ready = len(stack.events("process_ready"))
        stack.wait(lambda: len(stack.events("process_ready")) > ready or None, "it isn't started again")
        stack.free_disk()
        assert stack.wait_restarted("gateway", old) != old, "the restart is logged once there is room"


def test_start_that_takes_too_long_is_reported_by_the_helper(stand_ins: StandIns) -> None:
    with pytest.raises(StackError, match="generator ended with exit code 3"):
        with local_stack(prepared(stand_ins.data_dir), environ=stand_ins.environ({"generator": {"exit": "x"}})):
            pass


def test_sample_library_is_where_the_command_expects_it() -> None:
    names = {source.name for source in sample_sources()}
    assert {"travel-expenses.md", "deck-safety.pdf", "offices.csv", "fares.tsv", "seat-hold.ts"} <= names
    assert "README.md" not in names
    assert sum(source.path.stat().st_size for source in sample_sources()) < 200_000
