"""Shared by all remote chat providers: a call with the provider's SDK, whose raw body is read under time limits.

The SDK builds the request, authenticates and names errors; it never retries. Its transport is aiohttp's, and the body
is read past it: an SDK's events cost four times as much per token, and its bytes two and a half times (ADR 8). Each
read takes what has arrived and no more, so that deltas gather in one message only while the client is slower than the
provider.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import aiohttp
import httpx2
from citewire.generator.v1 import generator_pb2 as pb

from citewire_egress.connections import refusal_in
from citewire_generator.model import FinishReason, Message, ModelInfo, Suggestions, Usage
from citewire_generator.prompts import build_suggestion_messages
from citewire_generator.providers.base import ChatProvider, ChatTask, Completion, Delta, End
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.suggestions import read_questions
from citewire_generator.tokens import estimate_messages, estimate_tokens
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_remote.failures import from_status, read_error, stream_broken, timed_out, unreachable
from citewire_remote.redaction import Redaction
from citewire_remote.stall_timeout import StallWatch, TimeLimits
from citewire_remote.transport import AiohttpTransport, raw_body, read_some

if TYPE_CHECKING:  # each adapter imports its own SDK, see `factory`
    import anthropic
    import openai

log = get_logger(__name__)

MAX_WHOLE_BODY: Final = 1024 * 1024
"""Maximum bytes of an answer in one piece, which as parsed JSON takes up to twenty times as much memory."""
EOF_GRACE: Final = 0.05
"""Seconds to wait for the body's end after the stream's, so that the connection can be reused."""
_SUGGESTION_CHARS: Final = 24_000
_USER_AGENT: Final = f"citewire/{version('citewire-generator')}"


_PART = 8192
"""Bytes of a stream read at once: one or two hundred events, a millisecond of work."""


class SdkErrors(NamedTuple):
    """The exceptions of an SDK."""

    status: type[openai.APIStatusError] | type[anthropic.APIStatusError]
    """The provider responded with an error status."""
    connection: type[Exception]
    """It didn't respond."""


