"""Fixtures that all tests share: the sample data, a real Postgres, and a machine without a way out."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import cast

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

import client_rows
from benchmarks.tables import format_table
from bytecode import keep_bytecode
from citewire_kit import metrics as kit_metrics
from citewire_ledger import metrics as ledger_metrics
from citus_cluster import CitusCluster, start_citus_cluster, temporary_database
from databases import Database
from devtools import Chromium, running_chromium
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from local_stack import prepared
from network_guard import block_network, forget_environment
from open_connections import trace_connections
from paced_model_stack import PacedModelStack, paced_model_stack
from proof_scale import PrintTable, ProofScale
from stack_scheduling import StackScheduling

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = "citewire_template"
# Owners of a schema, with the environment variable that names the database to migrate. In the order of their needs.
_OWNERS = {
    "citewire_retriever": "CITEWIRE_RETRIEVER_MIGRATE_DSN",
    "citewire_gateway": "CITEWIRE_GATEWAY_MIGRATE_DSN",
    "citewire_ledger": "CITEWIRE_LEDGER_MIGRATE_DSN",
}
_FORBID_SKIPS = pytest.StashKey[bool]()
_TOLD_FORBID_SKIPS, _TOLD_LEFT_OUT, _TOLD_TABLES = "citewire_forbid_skips", "citewire_left_out", "citewire_tables"
_LEFT_OUT = "left out: "
# The data is no package that could be installed, so its absence is no reason to fail where skips are forbidden.
_NO_REFERENCE_DATA = f"{_LEFT_OUT}the reference data (../shared/data, beside the repository) is not here"
_NO_CITUS = f"{_LEFT_OUT}Citus for the embedded Postgres (../shared/citus, beside the repository) is not here"
_LEFT_OUT_KEY = pytest.StashKey[dict[str, int]]()
_TABLES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the long proofs."""
    group = parser.getgroup("citewire")
    group.addoption("--full", action="store_true", help="run long proofs in full instead of scaled down")
    group.addoption(
        "--engine",
        choices=("postgres", "citus"),
        default="postgres",
        help="what the fixture `database` is a database of",
    )
    group.addoption("--seed", type=int, default=1, help="seed of the random choices of long proofs (default: 1)")


def pytest_report_header(config: pytest.Config) -> str:
    """Prints what a long proof would be run again with."""
    return f"long proofs: {'full' if config.getoption('--full') else 'scaled down'}, seed {config.getoption('--seed')}"


def pytest_configure(config: pytest.Config) -> None:
    """Reads what the run is told, then forgets the environment before any module can read it."""
    config.pluginmanager.register(client_rows)
    told = getattr(config, "workerinput", {}).get(_TOLD_FORBID_SKIPS)  # what the run on several cores was told
    asked = os.environ.get("CITEWIRE_FORBID_SKIPS", "") not in {"", "0"}
    config.stash[_FORBID_SKIPS] = asked if told is None else bool(told)
    config.stash[_LEFT_OUT_KEY] = {}
    config.stash[_TABLES] = []
    config.addinivalue_line(
        "markers", "system(program, package): needs a program of the operating system; left out where it is missing"
    )
    config.addinivalue_line(
        "markers", "one_postgres(why): can't run on a Citus cluster; left out with `--engine citus`"
    )
    forget_environment()
    keep_bytecode()
    _keep_children_from_ignoring_signals()


def _leave_be(_number: int, _frame: FrameType | None) -> None:
    """Handles a signal like one that is ignored."""


def _keep_children_from_ignoring_signals() -> None:
    """Lets processes that tests start end by SIGINT and SIGHUP, also where this run was told to ignore these.

    A shell's `nohup make test &` starts it so. A child inherits what is ignored, but not what is handled.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _leave_be)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> StackScheduling | None:
    """Lets files that share a stack run in one process; with another `--dist` than ours, xdist decides."""
    return StackScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Hands what this run was told to a process of pytest-xdist, whose environment has forgotten it."""
    told = cast("dict[str, object]", node.workerinput)  # pyright: ignore[reportUnknownMemberType] # untyped there
    told[_TOLD_FORBID_SKIPS] = node.config.stash[_FORBID_SKIPS]


