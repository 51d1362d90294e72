"""The reader of many streams is a measuring instrument: it must count what arrives, and notice streams that end."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.relay_load import Target, open_streams
from benchmarks.upstream import Upstream, UpstreamSettings

BODY: dict[str, object] = {"model": "paced", "messages": [{"role": "user", "content": "hello"}], "stream": True}


async def test_open_streams_are_measured_and_then_cut() -> None:
    upstream = Upstream(UpstreamSettings(rate=50, tokens=1000))
    async with upstream.running() as base_url:
        async with open_streams(_target(base_url), 3) as opened:
            await opened.first_tokens()
            core = min(os.sched_getaffinity(0))
            load = await opened.measure(rate=50, window=0.5, core=core, cpu_seconds=time.process_time)
            opened.check_open()
        await upstream.wait_closed_early(3)
    assert load.streams == 3
    assert 0 < load.tokens <= upstream.stats.tokens_sent
    # A read brings at least one token, of which the reader and the upstream in this process spend some time.
    assert load.cpu_us_per_read >= load.cpu_us_per_token > 0


async def test_streams_that_have_ended_cannot_be_measured() -> None:
    upstream = Upstream(UpstreamSettings(rate=1000, tokens=3))
    async with upstream.running() as base_url, open_streams(_target(base_url), 2) as opened:
        assert await opened.finish(patience=10) == 0
        with pytest.raises(RuntimeError, match="2 of 2 streams ended"):
            opened.check_open()


def _target(base_url: str) -> Target:
    port = int(base_url.removesuffix("/v1").rsplit(":", 1)[1])
    return Target("127.0.0.1", port, "/v1/chat/completions", BODY, b"data: [DONE]")
