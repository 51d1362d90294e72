"""Rerank models behind an HTTP API: Cohere, Jina, and servers that speak their `/rerank` (TEI, Infinity, vLLM).

There is no official SDK that several of them share: the calls are plain HTTP.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import httpx2

from citewire_embedder.providers.rerank_wire import Answer, Way, read_answer, ways_to, write_request
from citewire_embedder.providers.reranking import Ranked, Ranking, RerankInfo, RerankModel
from citewire_embedder.providers.token_estimate import estimate_tokens
from citewire_kit import deadline
from citewire_kit import metrics as kit_metrics
from citewire_kit.errors import CitewireError, FailedPrecondition
from citewire_kit.genai import ModelSpan, model_span
from citewire_kit.telemetry import get_logger
from citewire_ledger import Ledger, NewCall, NoLedger, Price, Purpose, Spent
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import Catalogue, CatalogueModel
from citewire_remote.egress import refusal_in
from citewire_remote.failures import from_status, read_complaint, timed_out, unreachable
from citewire_remote.kinds import ProviderType
from citewire_remote.redaction import Redaction
from citewire_remote.retry import RetryPolicy, retrying

log = get_logger(__name__)

OPERATION: Final = "rerank"
MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of an answer; some servers send the documents back."""
MAX_ERROR_BODY: Final = 64 * 1024

_ELSEWHERE: Final = frozenset({"400", "404", "405", "413", "422"})
"""Statuses by which a server says that this isn't its address or its shape, before the right one is known."""


@dataclass(frozen=True, slots=True)
class RerankSpec:
    """A model of a provider's.

    Attributes:
        kind: The provider's kind.
        api_base: Where it is; "" is the kind's own address.
        own: Whether it is a tenant's.
        trial: Whether calls are a test: accounted as one, and not repeated.
    """

    kind: str
    model: str
    api_base: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    own: bool = False
    trial: bool = False


