"""Fixtures of the fuzz tests of HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzz_target import FuzzTarget, fuzz_target
from local_stack import prepared


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzTarget]:
    """A running stack with two organisations, for tests that attack one from the other."""
    with fuzz_target(prepared(tmp_path_factory.mktemp("fuzz"))) as target:
        yield target
