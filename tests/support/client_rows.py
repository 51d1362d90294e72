"""A pytest plugin for tests of clients: each test's row of docs/clients.md, and the number of rows proved by a run."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

import pytest

from scripts.client_table import CLIENTS, version_of

_ROW = "client row"


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark."""
    config.addinivalue_line(
        "markers",
        "client(name, feature, refused=''): a row of docs/clients.md; `refused` is the client's error message",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Records the test's row, and checks that the version on the page is the one that runs."""
    for marker in item.iter_markers("client"):
        name, feature = marker.args
        if marker.kwargs.get("refused") and "refusal" not in getattr(item, "fixturenames", ()):
            pytest.fail("a test of a refusal uses the fixture `refusal` to check the client's error message")
        client = CLIENTS[name]
        if client.pinned is not None and client.pinned.name == "uv.lock":
            _is_installed(client.package, version_of(name))
        item.user_properties.append((_ROW, f"{name}: {feature}"))


def _is_installed(package: str, expected: str) -> None:
    try:
        installed = version(package)
    except PackageNotFoundError:
        installed = "nothing"
    assert installed == expected, f"the lock has {package} {expected}, and {installed} is installed"


@pytest.fixture
def refusal(request: pytest.FixtureRequest) -> str:
    """The expected message as a pattern: the words of the test's mark, which the page shows."""
    (words,) = {
        marker.kwargs["refused"] for marker in request.node.iter_markers("client") if "refused" in marker.kwargs
    }
    return re.escape(words)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how many rows of docs/clients.md this run has proved."""
    rows: dict[str, set[object]] = {
        outcome: {
            value
            for report in terminalreporter.stats.get(outcome, [])
            if isinstance(report, pytest.TestReport)  # and not a file that can't be read
            for name, value in report.user_properties
            if name == _ROW
        }
        for outcome in ("passed", "failed", "error", "skipped")
    }
    bad = rows["failed"] | rows["error"]
    missing = rows["skipped"] - rows["passed"]
    good = rows["passed"] - bad
    if good or bad or missing:
        terminalreporter.write_line(
            f"docs/clients.md: {len(good)} rows shown, {len(bad)} failed, {len(missing)} left out", red=bool(bad)
        )
