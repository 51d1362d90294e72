"""One stack for all end-to-end tests, started as a user starts it; tests that kill things start their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from http_api import upload
from local_stack import LocalStack, local_stack, prepared


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """`citewire up` without the sample library, on free ports, in a temporary folder.

    `stack.base_url`, `stack.pids()`, `stack.ports("metrics_port")`, `stack.logs`, `stack.metrics(name)`. A test
    that kills a process here waits until it is back (`wait_restarted`), or else other tests fail.
    """
    with local_stack(prepared(tmp_path_factory.mktemp("stack"))) as stack:
        yield stack


@pytest.fixture(scope="session")
def egress_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack that may call tenants' providers on this machine. A test that saves one or a budget deletes it again."""
    with local_stack(
        prepared(tmp_path_factory.mktemp("egress_stack")), environ={"CITEWIRE_EGRESS_ALLOW": "127.0.0.1"}
    ) as stack:
        yield stack


@pytest.fixture
async def api(stack: LocalStack) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the stack's HTTP API."""
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def document_ids() -> dict[Path, int]:
    """The ids of the documents that `upload_once` has uploaded."""
    return {}


@pytest.fixture
def upload_once(api: httpx.AsyncClient, document_ids: dict[Path, int]) -> Callable[[Path], Awaitable[int]]:
    """Uploads a file to the stack unless it is there, for tests that only read it; returns the document's id."""

    async def find_or_upload(path: Path) -> int:
        if path not in document_ids:
            document_ids[path] = (await upload(api, path))["id"]
        return document_ids[path]

    return find_or_upload