class RemoteChat(ChatProvider):
    """Streams answers from one address.

    Args:
        session: Created by `open_session`; closed by `close`.
        api_base: Base URL that ends in `/v1`.
        api_key: Sent as a bearer token; None sends none (Ollama, vLLM without one).
        models: Its models, the default first.
        limits: Time limits.
        name: The provider's name, because several providers share a protocol.
    """

    provider: ClassVar[str]
    """The default name."""
    sdk_errors: ClassVar[SdkErrors]
    """The exceptions of the SDK that `send` calls."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        api_base: str,
        api_key: str | None,
        models: tuple[ModelInfo, ...],
        limits: TimeLimits | None = None,
        name: str = "",
    ) -> None:
        key = api_key or ""
        self._session = session
        self._models = models
        self._limits = limits or TimeLimits()
        self._name = name or self.provider
        self._redact = Redaction(key, api_base)
        self.open_sdk(api_base, key, http_client(session))

    @property
    def name(self) -> str:
        """Its given name."""
        return self._name

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The configured models."""
        return self._models

    @abstractmethod
    def open_sdk(self, api_base: str, key: str, client: httpx2.AsyncClient) -> None:
        """Creates the client of the provider's SDK; `key` is "" if there is none."""

    @abstractmethod
    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """Makes the SDK's call. It returns when the response's head has arrived, and raises the SDK's errors."""

    @abstractmethod
    def reader(self, content_type: str) -> AnswerReader:
        """A reader of one answer."""

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        """Streams one completion.

        Raises:
            CitewireError: One of `failures`.
        """
        watch = StallWatch(self._limits, self._name)
        response = await self._open(self.send(task, stream=True), watch)
        if isinstance(response, End):
            yield response
            return
        watch.guard(response.close)
        try:
            reader = self.reader(response.content_type)
            whole = response.content_type == "application/json"
            calls = _ToolCalls(reader, takes_calls=task.tools is not None)
            if whole:
                texts = reader.whole(await self._read_whole(response, watch))
                if delta := calls.delta(texts):
                    yield delta
            while not reader.done:
                seen = reader.progress
                chunk = await self._read(response, watch, ended=reader.finished)
                if chunk is None:
                    break
                for start in range(0, len(chunk) or 1, _PART):
                    if start:
                        await asyncio.sleep(0)  # yields to others: a burst may have thousands of events
                    texts = reader.feed(chunk[start : start + _PART]) if chunk else reader.finish()
                    if reader.progress > seen:
                        watch.progressed(finished=reader.finished)
                    if delta := calls.delta(texts):
                        yield delta
                    reader.check()
                if not chunk:
                    break
            if reader.done:
                await _read_to_end(response)
            yield End(calls.finish_reason, reader.usage)
        finally:
            watch.close()
            # Closes the socket at once unless the body was read to its end, so that the rest costs no tokens.
            response.close()

    async def complete(self, task: ChatTask, *, json_schema: Mapping[str, object] | None = None) -> Completion:
        """See `ChatProvider.complete`: one answer in one piece, for which the provider enforces the schema."""
        scope = asyncio.timeout(self._limits.whole)
        try:
            async with scope:
                watch = StallWatch(self._limits, self._name)
                sending = self.send(task, stream=False, json_schema=json_schema)
                response = await self._open(sending, watch, seconds=self._limits.whole)
                if isinstance(response, End):
                    return Completion("", response.usage or Usage(estimated=True), response.finish_reason)
                with contextlib.closing(response):
                    reader = self.reader(response.content_type)
                    text = "".join(reader.whole(await self._read_whole(response, watch)))
        except TimeoutError as exc:
            if not scope.expired():
                raise
            raise timed_out("didn't finish", self._name, self._limits.whole) from exc
        return Completion(text, reader.usage or estimate_usage(task.messages, text), reader.finish_reason)

    async def suggest(self, request: pb.SuggestQuestionsRequest, model: str) -> Suggestions:
        """Requests questions from the model."""
        messages = build_suggestion_messages(request, _SUGGESTION_CHARS)
        task = ChatTask(model=model, messages=messages, max_completion_tokens=64 * request.count, temperature=0.3)
        parts: list[str] = []
        usage: Usage | None = None
        async with aclosing(self.stream(task)) as events:
            async for event in events:
                if isinstance(event, Delta):
                    parts += event.texts
                else:
                    usage = event.usage
        text = "".join(parts)
        questions = read_questions(text, request.count, avoid=request.question)
        return Suggestions(questions, usage or estimate_usage(messages, text))

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()

    async def _open(
        self,
        sending: Awaitable[httpx2.Response],
        watch: StallWatch,
        *,
        seconds: float | None = None,
    ) -> aiohttp.ClientResponse | End:
        """Makes the call, and waits for the response's head."""
        limits = self._limits
        scope = asyncio.timeout(min(limits.first_token, limits.whole) if seconds is None else seconds)
        watch.waiting()
        try:
            async with scope:
                return raw_body(await sending)
        except self.sdk_errors.status as exc:
            return self._refused(exc.response)
        except (self.sdk_errors.connection, TimeoutError) as exc:
            if scope.expired():
                raise watch.error() from exc
            raise self._unreachable(exc) from exc
        finally:
            watch.got()
            watch.close()

    def _unreachable(self, exc: Exception) -> CitewireError:
        refusal = refusal_in(exc)
        if refusal is not None:
            return refusal
        cause = exc.__cause__.__cause__ if exc.__cause__ else None
        log.warning("provider_unreachable", provider=self._name, error=type(cause or exc).__name__)
        return unreachable(self._name)

    async def _read(self, response: aiohttp.ClientResponse, watch: StallWatch, *, ended: bool) -> bytes | None:
        """Reads available data; b"" at the body's end; None if the answer had ended and nothing else arrived."""
        watch.waiting()
        try:
            chunk = await read_some(response)
        except (aiohttp.ClientError, OSError) as exc:
            if ended:
                log.warning("provider_stream_left_open", provider=self._name, error=type(exc).__name__)
                return None
            if watch.expired:
                raise watch.error() from exc
            log.warning("provider_stream_reset", provider=self._name, error=type(exc).__name__)
            raise stream_broken("the connection was lost") from exc
        finally:
            watch.got()
        return chunk

    async def _read_whole(self, response: aiohttp.ClientResponse, watch: StallWatch) -> bytes:
        body = bytearray()
        while chunk := await self._read(response, watch, ended=False):
            body += chunk
            if len(body) > MAX_WHOLE_BODY:
                raise stream_broken("the answer is too long")
        return bytes(body)

    def _refused(self, response: httpx2.Response) -> End:
        """Turns an error status into an error, or into an end if a filter rejected the prompt."""
        provider_error = read_error(response.content)
        log.warning(
            "provider_refused",
            provider=self._name,
            status=response.status_code,
            **provider_error.log_fields(self._redact),
        )
        if response.status_code == 400 and provider_error.is_content_filter:
            return End(FinishReason.CONTENT_FILTER, Usage(estimated=True))
        raise from_status(response.status_code, provider_error, self._name, dict(response.headers))