def pytest_collection_finish() -> None:
    """Leaves all that was imported out of later garbage collections: a full one took 0.6 s, and tests ask for many."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands what is to be printed from a process of pytest-xdist to the one that prints."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_TOLD_LEFT_OUT] = session.config.stash[_LEFT_OUT_KEY]
        output[_TOLD_TABLES] = session.config.stash[_TABLES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Takes what a process of pytest-xdist wants printed; one that crashed has left nothing."""
    output: dict[str, object] = getattr(node, "workeroutput", {})
    node.config.stash[_TABLES] += cast("list[str]", output.get(_TOLD_TABLES, []))
    counts = node.config.stash[_LEFT_OUT_KEY]
    for reason, count in cast("dict[str, int]", output.get(_TOLD_LEFT_OUT, {})).items():
        counts[reason] = counts.get(reason, 0) + count


@pytest.fixture(scope="session", autouse=True)
def _guarded() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] # pytest calls it: autouse
    with pytest.MonkeyPatch.context() as patch:
        block_network(patch)
        trace_connections(patch)
        yield


@pytest.fixture(autouse=True)
def _room_for_labels(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest calls it: autouse
    """Bounded labels begin anew for each test: others of this process may have used up those that are kept apart."""
    for module in (kit_metrics, ledger_metrics):
        for name, limit in (("_models", 64), ("_providers", 16), ("_error_types", 64)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, kit_metrics.LabelGuard(limit))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The reference data beside the repository; tests that need it are skipped where it is absent."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(_NO_REFERENCE_DATA)
    return path


@pytest.fixture(scope="session")
def proof(pytestconfig: pytest.Config) -> ProofScale:
    """Scale and seed of a long proof."""
    return ProofScale(full=bool(pytestconfig.getoption("--full")), seed=int(str(pytestconfig.getoption("--seed"))))


@pytest.fixture(scope="session")
def print_table(pytestconfig: pytest.Config) -> PrintTable:
    """Takes a title, headings and rows, and prints them as a table at the end of the run."""

    def collect(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        pytestconfig.stash[_TABLES].append(f"{title}\n{format_table(headings, rows)}")

    return collect


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """A Postgres 18 with pgvector for the whole session. Crash tests start one of their own, with `durable=True`."""
    with start_embedded_postgres(in_memory=True) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres_server: EmbeddedPostgres) -> str:
    """Name of a database with every owner's migrations applied, to be copied and never connected to."""
    postgres_server.create_database(TEMPLATE)
    for package in _OWNERS:
        if importlib.util.find_spec(package) is None or importlib.util.find_spec(f"{package}.__main__") is None:
            continue
        _migrate(package, postgres_server.dsn(database=TEMPLATE))
    return TEMPLATE


def _migrate(package: str, dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", package, "migrate"],
        env={**os.environ, _OWNERS[package]: dsn},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"`{package} migrate` failed with {done.returncode}:\n{done.stdout}{done.stderr}", pytrace=False)


@pytest.fixture
def database(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[Database]:
    """A fresh database with all migrations applied; with `--engine citus` a cluster's."""
    name = "citus_database" if pytestconfig.getoption("--engine") == "citus" else "plain_database"
    return request.getfixturevalue(name)


@pytest.fixture(scope="module")
def shared_database(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[Database]:
    """The same for all tests of a file, which only read it."""
    if pytestconfig.getoption("--engine") == "citus":
        cluster, template = (request.getfixturevalue(name) for name in ("citus_cluster", "citus_template"))
        yield from temporary_database(cluster, template)
    else:
        server, template = (request.getfixturevalue(name) for name in ("postgres_server", "migrated_template"))
        yield from _temporary_database(server, template)


@pytest.fixture
def plain_database(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[Database]:
    """A fresh database of one Postgres with all migrations applied."""
    yield from _temporary_database(postgres_server, migrated_template)


@pytest.fixture(scope="session")
def citus_archive() -> Path:
    """The extension Citus for the embedded Postgres; tests that need it are skipped where it is absent."""
    archives = sorted((ROOT.parent / "shared" / "citus").glob("citus-*-pg18*.tar.gz"))
    if not archives:
        pytest.skip(_NO_CITUS)
    return archives[-1]


@pytest.fixture(scope="session")
def citus_cluster(citus_archive: Path) -> Iterator[CitusCluster]:
    """A Citus cluster of a coordinator and two workers."""
    with start_citus_cluster(citus_archive) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def citus_template(citus_cluster: CitusCluster) -> str:
    """Name of a cluster's database with every owner's migrations applied, to be copied and never connected to.

    Only the retriever's tables are distributed; the others are on the coordinator.
    """
    citus_cluster.create_database(TEMPLATE)
    for package in _OWNERS:
        _migrate(package, citus_cluster.coordinator.dsn(database=TEMPLATE))
    citus_cluster.close_database(TEMPLATE)
    return TEMPLATE


@pytest.fixture
def citus_database(citus_cluster: CitusCluster, citus_template: str) -> Iterator[Database]:
    """A fresh database of the cluster with all migrations applied."""
    yield from temporary_database(citus_cluster, citus_template)


@pytest.fixture
def empty_database(postgres_server: EmbeddedPostgres) -> Iterator[Database]:
    """A fresh database without migrations. Roles are the server's: migrations of other tests may have made them."""
    yield from _temporary_database(postgres_server, None)


def _temporary_database(server: EmbeddedPostgres, template: str | None) -> Iterator[Database]:
    name = f"test_{uuid.uuid4().hex}"
    server.create_database(name, template=template)
    try:
        yield Database(name, server)
    finally:
        server.drop_database(name)


@pytest.fixture(scope="session")
def paced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedModelStack]:
    """`citewire up` whose model is the paced upstream: one stack for all tests that cut answers or kill processes.

    Whoever kills a process waits until it is back (`wait_restarted`), or others fail.
    """
    with paced_model_stack(prepared(tmp_path_factory.mktemp("paced"))) as stack:
        yield stack


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A Chromium for the whole session: each test opens a page of its own in it, by `chromium.page()`."""
    with running_chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out a test whose system package is missing, and says how to have it."""
    for marker in item.iter_markers("system"):
        program, package = marker.kwargs["program"], marker.kwargs["package"]
        if shutil.which(program) is None:
            pytest.skip(f"{_LEFT_OUT}{program} is not installed; to have it: apt-get install {package}")
    if item.config.getoption("--engine") == "citus" and (marker := item.get_closest_marker("one_postgres")):
        pytest.skip(f"{_LEFT_OUT}of one Postgres: {marker.args[0]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Counts what was left out, and turns skips into failures where nothing may be."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = _skip_reason(report)
        if reason.startswith(_LEFT_OUT):
            counts = item.config.stash[_LEFT_OUT_KEY]
            counts[reason] = counts.get(reason, 0) + 1
        _fail_if_forbidden(item.config, report, reason)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns the skip of a whole module into a failure where nothing may be skipped."""
    report = yield
    if report.skipped:
        _fail_if_forbidden(collector.config, report, _skip_reason(report))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the tables of long proofs, and says what was left out for lack of a system package."""
    for table in config.stash[_TABLES]:
        terminalreporter.write_line(f"\n{table}")
    for reason, count in sorted(config.stash[_LEFT_OUT_KEY].items()):
        terminalreporter.write_line(f"{reason} ({count} tests)", yellow=True)


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def _fail_if_forbidden(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport, reason: str) -> None:
    if config.stash[_FORBID_SKIPS] and reason not in (_NO_REFERENCE_DATA, _NO_CITUS):
        report.outcome = "failed"
        report.longrepr = f"skipped, but CITEWIRE_FORBID_SKIPS is set: {reason}"
