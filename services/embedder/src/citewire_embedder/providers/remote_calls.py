"""Calls to a model behind an HTTP API, as embedding and reranking share them.

Around each attempt stand the breaker, the ledger, a span and the metrics; every failure becomes an error that clients
may see.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import httpx2

from citewire_egress.connections import guarded_client, refusal_in
from citewire_kit import deadline
from citewire_kit.errors import CitewireError, FailedPrecondition
from citewire_kit.genai import Operation, measured_call
from citewire_kit.telemetry import get_logger
from citewire_ledger import CallUsage, Ledger, LedgerCall, NewCall, Purpose
from citewire_remote.breaker import Breaker
from citewire_remote.catalogue import CatalogueModel
from citewire_remote.failures import from_status, name_provider, read_error, timed_out, unreachable
from citewire_remote.redaction import Redaction
from citewire_remote.retry import RetryPolicy, retrying

log = get_logger(__name__)

_MAX_CAUSES = 8
_PARTS = re.compile(r"([A-Za-z]+)|([0-9]+)|([^\x00-\x7f]+)|([^\sA-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A provider's model."""

    kind: str
    """The provider's kind."""
    model: str
    api_base: str = field(default="", repr=False)
    """Its address; "" is the kind's own."""
    api_key: str = field(default="", repr=False)
    own: bool = False
    """Whether it is a tenant provider's."""
    dimensions: int = 0
    """Requested length of an embedding model's vectors; 0 is the model's own."""
    window: int = 0
    """Tokens that an embedding model reads; 0 leaves it to the catalogue."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How a provider is called."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How often, and after which delays."""
    seconds: float = 30.0
    """Maximum wait for one response."""
    connect_seconds: float = 5.0
    """Maximum wait for a connection."""
    texts: int = 32
    """Maximum texts per embeddings request. TEI's default limit is 32."""
    tokens: int = 100_000
    """Maximum estimated tokens per embeddings request; OpenAI's limit is 300,000."""

    def timeout(self) -> httpx2.Timeout:
        """Returns the limits for the HTTP client."""
        return httpx2.Timeout(self.seconds, connect=self.connect_seconds)


class ProviderAnswer(Protocol):
    """A provider's answer."""

    @property
    def tokens(self) -> int | None:
        """Tokens counted by the provider; None if it didn't."""
        ...


AnswerT = TypeVar("AnswerT", bound=ProviderAnswer)

_is_test: ContextVar[bool] = ContextVar("is_test", default=False)


@contextmanager
def provider_test() -> Generator[None]:
    """Marks calls inside the block as tests of a provider: the ledger records this, and they aren't retried."""
    token = _is_test.set(True)
    try:
        yield
    finally:
        _is_test.reset(token)


