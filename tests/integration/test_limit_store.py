"""Several gateways count limits in Redis, which dies, hangs and comes back. Valkey speaks the same protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection, create_server
from typing import TYPE_CHECKING

import pytest

from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit import limit_store
from citewire_kit.limit_store import Count, SharedStore, SlotLimit
from citewire_kit.metrics import LIMIT_STORE_UP
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import running_gateway
from limit_windows import stop_limit_windows
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="redis-server", package="redis-server")


@dataclass
class Redis:
    """A local server that a test can stop, freeze and restart."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = (
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            str(self.folder),
        )
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ends = time.monotonic() + 20
        while True:
            try:
                create_connection(("127.0.0.1", self.port), 1).close()
            except ConnectionRefusedError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)


@contextmanager
def running_redis(folder: Path) -> Generator[Redis]:
    with closing(create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    redis = Redis(folder, port)
    redis.start()
    try:
        yield redis
    finally:
        redis.stop()


def up() -> float:
    (metric,) = LIMIT_STORE_UP.collect()
    return metric.samples[0].value


async def test_gateways_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        limit_store, "ANSWER_SECONDS", 20.0
    )  # so that a busy machine doesn't look like an unreachable store
    with running_redis(tmp_path) as redis:
        async with AsyncExitStack() as stack:
            first, second = SharedStore(redis.url), SharedStore(redis.url)
            for store in (first, second):
                stack.push_async_callback(store.close)
            both = await asyncio.gather(*(store.add([Count("a", 1, 60)]) for store in (first, second) * 20))
            assert sorted(total for (total,) in both) == list(range(1, 41))
            assert await second.add([Count("a", -30, 60), Count("b", 5, 60), Count("a", 0, 60)]) == [10, 5, 10]
            slots = [SlotLimit("user", 2), SlotLimit("org", 3)]
            assert await first.take_slots(slots, "one", 60) is None
            assert await second.take_slots(slots, "two", 60) is None
            assert await second.take_slots(slots, "three", 60) == 0
            assert await first.take_slots([SlotLimit("other", 2), SlotLimit("org", 2)], "four", 60) == 1
            assert await first.take_slots([SlotLimit("other", 1)], "five", 60) is None  # the refused call took no slot
            await second.release_slots(slots, "two")
            assert await second.take_slots(slots, "three", 60) is None
            # The first gateway dies with a slot, which becomes free by itself.
            assert await first.take_slots([SlotLimit("short", 1)], "six", 1) is None

            async def is_free() -> bool:
                return await second.take_slots([SlotLimit("short", 1)], "seven", 60) is None

            await wait_until(is_free)


async def test_without_the_store_nobody_is_refused(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        async with AsyncExitStack() as stack:
            store = SharedStore(redis.url)
            stack.push_async_callback(store.close)
            assert await store.add([Count("a", 1, 60)]) == [1]
            redis.signal(signal.SIGSTOP)
            began = time.monotonic()
            totals = [(await store.add([Count("a", 1, 60)]))[0] for _ in range(100)]
            assert time.monotonic() - began < 4  # only the first call waits
            assert totals == list(range(1, 101))
            assert up() == 0
            assert await store.take_slots([SlotLimit("user", 1)], "one", 60) is None
            assert await store.take_slots([SlotLimit("user", 1)], "two", 60) == 0
            redis.signal(signal.SIGCONT)
            await store.release_slots([SlotLimit("user", 1)], "one")
            assert await store.take_slots([SlotLimit("user", 1)], "two", 60) is None
            await asyncio.sleep(5.1)
            assert (await store.add([Count("a", 1, 60)]))[0] < 101
            assert up() == 1


async def test_two_gateways_share_a_limit_and_serve_without_their_store(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_limit_windows(monkeypatch)
    monkeypatch.setattr(limit_store, "ANSWER_SECONDS", 20.0)
    limits = json.dumps({"free": {"requests": {"user": 10}, "tokens": {"user": 100_000}}})
    with running_redis(tmp_path) as redis:
        settings = {"auth": "keys", "plan_limits": limits, "limit_store": redis.url}
        async with (
            running_fakes() as fakes,
            running_gateway(database, fakes, **settings) as first,
            running_gateway(database, fakes, **settings) as second,
        ):
            pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
            key = make_key()
            await IdentityStore(pool).ensure_user("acme", "ana", "free")
            await IdentityStore(pool).add_key("acme", "ana", "test", key)
            await pool.close()
            headers = {"Authorization": f"Bearer {key.text}"}
            statuses = [
                (await gateway.http.get("/v1/documents", headers=headers)).status_code
                for gateway in (first, second) * 10
            ]
            assert statuses == [200] * 10 + [429] * 10
            redis.stop()
            for gateway in (first, second):
                answer = await gateway.http.post(
                    "/v1/chat", json={"question": "How?", "stream": False}, headers=headers
                )
                assert answer.status_code == 200, answer.text