@dataclass(frozen=True, slots=True)
class RerankLimits:
    """How a provider is called.

    Attributes:
        retry: How often.
        seconds: Longest wait for one answer.
        connect_seconds: Longest wait for a connection.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    seconds: float = 30.0
    connect_seconds: float = 5.0

    def timeout(self) -> httpx2.Timeout:
        """Returns the limits for the HTTP client."""
        return httpx2.Timeout(self.seconds, connect=self.connect_seconds)


class RemoteReranker(RerankModel):
    """A rerank model behind an HTTP API. The way that worked is kept: an address may speak one of several shapes.

    Args:
        spec: Which one.
        catalogue: What is known of it.
        http: Makes the connections; closed by `close`.
        ledger: Keeps a row of each attempt.
        breakers: The process's.
        limits: How it is called.
    """

    def __init__(
        self,
        spec: RerankSpec,
        catalogue: Catalogue,
        http: httpx2.AsyncClient,
        *,
        ledger: Ledger | None = None,
        breakers: Breakers | None = None,
        limits: RerankLimits | None = None,
    ) -> None:
        self._spec = spec
        self._known = catalogue.find(spec.kind, spec.model, ProviderType.RERANK)
        self._http = http
        self._ledger = ledger or NoLedger()
        self._breaker = (breakers or Breakers()).of(http, spec.kind)
        self._limits = limits or RerankLimits()
        self._ways = ways_to(spec.kind, spec.api_base)
        self._way: Way | None = None
        self._redact = Redaction(spec.api_key, spec.api_base)

    @property
    def info(self) -> RerankInfo:
        """What the model is."""
        window = self._known.max_input_tokens if self._known else 0
        return RerankInfo(self._spec.model, self._spec.kind, max_input_tokens=window)

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        top_n: int | None = None,
        first_scores: Sequence[float] = (),  # no provider's interface has room for them
    ) -> Ranking:
        """Asks the provider; of several ways to ask it, the first call finds the one that works.

        Raises:
            CitewireError: One of `failures`, whatever went wrong.
        """
        wanted = min(top_n or len(documents), len(documents))
        first: CitewireError | None = None
        for way in self._ways if self._way is None else (self._way,):
            try:
                ranking = await self._ask(way, query, documents, wanted)
            except CitewireError as exc:
                if exc.metadata.get("status") not in _ELSEWHERE:
                    raise
                first = first or exc
                continue
            self._way = way
            return ranking
        self._way = None  # another server may be there by now
        raise first or RuntimeError("there is no way to ask the provider")

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _ask(self, way: Way, query: str, documents: Sequence[str], wanted: int) -> Ranking:
        """Asks in as many requests as the server's limit needs, one after the other."""
        ranked: list[Ranked] = []
        tokens, estimated = 0, False
        for start in range(0, len(documents), way.most):
            texts = documents[start : start + way.most]
            answer, estimate = await self._request(way, query, texts, min(wanted, len(texts)))
            ranked += (Ranked(start + one.index, one.score) for one in answer.ranked)
            tokens += estimate if answer.tokens is None else answer.tokens
            estimated = estimated or answer.tokens is None
        ranked.sort(key=lambda one: (-one.score, one.index))
        return Ranking(tuple(ranked[:wanted]), tokens, estimated)

    async def _request(self, way: Way, query: str, documents: Sequence[str], wanted: int) -> tuple[Answer, int]:
        """Makes one request, again where that may help; returns our estimate of its tokens too."""
        # The model reads the query beside each document.
        asked = estimate_tokens(query)
        estimate = sum(asked + estimate_tokens(text) for text in documents)
        left = deadline.remaining()
        end = None if left is None else asyncio.get_running_loop().time() + left
        policy = RetryPolicy(attempts=1) if self._spec.trial else self._limits.retry
        return await retrying(policy, self._attempting(way, query, documents, wanted, estimate), deadline=end), estimate

    def _attempting(
        self, way: Way, query: str, documents: Sequence[str], wanted: int, estimate: int
    ) -> Callable[[], Awaitable[Answer]]:
        spec = self._spec
        new = NewCall(
            purpose=Purpose.PROVIDER_TEST if spec.trial else Purpose.RERANK,
            provider=spec.kind,
            model=spec.model,
            price=_price(self._known),
            input_tokens=estimate,
            own=spec.own,
        )

        async def attempt() -> Answer:
            with self._breaker.enter() as permit:
                async with self._ledger.call(new) as entry:
                    try:
                        with self._measured() as span:
                            span.counted(texts=len(documents))
                            response, body = await self._post(way, query, documents, wanted)
                    except CitewireError as exc:
                        if "status" in exc.metadata or exc.reason == "PROVIDER_ADDRESS":
                            entry.spent(Spent(0, finish="error"))  # a request that was refused costs nothing
                        raise
                    answer = read_answer(body, response.headers, len(documents), wanted, spec.kind)
                    permit.succeeded()
                    tokens = estimate if answer.tokens is None else answer.tokens
                    entry.spent(Spent(tokens, estimated=answer.tokens is None, finish="stop"))
            return answer

        return attempt

    async def _post(self, way: Way, query: str, documents: Sequence[str], wanted: int) -> tuple[httpx2.Response, bytes]:
        spec = self._spec
        request = self._http.build_request(
            "POST",
            way.url,
            json=write_request(way, spec.model, query, documents, wanted),
            headers={"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else None,
            timeout=self._limits.timeout(),
        )
        scope = asyncio.timeout(self._limits.seconds)
        try:
            async with scope:
                response = await self._http.send(request, stream=True, follow_redirects=False)
                try:
                    if response.is_success:
                        return response, await self._read(response)
                    raise self._refused(response, await _beginning(response))
                finally:
                    await response.aclose()
        except (httpx2.TimeoutException, TimeoutError) as exc:
            if isinstance(exc, TimeoutError) and not scope.expired():
                raise
            raise timed_out("didn't answer", spec.kind, self._limits.seconds) from exc
        except (httpx2.HTTPError, OSError) as exc:
            refusal = refusal_in(exc)
            if refusal is not None:
                raise refusal from exc
            log.warning("provider_unreachable", provider=spec.kind, error=type(exc).__name__)
            raise unreachable(spec.kind) from exc

    async def _read(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BODY:
                raise FailedPrecondition(
                    "the rerank provider's answer is too long",
                    reason="PROVIDER_REJECTED",
                    metadata={"provider": self._spec.kind},
                )
        return bytes(body)

    def _refused(self, response: httpx2.Response, body: bytes) -> CitewireError:
        complaint = read_complaint(body)
        log.warning(
            "provider_refused",
            provider=self._spec.kind,
            status=response.status_code,
            **complaint.shown(self._redact),
        )
        return from_status(response.status_code, complaint, self._spec.kind, response.headers)

    @contextmanager
    def _measured(self) -> Generator[ModelSpan]:
        start, error = time.perf_counter(), "cancelled"
        try:
            with model_span(OPERATION, provider=self._spec.kind, model=self._spec.model) as span:
                yield span
            error = ""
        except CitewireError as exc:
            error = exc.reason
            raise
        finally:
            kit_metrics.record_operation(
                provider=self._spec.kind,
                model=self._spec.model,
                operation=OPERATION,
                seconds=time.perf_counter() - start,
                error_type=error,
            )


async def _beginning(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= MAX_ERROR_BODY:
            break
    return bytes(body[:MAX_ERROR_BODY])


def _price(model: CatalogueModel | None) -> Price | None:
    if model is None or model.prices is None:
        return None
    return Price(input=model.prices.input, cached_input=model.prices.cached_input, output=Decimal(0))