class RemoteCalls:
    """Makes the calls to one model.

    Args:
        spec: The model.
        operation: The kind of operation.
        known: Its entry in the catalogue; None without one.
        address: Its address, which is redacted in the log.
        ledger: Keeps a row for each attempt.
        breaker: The provider's breaker.
        limits: How it is called.
    """

    def __init__(
        self,
        spec: ModelSpec,
        operation: Operation,
        *,
        known: CatalogueModel | None,
        address: str,
        ledger: Ledger,
        breaker: Breaker,
        limits: CallLimits,
    ) -> None:
        self._spec = spec
        self._operation: Operation = operation
        self._price = known.price if known else None
        self._redact = Redaction(spec.api_key, address)
        self._ledger = ledger
        self._breaker = breaker
        self._limits = limits

    async def make(
        self, send: Callable[[], Awaitable[AnswerT]], *, purpose: Purpose, texts: int, input_tokens: int
    ) -> AnswerT:
        """Makes a call, with retries while the caller still waits.

        Args:
            send: Makes one request and reads its answer.
            purpose: Recorded in the ledger.
            texts: Number of texts.
            input_tokens: Estimated tokens of the input.

        Raises:
            CitewireError: The error of the last attempt.
        """
        new = NewCall(
            purpose=Purpose.PROVIDER_TEST if _is_test.get() else purpose,
            provider=self._spec.kind,
            model=self._spec.model,
            price=self._price,
            input_tokens=input_tokens,
            own=self._spec.own,
        )

        async def attempt() -> AnswerT:
            with self._breaker.enter() as permit:
                async with self._ledger.call(new) as entry:
                    answer = await self._attempt(send, new, entry, texts)
                    permit.succeeded()
            return answer

        policy = replace(self._limits.retry, attempts=1) if _is_test.get() else self._limits.retry
        left = deadline.remaining()
        end = None if left is None else asyncio.get_running_loop().time() + left
        return await retrying(policy, attempt, deadline=end)

    async def _attempt(
        self, send: Callable[[], Awaitable[AnswerT]], new: NewCall, entry: LedgerCall, texts: int
    ) -> AnswerT:
        try:
            with measured_call(self._operation, provider=self._spec.kind, model=self._spec.model) as span:
                span.record_counts(texts=texts)
                answer = await send()
                tokens = new.input_tokens if answer.tokens is None else answer.tokens
                span.record_usage(tokens)
        except CitewireError as exc:
            if _costs_nothing(exc):
                entry.record_usage(CallUsage(0, finish="error"))
            name_provider(exc, self._spec.kind, self._spec.model)
            raise
        entry.record_usage(CallUsage(tokens, estimated=answer.tokens is None, finish="stop"))
        return answer

    @asynccontextmanager
    async def guarded(self, *failures: type[Exception]) -> AsyncGenerator[None]:
        """Limits the time of the request inside the block, and turns the HTTP client's failures into ours.

        Args:
            failures: The exceptions that an SDK raises instead.
        """
        kind, scope = self._spec.kind, asyncio.timeout(self._limits.seconds)
        try:
            async with scope:
                yield
        except (httpx2.HTTPError, OSError, *failures) as exc:
            if isinstance(exc, TimeoutError) and not scope.expired():
                raise
            if isinstance(exc, TimeoutError) or _caused_by(exc, httpx2.TimeoutException):
                raise timed_out("didn't answer", kind, self._limits.seconds) from exc
            refusal = refusal_in(exc)
            if refusal is not None:
                raise refusal from exc
            log.warning("provider_unreachable", provider=kind, error=type(exc.__cause__ or exc).__name__)
            raise unreachable(kind) from exc

    def refused(self, status: int, body: bytes, headers: Mapping[str, str]) -> CitewireError:
        """Returns the error for a response with an error status."""
        provider_error = read_error(body)
        log.warning(
            "provider_refused", provider=self._spec.kind, status=status, **provider_error.log_fields(self._redact)
        )
        return from_status(status, provider_error, self._spec.kind, headers)


def estimate_tokens(text: str) -> int:
    """Estimates a text's tokens for a remote model, whose tokeniser isn't available.

    It overestimates, so that a text that fits by the estimate fits the model's window: a short word is a token, a long
    one several; digits count by threes, punctuation one by one, and other scripts by their bytes.
    """
    tokens = 0
    for word, digits, other, _ in _PARTS.findall(text):
        if word:
            tokens += -(-len(word) // 6)
        elif digits:
            tokens += -(-len(digits) // 3)
        elif other:
            tokens += -(-len(other.encode("utf-8", "surrogatepass")) // 2)
        else:
            tokens += 1
    return tokens


def cut_to(text: str, tokens: int) -> str:
    """Returns the longest beginning of a text with at most `tokens` estimated tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


async def read_body(chunks: AsyncIterable[bytes], *, most: int, kind: str) -> bytes:
    """Reads an answer.

    Raises:
        FailedPrecondition: It is longer than `most` bytes (`PROVIDER_REJECTED`).
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > most:
            raise FailedPrecondition(
                "the model provider's answer is too long", reason="PROVIDER_REJECTED", metadata={"provider": kind}
            )
    return bytes(body)


def open_http(limits: CallLimits) -> httpx2.AsyncClient:
    """Opens the HTTP client for an operator's provider: any address is allowed, but no redirect is followed."""
    return guarded_client(None, timeout=limits.timeout())


def _costs_nothing(error: CitewireError) -> bool:
    """Whether a provider can't have charged for the request, because it rejected it or was never reached."""
    return (
        "status" in error.metadata
        or error.reason == "PROVIDER_ADDRESS"
        or _caused_by(error, httpx2.ConnectError, httpx2.ConnectTimeout)
    )


def _caused_by(error: BaseException, *kinds: type[Exception]) -> bool:
    at: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if at is None or isinstance(at, kinds):
            return at is not None
        at = at.__cause__
    return False
