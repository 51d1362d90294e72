"""Clients that send requests repeatedly while something happens to the stack, and the result of each request."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import httpx

from citewire_client.sse import SseEvent, SseParser

Kind = Literal["native", "simple", "search", "upload"]
End = Literal["complete", "failed", "unavailable", "late", "refused", "cut", "silent", "wrong"]
"""The result of a request.

complete: successful.
failed: a stream that ended in its dialect's error frame.
unavailable: 503 as problem+json with Retry-After.
late: 504 as problem+json, at the end of a call's time budget.
refused: nothing was listening.
cut: the connection broke before or during the response.
silent: no data for HANG_SECONDS.
wrong: anything else, which must not happen.
"""

KINDS: tuple[Kind, ...] = ("native", "simple", "search", "upload")
STREAMS: frozenset[Kind] = frozenset({"native", "simple"})
HANG_SECONDS = 6.0
"""Longest silence that doesn't count as a hang: a second more than the gateway's `hold_seconds`, after which a stream
that hasn't begun gives its first sign of life."""

CLIENTS: Mapping[Kind, int] = {"native": 3, "simple": 3, "search": 2, "upload": 1}
_PATHS: Mapping[Kind, str] = {
    "native": "/v1/chat",
    "simple": "/api/chat/",
    "search": "/v1/search",
    "upload": "/v1/documents",
}
_PAUSES: Mapping[Kind, float] = {"native": 0.0, "simple": 0.0, "search": 0.05, "upload": 0.4}
_REASONS = {"SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE", "SHUTTING_DOWN"}
_AFTER_FAILURE = 0.15


@dataclass(slots=True)
class Asked:
    """One request; times are of the monotonic clock."""

    kind: Kind
    request_id: str
    began: float
    base: str = ""
    """The URL of the gateway that it was sent to."""
    status: int | None = None
    tokens: int = 0
    first_token: float | None = None
    ended: float | None = None
    end: End | None = None
    why: str = ""
    """The fault, or the error's text."""
    document_id: int | None = None
    """The document id of an acknowledged upload."""
    _body: bytearray = field(default_factory=bytearray, repr=False)

    @property
    def worked_at(self) -> float | None:
        """Time at which the request was known to work: at a stream's first token."""
        return self.first_token if self.kind in STREAMS else self.ended if self.end == "complete" else None

    def read(self, piece: bytes) -> None:
        """Takes a piece of the response."""
        self._body += piece
        sign = b"event: token\n" if self.kind == "native" else b'data: {"token"'
        if self.kind in STREAMS:
            self.tokens = self._body.count(sign)
            if self.tokens and self.first_token is None:
                self.first_token = time.monotonic()

    def judge(self, headers: httpx.Headers) -> End:
        """Determines the result of a complete response.

        Raises:
            AssertionError: It ended in a way that must not happen.
        """
        if self.status == 503:
            return self._judge_problem(headers)
        if self.status == 504:
            self.why = json.loads(self._body)["reason"]
            assert self.why == "DEADLINE_EXCEEDED", self.why
            return "late"
        assert self.status == (202 if self.kind == "upload" else 200), f"{self.status} {self._body[:500]!r}"
        if self.kind in STREAMS:
            return self._judge_stream()
        body = json.loads(self._body)
        if self.kind == "upload":
            self.document_id = body["id"]
        else:
            assert body["results"], "the search found nothing"
        return "complete"

    def _judge_problem(self, headers: httpx.Headers) -> End:
        problem = json.loads(self._body)
        assert headers["content-type"] == "application/problem+json"
        assert int(headers["retry-after"]) >= 1
        assert problem["status"] == 503
        assert problem["reason"] in _REASONS, problem
        self.why = problem["reason"]
        return "unavailable"

    def _judge_stream(self) -> End:
        text = bytes(self._body)
        assert text.endswith(b"\n\n"), f"the stream ended in the middle of a frame: {text[-200:]!r}"
        events = list(SseParser().feed(text))
        return self._judge_native(events) if self.kind == "native" else self._judge_simple(events)

    def _judge_native(self, events: list[SseEvent]) -> End:
        names = [event.event for event in events]
        assert names[-1:] == ["done"], f"a clean end without `done`: {names[-3:]}"
        assert events[-1].data == "{}"
        assert names.count("done") == 1
        if "error" not in names:
            assert names[-2] == "usage"
            return "complete"
        assert names.index("error") == len(names) - 2, names
        self.why = json.loads(events[-2].data)["text"]
        assert self.why
        return "failed"

    def _judge_simple(self, events: list[SseEvent]) -> End:
        frames = [json.loads(event.data) for event in events]
        assert all(set(frame) == {"token"} for frame in frames[:-1])
        if set(frames[-1]) == {"error"}:
            self.why = frames[-1]["error"]
            assert self.why
            return "failed"
        assert set(frames[-1]) == {"done", "sources"}, f"a clean end without `done`: {frames[-2:]}"
        assert frames[-1]["done"] is True
        return "complete"


class NoGatewayError(Exception):
    """The load balancer has no ready gateway."""


