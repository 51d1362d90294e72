"""Any server that speaks OpenAI's chat completions: OpenAI, Ollama, vLLM, LM Studio, LiteLLM, OpenRouter.

The body is read raw (`openai_stream`): an SDK's per-event models cost several times as much per token. Each read takes
what has arrived and no more, so that deltas gather in one message only while the client is slower than the provider.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from importlib.metadata import version
from typing import Final

import aiohttp
from yarl import URL

from citewire_generator.model import FinishReason, ModelInfo, Suggestions, SuggestRequest, Usage
from citewire_generator.prompts import build_suggestion_messages
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_generator.suggestions import read_questions
from citewire_generator.tokens import estimate_messages, estimate_tokens
from citewire_kit.telemetry import get_logger
from citewire_remote.failures import (
    from_status,
    read_complaint,
    stream_broken,
    unreachable,
)
from citewire_remote.redaction import Redaction
from citewire_remote.silence import SilenceWatch, TimeLimits

log = get_logger(__name__)

PROVIDER: Final = "openai-compatible"
MAX_ERROR_BODY: Final = 64 * 1024
MAX_WHOLE_BODY: Final = 16 * 1024 * 1024
ERROR_BODY_SECONDS: Final = 5.0
"""Time to read the body of an error."""
EOF_GRACE: Final = 0.05
"""Seconds to wait for the body's end after `[DONE]`, so that the connection can serve again."""
_SUGGESTION_CHARS: Final = 24_000


class OpenAiCompatible(ChatProvider):
    """Streams answers from one base URL.

    Args:
        session: Made by `open_session`; closed by `close`.
        api_base: Base URL that ends in `/v1`.
        api_key: Sent as a bearer token; None sends none (Ollama, vLLM without one).
        models: What it offers, the default first.
        limits: Time limits.
        name: The provider's name; the protocol is one, those who speak it are many.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        api_base: str,
        api_key: str | None,
        models: tuple[ModelInfo, ...],
        limits: TimeLimits | None = None,
        name: str = PROVIDER,
    ) -> None:
        self._name = name
        self._session = session
        self._url = f"{api_base}/chat/completions"
        self._key = api_key or ""
        self._redact = Redaction(self._key, api_base)
        self._models = models
        self._limits = limits or TimeLimits()

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The configured models."""
        return self._models

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        """Streams one completion.

        Raises:
            CitewireError: One of `failures`, whatever went wrong.
        """
        watch = SilenceWatch(self._limits, self._name)
        response = await self._open(task, watch)
        watch.guard(response.close)
        try:
            if response.status >= 300:
                yield await self._refused(response)
                return
            reader = OpenAiStream(self._name, self._redact)
            whole = "json" in response.content_type
            if whole and (texts := reader.whole(await self._read_whole(response, watch))):
                yield Delta(tuple(texts))
            while not reader.done:
                seen = reader.progress
                chunk = await self._read(response, watch, ended=reader.finished)
                if chunk is None:
                    break
                texts = reader.feed(chunk) if chunk else reader.finish()
                if reader.progress > seen:
                    watch.progressed(finished=reader.finished)
                if texts:
                    yield Delta(tuple(texts))
                reader.check()
                if not chunk:
                    break
            if reader.done:
                await _read_to_end(response)
            yield End(reader.finish_reason, reader.usage)
        finally:
            watch.close()
            # Closes the socket at once unless the body was read to its end; a call that is left must not cost tokens.
            response.close()

    async def suggest(self, request: SuggestRequest, model: str) -> Suggestions:
        """Asks the model for questions."""
        messages = build_suggestion_messages(request, _SUGGESTION_CHARS)
        task = ChatTask(model=model, messages=messages, max_completion_tokens=64 * request.count, temperature=0.3)
        parts: list[str] = []
        usage: Usage | None = None
        events = self.stream(task)
        try:
            async for event in events:
                if isinstance(event, Delta):
                    parts += event.texts
                else:
                    usage = event.usage
        finally:
            await events.aclose()
        questions = read_questions("".join(parts), request.count, avoid=request.question)
        return Suggestions(questions, usage or _estimate(task, "".join(parts)))

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()

    async def _open(self, task: ChatTask, watch: SilenceWatch) -> aiohttp.ClientResponse:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        scope = asyncio.timeout(min(self._limits.first_token, self._limits.whole))
        watch.waiting()
        try:
            async with scope:
                return await self._session.post(self._url, json=_body(task), headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, OSError) as exc:
            if scope.expired():
                raise watch.error() from exc
            log.warning("provider_unreachable", provider=self._name, error=type(exc).__name__)
            raise unreachable(self._name) from exc
        finally:
            watch.got()
            watch.close()

    async def _read(self, response: aiohttp.ClientResponse, watch: SilenceWatch, *, ended: bool) -> bytes | None:
        """Reads what has arrived; b"" at the body's end; None if the answer had ended and nothing more came."""
        watch.waiting()
        try:
            chunk = await response.content.readany()
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

    async def _read_whole(self, response: aiohttp.ClientResponse, watch: SilenceWatch) -> bytes:
        body = bytearray()
        while chunk := await self._read(response, watch, ended=False):
            body += chunk
            if len(body) > MAX_WHOLE_BODY:
                raise stream_broken("the answer is too long")
        return bytes(body)

    async def _refused(self, response: aiohttp.ClientResponse) -> End:
        """Turns an error status into an error, or into the end that it is where a filter refused the prompt."""
        complaint = read_complaint(await _error_body(response))
        log.warning(
            "provider_refused",
            provider=self._name,
            status=response.status,
            **complaint.shown(self._redact),
        )
        if response.status == 400 and complaint.is_content_filter:
            return End(FinishReason.CONTENT_FILTER, Usage(estimated=True))
        raise from_status(response.status, complaint, self._name, dict(response.headers))


