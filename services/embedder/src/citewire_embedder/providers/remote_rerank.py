"""Rerank models behind an HTTP API: Cohere, Jina, and servers that speak their `/rerank` (TEI, Infinity, vLLM).

There is no official SDK that several of them share: the calls are plain HTTP.
"""

from collections.abc import Sequence
from typing import Final

import httpx2

from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec, RemoteCalls, read_body
from citewire_embedder.providers.rerank_wire import Answer, Way, read_answer, ways_to, write_request
from citewire_embedder.providers.reranking import Ranked, Ranking, RerankInfo, RerankModel, below
from citewire_embedder.providers.token_estimate import estimate_tokens
from citewire_kit.errors import CitewireError
from citewire_ledger import Ledger, NoLedger, Purpose
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import Catalogue
from citewire_remote.kinds import ProviderType

OPERATION: Final = "rerank"
MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of an answer; some servers send the documents back."""
MAX_ERROR_BODY: Final = 64 * 1024

_ELSEWHERE: Final = frozenset({"400", "404", "405", "413", "422"})
"""Statuses by which a server says that this isn't its address or its shape, before the right one is known."""


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
        spec: ModelSpec,
        catalogue: Catalogue,
        http: httpx2.AsyncClient,
        *,
        ledger: Ledger | None = None,
        breakers: Breakers | None = None,
        limits: CallLimits | None = None,
    ) -> None:
        self._spec = spec
        self._known = catalogue.find(spec.kind, spec.model, ProviderType.RERANK)
        self._http = http
        self._limits = limits or CallLimits()
        self._calls = RemoteCalls(
            spec,
            OPERATION,
            known=self._known,
            address=spec.api_base,
            ledger=ledger or NoLedger(),
            breaker=(breakers or Breakers()).of(http, spec.kind),
            limits=self._limits,
        )
        self._ways = ways_to(spec.kind, spec.api_base)
        self._way: Way | None = None

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
        headings: Sequence[str] = (),
    ) -> Ranking:
        """Asks the provider; of several ways to ask it, the first call finds the one that works.

        Raises:
            CitewireError: One of `failures`, whatever went wrong.
        """
        documents = below(headings, documents)
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

        async def send() -> Answer:
            response, body = await self._post(way, query, documents, wanted)
            return read_answer(body, response.headers, len(documents), wanted, self._spec.kind)

        answer = await self._calls.make(send, purpose=Purpose.RERANK, texts=len(documents), input_tokens=estimate)
        return answer, estimate

    async def _post(self, way: Way, query: str, documents: Sequence[str], wanted: int) -> tuple[httpx2.Response, bytes]:
        spec = self._spec
        request = self._http.build_request(
            "POST",
            way.url,
            json=write_request(way, spec.model, query, documents, wanted),
            headers={"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else None,
            timeout=self._limits.timeout(),
        )
        async with self._calls.guarded():
            response = await self._http.send(request, stream=True, follow_redirects=False)
            try:
                if not response.is_success:
                    raise self._calls.refused(response.status_code, await _beginning(response), response.headers)
                return response, await read_body(response.aiter_bytes(), most=MAX_BODY, kind=spec.kind)
            finally:
                await response.aclose()


async def _beginning(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= MAX_ERROR_BODY:
            break
    return bytes(body[:MAX_ERROR_BODY])
