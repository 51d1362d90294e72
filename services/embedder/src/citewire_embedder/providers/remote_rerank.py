"""Rerank models behind an HTTP API: Cohere, Jina, and servers that speak their `/rerank` (TEI, Infinity, vLLM).

There is no official SDK that several of them share: the calls are plain HTTP.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import httpx2
from citewire.common.v1.common_pb2 import EmbeddingSpace

from citewire_embedder.providers.base import (
    ModelInfo,
    Ranked,
    Ranking,
    RerankModel,
    best_first,
    with_headings,
)
from citewire_embedder.providers.remote_calls import (
    CallLimits,
    ModelSpec,
    RemoteCalls,
    estimate_tokens,
    read_body,
)
from citewire_kit import metrics as kit_metrics
from citewire_kit.errors import CitewireError, FailedPrecondition
from citewire_kit.telemetry import get_logger
from citewire_ledger import Ledger, NoLedger, Purpose
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import Catalogue
from citewire_remote.failures import as_list, as_mapping, count_of, parse_json
from citewire_remote.kinds import ProviderType

log = get_logger(__name__)

OPERATION: Final = "rerank"
MAX_BODY: Final = 256 * 1024
"""Bytes of a response in addition to the documents, which some servers send back."""
_ESCAPED: Final = 12
"""Maximum bytes per character in JSON."""

_ELSEWHERE: Final = frozenset({"400", "404", "405", "413", "422"})
"""Statuses of a server without this endpoint, while the right one isn't known."""


class Shape(StrEnum):
    """The requests that a server accepts."""

    DOCUMENTS = "documents"
    """`{model, query, documents, top_n}`: Cohere, Jina, Infinity, vLLM, LiteLLM, llama.cpp."""

    TEXTS = "texts"
    """`{query, texts}`: text-embeddings-inference."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's URL and request format."""

    url: str
    """The address."""
    shape: Shape = Shape.DOCUMENTS
    """The request format."""
    most: int = 1000
    """Maximum documents per request: TEI's default is 32, Cohere advises 1,000."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's result."""

    ranked: tuple[Ranked, ...]
    """Best first."""
    tokens: int | None
    """Tokens counted by the server; None if it reported none."""


_BASES: Mapping[str, str] = {"cohere": "https://api.cohere.com/v1", "jina": "https://api.jina.ai/v1"}
_TEI_MOST = 32