def open_session(limits: TimeLimits, connector: aiohttp.BaseConnector | None = None) -> aiohttp.ClientSession:
    """Opens the HTTP client. Concurrency is limited by admission, not by the connection pool.

    Args:
        limits: Time limits.
        connector: Makes the connections; None for one that may go anywhere.
    """
    return aiohttp.ClientSession(
        connector=connector or aiohttp.TCPConnector(limit=0, ttl_dns_cache=10),
        timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect, sock_connect=limits.connect),
        headers={"User-Agent": f"citewire/{version('citewire-generator')}"},
        auto_decompress=True,
    )


def normalise_api_base(url: str) -> str:
    """Spells a base URL so that it ends in `/v1`.

    Raises:
        ValueError: It isn't an http or https URL with a host, or carries credentials, a query or a fragment.
    """
    parsed = URL(url.strip())
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("must be an http or https URL, such as http://localhost:11434/v1")
    if parsed.user or parsed.password or parsed.query_string or parsed.fragment:
        raise ValueError("must not carry credentials, a query or a fragment")
    path = parsed.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    return str(parsed.with_path(path if path.endswith("/v1") else f"{path}/v1"))


def _body(task: ChatTask) -> dict[str, object]:
    body: dict[str, object] = {
        "model": task.model,
        "messages": [{"role": message.role.value, "content": message.content} for message in task.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if task.max_completion_tokens is not None:
        body["max_tokens"] = task.max_completion_tokens
    if task.temperature is not None:
        body["temperature"] = task.temperature
    return body


async def _error_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while len(body) < MAX_ERROR_BODY and (chunk := await response.content.readany()):
                body += chunk
    return bytes(body)


async def _read_to_end(response: aiohttp.ClientResponse) -> None:
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(EOF_GRACE):
            while await response.content.readany():
                pass


def _estimate(task: ChatTask, answer: str) -> Usage:
    return Usage(
        prompt_tokens=estimate_messages(task.messages), completion_tokens=estimate_tokens(answer), estimated=True
    )