class _ToolCalls:
    """Converts a reader's texts and tool calls to deltas. Calls without requested tools are left out."""

    def __init__(self, reader: AnswerReader, *, takes_calls: bool) -> None:
        self._reader = reader
        self._takes_calls = takes_calls
        self._called = False

    def delta(self, texts: Sequence[str]) -> Delta | None:
        """The available data; None if there is none."""
        calls = self._reader.take_tool_calls() if self._takes_calls else ()
        self._called = self._called or bool(calls)
        return Delta(tuple(texts), calls) if texts or calls else None

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended; some servers report a plain stop after tool calls."""
        reason = self._reader.finish_reason
        if reason not in {FinishReason.STOP, FinishReason.TOOL_CALLS}:
            return reason
        return FinishReason.TOOL_CALLS if self._called else FinishReason.STOP


def open_session(limits: TimeLimits, connector: aiohttp.BaseConnector | None = None) -> aiohttp.ClientSession:
    """Opens the HTTP client. Concurrency is limited by admission, not by the connection pool.

    Args:
        limits: Time limits.
        connector: Makes the connections; None for one without restrictions.
    """
    return aiohttp.ClientSession(
        connector=connector or aiohttp.TCPConnector(limit=0, ttl_dns_cache=10),
        timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect, sock_connect=limits.connect),
        auto_decompress=True,
    )


def http_client(session: aiohttp.ClientSession) -> httpx2.AsyncClient:
    """The HTTP client for an SDK. It has no resources of its own that would have to be closed."""
    return httpx2.AsyncClient(transport=AiohttpTransport(session), timeout=None, trust_env=False)  # see TimeLimits


def call_headers(authorization: str | openai.Omit | anthropic.Omit, *, stream: bool) -> dict[str, Any]:
    """Headers of a call. Being explicit, they override those from the environment.

    Args:
        authorization: The header's value, or the SDK's placeholder for none.
        stream: Whether to request a stream.
    """
    return {
        "Accept": "text/event-stream" if stream else "application/json",
        "Accept-Encoding": "identity",
        "Authorization": authorization,
        "User-Agent": _USER_AGENT,
        # The SDKs' own header for not reading the body. It isn't sent.
        "X-Stainless-Raw-Response": "stream",
    }


def estimate_usage(messages: tuple[Message, ...], answer: str) -> Usage:
    """Our estimate, if a provider reported no usage."""
    return Usage(prompt_tokens=estimate_messages(messages), completion_tokens=estimate_tokens(answer), estimated=True)


async def _read_to_end(response: aiohttp.ClientResponse) -> None:
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError, CitewireError):
        async with asyncio.timeout(EOF_GRACE):
            while await read_some(response):
                pass
