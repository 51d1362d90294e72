"""One process ends under load: the allowed effects on its clients, until everything works again."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import httpx

from deploy.rehearsal.load import KINDS, STREAMS, Asked, End, Kind, Load
from paced_model_stack import CHAT_SECONDS, ORPHAN_SECONDS, PacedModelStack

AFFECTED: Mapping[str, frozenset[Kind]] = {
    "embedder": frozenset({"native", "simple", "search"}),
    "retriever": frozenset(KINDS),
    "generator": STREAMS,
    "worker": frozenset(),
    "postgres": frozenset(KINDS),
    "gateway": frozenset(KINDS),
}
"""The requests that need a process: these may be rejected while it is down, all others must not be affected."""

RATE, TOKENS = 40.0, 60
"""Tokens of each stream, which takes 1.5 s."""

_COMPLETE: frozenset[End] = frozenset({"complete"})
_UNAVAILABLE: frozenset[End] = frozenset({"complete", "unavailable"})
_FAILED: frozenset[End] = frozenset({"failed"})
_CUT: frozenset[End] = frozenset({"cut"})
_GONE: frozenset[End] = frozenset({"refused", "cut"})
_ENOUGH_AFTER = {"native": 3, "simple": 3, "search": 10, "upload": 2}


@dataclass(frozen=True, slots=True)
class OutageReport:
    """The observations. Times are seconds since the signal."""

    name: str
    sent: signal.Signals
    times: int
    requests: int
    streams: str
    """How the streams ended that were running at the signal."""
    unavailable: int
    refused: int
    slowest_refusal: float
    """Longest wait of a new request for its rejection."""
    restarted: float
    worked_again: float

    def row(self) -> list[object]:
        """A line of the table."""
        return [
            self.name,
            self.sent.name if self.times == 1 else f"{self.times} × {self.sent.name}",
            self.requests,
            self.streams,
            self.unavailable,
            self.refused,
            f"{self.slowest_refusal:.2f}",
            f"{self.restarted:.1f}",
            f"{self.worked_again:.1f}",
        ]


@dataclass(frozen=True, slots=True)
class OutageTimes:
    """Times by `time.monotonic()`."""

    first: float
    """The first signal."""
    last: float
    """The last signal, or the end of a process that may finish its work first."""
    works_again: float
    """The recovery of everything."""


HEADINGS = (
    "process",
    "signal",
    "requests",
    "streams running then",
    "503",
    "no connection",
    "slowest refusal, s",
    "restarted after, s",
    "all worked after, s",
)


async def end_under_load(paced: PacedModelStack, name: str, number: signal.Signals, *, times: int = 1) -> OutageReport:
    """Sends a signal to a process under load, waits for recovery, and checks the results of every client.

    Args:
        paced: The stack.
        name: The process.
        number: The signal.
        times: Number of signals, each one as soon as the supervisor has restarted the process, before it is ready.
    """
    await asyncio.to_thread(paced.upstream.pace, rate=RATE, tokens=TOKENS)
    stack, load = paced.stack, Load(lambda: stack.base_url, f"{name}-{number.name}-{time.monotonic_ns()}")
    restarts, pids = stack.restarts(name), stack.pids()
    async with load.running():
        # Streams in different places, and none of them so far that it ends by itself while the signal arrives.
        await load.until(
            lambda: len(load.streaming()) >= 4 and load.completed("search", 0) >= 5 and load.completed("upload", 0) > 0,
            "there is no load",
        )
        running = [asked for asked in load.streaming() if asked.tokens < TOKENS // 2]
        sent_at = time.monotonic()
        stack.kill(name, number)
        if number is signal.SIGKILL:
            probes = await asyncio.gather(*(load.ask(kind) for kind in KINDS))
            _check_probes(name, probes)
        pid = pids[name]
        for _ in range(times - 1):
            pid = await asyncio.to_thread(stack.kill_next, name, pid)
        if number is not signal.SIGKILL:
            await asyncio.to_thread(stack.wait_ended, name, pid)
        # Success between two signals, or before the end, proves nothing about the time after it.
        last_at = sent_at if number is signal.SIGKILL and times == 1 else time.monotonic()
        await asyncio.to_thread(stack.wait_restarted, name, pid)
        restarted_at = time.monotonic()
        await load.until(lambda: load.works_again_at(last_at) is not None, f"{name} is back, but not all works")
        works_at = max(load.works_again_at(last_at) or 0.0, restarted_at)
        await load.until(
            lambda: all(load.completed(kind, works_at) >= _ENOUGH_AFTER[kind] for kind in KINDS),
            f"all has worked after the end of {name}, but doesn't go on",
        )
    assert stack.restarts(name) == restarts + times
    assert {**stack.pids(), name: 0} == {**pids, name: 0}, "another process was started again too"
    ended = [event for event in stack.events("process_ended") if event["process"] == name][-1]
    assert ended["how"] == ("was ended by SIGKILL" if number is signal.SIGKILL else "ended with exit code 0")
    _check(name, number, load.asked, running, OutageTimes(sent_at, last_at, works_at))
    await _check_exchanges(paced, load.asked, running)
    await _check_documents(stack.base_url, load.asked)
    refusals = [asked for asked in load.asked if asked.began > sent_at and asked.end in _GONE | {"unavailable"}]
    return OutageReport(
        name=name,
        sent=number,
        times=times,
        requests=len(load.asked),
        streams=", ".join(f"{count} {end}" for end, count in Counter(asked.end for asked in running).items()),
        unavailable=sum(asked.end == "unavailable" for asked in load.asked),
        refused=sum(asked.end in _GONE for asked in refusals),
        slowest_refusal=max(((asked.ended or 0) - asked.began for asked in refusals), default=0.0),
        restarted=restarted_at - sent_at,
        worked_again=works_at - sent_at,
    )


def _check_probes(name: str, probes: Collection[Asked]) -> None:
    """Checks that requests right after the SIGKILL met the outage (a database returns so soon that one may wait)."""
    for asked in probes:
        needs = asked.kind in AFFECTED[name]
        expected = {"refused", "cut"} if name == "gateway" else {"unavailable"} if needs else {"complete"}
        if name == "postgres":
            expected |= {"complete"}
        assert asked.end in expected, asked


def _check(
    name: str, number: signal.Signals, all_asked: Collection[Asked], running: Collection[Asked], times: OutageTimes
) -> None:
    """Checks that every request ended in an allowed way."""
    wrong = [
        asked
        for asked in all_asked
        if asked.end not in _right_ends(name, number, asked, was_running=asked in running, times=times)
    ]
    assert not wrong, wrong


def _right_ends(
    name: str, number: signal.Signals, asked: Asked, *, was_running: bool, times: OutageTimes
) -> frozenset[End]:
    """The allowed results of a request before, during or after the outage of process `name`."""
    ended = asked.ended or 0.0
    if asked.kind not in AFFECTED[name] or ended < times.first or asked.began > times.works_again:
        return _COMPLETE
    if asked.began <= times.first:
        return _met_while_running(name, number, asked, was_running=was_running)
    while_away = _UNAVAILABLE | _GONE if name == "gateway" else _UNAVAILABLE
    if asked.began <= times.last:
        # The process may still have worked, between two signals or after a gentle one: then this one met its end.
        while_away |= _met_while_running(name, number, asked, was_running=False)
    return while_away


def _met_while_running(name: str, number: signal.Signals, asked: Asked, *, was_running: bool) -> frozenset[End]:
    """The allowed results of a request that had arrived before the signal."""
    if number is not signal.SIGKILL and name != "postgres":
        # It answers accepted requests. The gateway's requests may have needed it only after that.
        return _COMPLETE if was_running or name == "gateway" else _UNAVAILABLE
    match name:
        case "generator":
            return _FAILED if was_running else _UNAVAILABLE | _FAILED
        case "gateway":
            return _CUT if was_running else _COMPLETE | _GONE
        case "postgres":
            return _UNAVAILABLE | _FAILED if asked.kind in STREAMS else _UNAVAILABLE
        case _:
            return _COMPLETE if was_running else _UNAVAILABLE


async def _check_exchanges(paced: PacedModelStack, all_asked: Collection[Asked], running: Collection[Asked]) -> None:
    """Checks that every exchange is closed with the client's result; those of a dead gateway by the sweeper."""
    chats = {asked.request_id: asked for asked in all_asked if asked.kind in STREAMS}

    async def closed() -> dict[str, tuple[str, str | None]]:
        async with asyncio.timeout(CHAT_SECONDS + ORPHAN_SECONDS + 5):
            while True:
                exchanges = await asyncio.to_thread(paced.exchanges, list(chats))
                if all(state != "running" for state, _ in exchanges.values()):
                    return exchanges
                await asyncio.sleep(0.1)  # nothing announces it

    result = await closed()
    for request_id, asked in chats.items():
        state, reason = result.get(request_id, (None, None))
        match asked.end:
            case "complete":
                assert (state, reason) == ("done", None), asked
            case "failed" | "unavailable":
                assert state in {"failed", None}, (asked, state)
            case "refused":
                assert state is None, asked
            case _:
                # Cut between the exchange's end and the last frame, it is done.
                assert (state, reason) in {("failed", "ORPHANED"), ("done", None), (None, None)}, (asked, state, reason)
                assert asked not in running or reason == "ORPHANED", (asked, state)


async def _check_documents(url: str, all_asked: Collection[Asked]) -> None:
    """Waits until every acknowledged document is ready."""
    expected = {asked.document_id for asked in all_asked if asked.document_id is not None}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as http, asyncio.timeout(60):
        for document_id in expected:
            while (document := (await http.get(f"/v1/documents/{document_id}")).json())["status"] != "ready":
                assert document["status"] != "failed", document
                await asyncio.sleep(0.1)  # nothing announces it