class Load:
    """Running clients; `asked` grows with their requests."""

    def __init__(self, url: Callable[[], str], name: str, headers: Mapping[str, str] | None = None) -> None:
        """Prepares clients without sending requests.

        Args:
            url: Called before each request, so that a test can choose the gateway.
            name: Prefix of the request ids.
            headers: Sent with each request, such as the API key.
        """
        self._url = url
        self._name = name
        self.asked: list[Asked] = []
        self._changed = asyncio.Event()
        self._stopping = False
        # A new connection for each request: an idle one that the server closes looks like a refused one.
        self._http = httpx.AsyncClient(
            headers=headers,
            trust_env=False,
            timeout=HANG_SECONDS,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    @asynccontextmanager
    async def running(self, clients: Mapping[Kind, int] = CLIENTS) -> AsyncGenerator["Load"]:
        """Clients send a request, wait for the response, and repeat until the block ends; then waits for the rest."""
        async with self._tasks([self._client(kind) for kind, count in clients.items() for _ in range(count)]):
            yield self

    @asynccontextmanager
    async def steady(self, rates: Mapping[Kind, float]) -> AsyncGenerator["Load"]:
        """Sends requests at a fixed rate, with or without responses, until the block ends; then waits for running ones.

        A client that waits for its response asks less while a replica hangs, and so hides how many requests it affects.
        """
        async with self._tasks([self._arrivals(kind, rate) for kind, rate in rates.items()]):
            yield self

    @asynccontextmanager
    async def _tasks(self, work: Sequence[Coroutine[None, None, None]]) -> AsyncGenerator[None]:
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        finally:
            self._stopping = True
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await self._http.aclose()
        assert results == [None] * len(results), results

    async def ask(self, kind: Kind) -> Asked:
        """Sends one request."""
        number = len(self.asked)
        asked = Asked(kind, f"{self._name}-{number}", time.monotonic())
        self.asked.append(asked)
        try:
            asked.end = await self._perform(asked, number)
        except httpx.ConnectError:
            asked.end = "refused"
        except NoGatewayError as error:
            asked.end, asked.why = "refused", str(error)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            asked.end, asked.why = "cut", repr(error)
        except httpx.TimeoutException as error:
            asked.end, asked.why = "silent", f"for {HANG_SECONDS:g} s: {error!r}"
        except (AssertionError, KeyError, IndexError, ValueError) as error:
            asked.end, asked.why = "wrong", repr(error)
        finally:
            asked.ended = time.monotonic()
            self._changed.set()
        return asked

    async def until(self, condition: Callable[[], bool], complaint: str, *, seconds: float = 60) -> None:
        """Waits until a condition on the requests holds."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{complaint} within {seconds:g} s; last: {self.asked[-12:]}") from None

    def streaming(self, tokens: int = 1) -> list[Asked]:
        """The running streams with at least this many tokens."""
        return [asked for asked in self.asked if asked.end is None and asked.tokens >= tokens]

    def completed(self, kind: Kind, since: float) -> int:
        """Number of complete requests of a kind that began after a given time."""
        return sum(asked.kind == kind and asked.began > since and asked.end == "complete" for asked in self.asked)

    def works_again_at(self, since: float, kinds: Collection[Kind] = KINDS) -> float | None:
        """Time by which a request of each kind, begun after a given time, had worked; None if one hasn't yet."""
        firsts: list[float] = []
        for kind in kinds:
            times = [asked.worked_at for asked in self.asked if asked.kind == kind and asked.began > since]
            worked = [at for at in times if at is not None]
            if not worked:
                return None
            firsts.append(min(worked))
        return max(firsts)

    def ends(self, since: float = 0.0) -> Counter[str]:
        """Number of requests, begun after a given time, by result."""
        return Counter(str(asked.end) for asked in self.asked if asked.began > since)

    async def _client(self, kind: Kind) -> None:
        while not self._stopping:
            asked = await self.ask(kind)
            await asyncio.sleep(_PAUSES[kind] if asked.end == "complete" else _AFTER_FAILURE)

    async def _arrivals(self, kind: Kind, rate: float) -> None:
        """Sends requests on a schedule: a late one doesn't delay the following ones."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count(1):
                if self._stopping:
                    return
                group.create_task(self.ask(kind))
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))

    async def _perform(self, asked: Asked, number: int) -> End:
        asked.base = self._url()
        request = self._http.stream(
            "POST",
            f"{asked.base}{_PATHS[asked.kind]}",
            json=_body(asked.kind, asked.request_id, number),
            headers={"X-Request-Id": asked.request_id},
        )
        async with request as response:
            asked.status = response.status_code
            async for piece in response.aiter_raw():
                seen = asked.tokens
                asked.read(piece)
                if asked.tokens > seen:
                    self._changed.set()
        return asked.judge(response.headers)


def _body(kind: Kind, name: str, number: int) -> dict[str, object]:
    """Asks a different question each time, so that no cache answers."""
    question = f"What does the upstream say, and at which pace, in round {number}?"
    if kind == "search":
        return {"query": question, "top_k": 3}
    if kind == "upload":
        return {"type": "article", "title": name, "content": f"# {name}\n\nA note about {name} and nothing else.\n"}
    return {"question": question}