class RemoteReranker(RerankModel):
    """A rerank model behind an HTTP API. A server offers one of several endpoints; the one that works is remembered.

    Args:
        spec: The model.
        catalogue: Finds its window and price.
        http: Makes the connections; closed by `close`.
        ledger: Keeps a row for each attempt.
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
        self._endpoints = endpoints_of(spec.kind, spec.api_base)
        self._endpoint: Endpoint | None = None
        if not spec.own:
            kit_metrics.init_model(provider=spec.kind, model=spec.model, operation=OPERATION, token_types=("input",))

    @property
    def info(self) -> ModelInfo:
        """The model's identity."""
        window = self._known.max_input_tokens if self._known else 0
        return ModelInfo(EmbeddingSpace(model=self._spec.model), window, 0, "", self._spec.kind)

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        top_n: int | None = None,
        first_scores: Sequence[float] = (),  # no provider's API supports them
        headings: Sequence[str] = (),
        *,
        seconds: float | None = None,
        org_id: str = "",  # the ledger knows the caller
    ) -> Ranking:
        """Calls the provider; the first call finds the endpoint that works.

        If time runs out before the provider has scored all documents, none is scored.

        Raises:
            CitewireError: One of `failures`.
        """
        del first_scores, org_id
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                return await self._find_and_ask(query, with_headings(headings, documents), top_n)
        except TimeoutError:
            if not scope.expired():
                raise
            log.warning("rerank_out_of_time", provider=self._spec.kind, seconds=seconds)
            return Ranking(best_first({}, len(documents), top_n), 0, scored=0)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _find_and_ask(self, query: str, documents: Sequence[str], top_n: int | None) -> Ranking:
        count = min(top_n or len(documents), len(documents))
        first: CitewireError | None = None
        for endpoint in self._endpoints if self._endpoint is None else (self._endpoint,):
            try:
                ranking = await self._ask(endpoint, query, documents, count)
            except CitewireError as exc:
                if exc.metadata.get("status") not in _ELSEWHERE:
                    raise
                first = first or exc
                continue
            self._endpoint = endpoint
            return ranking
        self._endpoint = None  # the server may have been replaced
        raise first or RuntimeError("the provider has no endpoint")

    async def _ask(self, endpoint: Endpoint, query: str, documents: Sequence[str], count: int) -> Ranking:
        """Sends as many requests as the server's limit requires, one after the other."""
        ranked: list[Ranked] = []
        tokens, estimated = 0, False
        for start in range(0, len(documents), endpoint.most):
            texts = documents[start : start + endpoint.most]
            answer, estimate = await self._request(endpoint, query, texts, min(count, len(texts)))
            ranked += (Ranked(start + ranked.index, ranked.score) for ranked in answer.ranked)
            tokens += estimate if answer.tokens is None else answer.tokens
            estimated = estimated or answer.tokens is None
        ranked.sort(key=lambda document: (-document.score, document.index))
        return Ranking(tuple(ranked[:count]), tokens, len(documents), estimated)

    async def _request(
        self, endpoint: Endpoint, query: str, documents: Sequence[str], count: int
    ) -> tuple[Answer, int]:
        """Makes one request, with retries; also returns our estimate of its tokens."""
        # The model reads the query with each document.
        query_tokens = estimate_tokens(query)
        estimate = sum(query_tokens + estimate_tokens(text) for text in documents)

        async def send() -> Answer:
            response, body = await self._post(endpoint, query, documents, count)
            return read_answer(body, response.headers, len(documents), count, self._spec.kind)

        answer = await self._calls.make(send, purpose=Purpose.RERANK, texts=len(documents), input_tokens=estimate)
        return answer, estimate

    async def _post(
        self, endpoint: Endpoint, query: str, documents: Sequence[str], count: int
    ) -> tuple[httpx2.Response, bytes]:
        spec = self._spec
        request = self._http.build_request(
            "POST",
            endpoint.url,
            json=write_request(endpoint, spec.model, query, documents, count),
            headers={"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else None,
            timeout=self._limits.timeout(),
        )
        most = MAX_BODY + _ESCAPED * sum(map(len, documents))
        async with self._calls.guarded():
            response = await self._http.send(request, stream=True, follow_redirects=False)
            try:
                if not response.is_success:
                    raise self._calls.refused(response.status_code, await response.aread(), response.headers)
                return response, await read_body(response.aiter_bytes(), most=most, kind=spec.kind)
            finally:
                await response.aclose()


def endpoints_of(kind: str, api_base: str) -> tuple[Endpoint, ...]:
    """Returns the possible endpoints of a provider, the most likely first.

    Args:
        kind: The provider's kind.
        api_base: Ends in `/v1`; "" is the kind's own.
    """
    base = api_base or _BASES[kind]
    root = base.removesuffix("/v1")
    if kind == "cohere":
        return (Endpoint(f"{root}/v2/rerank"),)
    if kind == "jina":
        return (Endpoint(f"{base}/rerank"),)
    # Infinity and TEI serve at the root unless told otherwise.
    return (
        Endpoint(f"{base}/rerank"),
        Endpoint(f"{root}/rerank"),
        Endpoint(f"{root}/rerank", Shape.TEXTS, _TEI_MOST),
    )


def write_request(
    endpoint: Endpoint, model: str, query: str, documents: Sequence[str], top_n: int
) -> Mapping[str, object]:
    """Writes a request's body; the server cuts texts that are too long, if it has such an option."""
    if endpoint.shape is Shape.TEXTS:
        return {"query": query, "texts": list(documents), "truncate": True, "return_text": False}
    return {"model": model, "query": query, "documents": list(documents), "top_n": top_n}


def read_answer(body: bytes, headers: Mapping[str, str], documents: int, top_n: int, provider: str) -> Answer:
    """Reads a response with a ranking.

    Raises:
        FailedPrecondition: It is invalid (`PROVIDER_REJECTED`): unknown or repeated documents, scores that aren't
            numbers, or too few of them.
    """
    try:
        parsed = parse_json(body)
    except ValueError:
        raise _unreadable("isn't JSON", provider) from None
    fields = as_mapping(parsed)
    ranked = [_ranked(entry, documents, provider) for entry in as_list(fields.get("results", parsed))]
    if len({document.index for document in ranked}) != len(ranked):
        raise _unreadable("names a document twice", provider)
    if len(ranked) < min(top_n, documents):
        raise _unreadable(f"ranks {len(ranked)} of {documents} documents", provider)
    ranked.sort(key=lambda document: (-document.score, document.index))
    return Answer(tuple(ranked), _tokens(fields, headers))


def _ranked(entry: object, documents: int, provider: str) -> Ranked:
    fields = as_mapping(entry)
    index, score = fields.get("index"), fields.get("relevance_score", fields.get("score"))
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < documents:
        raise _unreadable("names a document that wasn't sent", provider)
    try:
        number = float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else math.nan
    except OverflowError:  # an integer too large for a double
        number = math.nan
    if not math.isfinite(number):
        raise _unreadable("contains a score that isn't a number", provider)
    return Ranked(index, number)


def _tokens(fields: Mapping[str, object], headers: Mapping[str, str]) -> int | None:
    usage, meta = as_mapping(fields.get("usage")), as_mapping(fields.get("meta"))
    counts: list[object] = [
        usage.get("total_tokens"),
        usage.get("prompt_tokens"),
        as_mapping(meta.get("tokens")).get("input_tokens"),
        as_mapping(meta.get("billed_units")).get("total_tokens"),
    ]
    tokens = headers.get("x-compute-tokens", "")
    counts.append(int(tokens) if tokens.isascii() and tokens.isdecimal() and len(tokens) < 20 else None)
    # A server that doesn't count reports 0.
    return next((count for count in map(count_of, counts) if count), None)


def _unreadable(what: str, provider: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"the rerank provider's answer {what}",
        reason="PROVIDER_REJECTED",
        metadata={"provider": provider, "retry": "never"},
    )
