"""The paced upstream is a measuring instrument: what it claims must hold."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp
import pytest

from benchmarks.upstream import STAMP, Upstream, UpstreamSettings

REQUEST = {"model": "paced", "messages": [{"role": "user", "content": "hello"}], "stream": True}


async def test_a_stream_is_paced_stamped_and_ends_with_usage_and_done() -> None:
    upstream = Upstream(UpstreamSettings(rate=200, tokens=20))
    async with upstream.running() as base_url, aiohttp.ClientSession() as session:
        started = time.monotonic()
        body = {**REQUEST, "stream_options": {"include_usage": True}}
        async with session.post(f"{base_url}/chat/completions", json=body) as response:
            raw = await response.read()
        took = time.monotonic() - started
    frames = [frame.removeprefix("data: ") for frame in raw.decode().strip().split("\n\n")]
    assert frames[-1] == "[DONE]"
    chunks = [json.loads(frame) for frame in frames[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 20
    stamps = [int(stamp) / 1e6 for stamp in STAMP.findall(raw)]
    assert len(stamps) == 20
    assert stamps == sorted(stamps)
    assert started <= stamps[0] <= stamps[-1] <= started + took
    assert took >= 19 / 200
    assert upstream.stats.completed_streams == 1
    assert upstream.stats.open_streams == 0
    assert upstream.stats.closed_early == []


async def test_a_client_that_leaves_is_noticed_at_once() -> None:
    upstream = Upstream(UpstreamSettings(rate=5, tokens=1000))
    async with upstream.running() as base_url, aiohttp.ClientSession() as session:
        async with session.post(f"{base_url}/chat/completions", json=REQUEST) as response:
            await response.content.readuntil(b"t")
            assert upstream.stats.open_streams == 1
            left_at = time.monotonic()
        async with asyncio.timeout(5):
            closed = await upstream.wait_closed_early()
        stats = await (await session.get(base_url.removesuffix("/v1") + "/stats")).json()
    assert 0 <= closed[0] - left_at < 0.5
    assert stats["open_streams"] == 0
    assert len(stats["closed_early"]) == 1


async def test_a_cut_stream_has_no_terminal_frame_and_no_client_cancelled_it() -> None:
    upstream = Upstream(UpstreamSettings(rate=500, tokens=50, cut_after=3))
    async with upstream.running() as base_url, aiohttp.ClientSession() as session:
        async with session.post(f"{base_url}/chat/completions", json=REQUEST) as response:
            with pytest.raises(aiohttp.ClientError):
                await response.read()
    assert upstream.stats.tokens_sent == 3
    assert upstream.stats.closed_early == []


async def test_text_status_and_max_tokens() -> None:
    upstream = Upstream(UpstreamSettings(rate=1000, text="It is 42 [1]. Sure."))
    async with upstream.running() as base_url, aiohttp.ClientSession() as session:
        url = f"{base_url}/chat/completions"
        whole = await (await session.post(url, json={**REQUEST, "stream": False})).json()
        assert whole["choices"][0]["message"]["content"] == "It is 42 [1]. Sure."
        short = await (await session.post(url, json={**REQUEST, "stream": False, "max_tokens": 2})).json()
        assert short["choices"][0]["message"]["content"] == "It is "
        upstream.settings = UpstreamSettings(status=503)
        async with session.post(url, json=REQUEST) as failed:
            assert failed.status == 503
        models = await (await session.get(f"{base_url}/models")).json()
        assert [model["id"] for model in models["data"]] == ["paced"]


@pytest.mark.parametrize("now", [100.0, 100.0031, 100.0199])
def test_phases_spread_streams_evenly_whenever_they_begin(now: float) -> None:
    settings = UpstreamSettings(rate=50, phases=20)
    starts = [settings.starts(now + number / 20, number) for number in range(20)]
    moments = sorted(round(start * 1000, 6) % 20 for start in starts)
    assert moments == pytest.approx(range(20))
    waits = [start - (now + number / 20) for number, start in enumerate(starts)]
    assert all(-1e-9 <= wait <= 1 / 50 for wait in waits)
    assert UpstreamSettings(first_delay=2).starts(now, 7) == now + 2  # at once, if starts aren't spread
