"""Anthropic's Messages API, in the version that the SDK asks for (2026-10-21 with 2.x).

A temperature isn't sent: from that version on the API refuses a request that has one, whatever the model.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
import anthropic
import httpx2
from anthropic import RequestOptions

from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.anthropic_stream import AnthropicStream
from citewire_generator.providers.base import ChatTask
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import RemoteChat, SdkErrors, call_headers, http_client
from citewire_generator.tokens import estimate_tokens
from citewire_remote.redaction import Redaction
from citewire_remote.stall_timeout import TimeLimits

PROVIDER: Final = "anthropic"
MAX_TOKENS: Final = 2048
"""Completion tokens of a task that names no limit: the API wants one."""

CACHED_FROM: Final = 1024
"""Fewest tokens of a prefix that is marked for the cache. Some models want up to 4096, and then ignore the mark."""

_CACHE: Final = {"cache_control": {"type": "ephemeral"}}


class AnthropicMessages(RemoteChat):
    """Streams answers.

    Args:
        session: Made by `open_session`; closed by `close`.
        api_base: Base URL that ends in `/v1`.
        api_key: The key.
        models: What it offers, the default first.
        limits: Time limits.
        name: The provider's name.
    """

    sdk_errors = SdkErrors(anthropic.APIStatusError, anthropic.APIConnectionError)

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
        key = api_key or ""
        super().__init__(
            session, models=models, limits=limits or TimeLimits(), name=name, redact=Redaction(key, api_base)
        )
        self._authorization = f"Bearer {key}" if key else anthropic.omit
        self._sdk = anthropic.AsyncAnthropic(
            api_key=key,
            # The SDK's paths begin with /v1.
            base_url=api_base.removesuffix("/v1"),
            max_retries=0,
            timeout=None,
            open_telemetry=False,
            http_client=http_client(session),
        )

    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """See `RemoteChat.send`."""
        system, messages = _prompt(task.messages)
        body: dict[str, object] = {
            "model": task.model,
            "messages": messages,
            "max_tokens": task.max_completion_tokens or MAX_TOKENS,
        }
        if system:
            body["system"] = system
        if stream:
            body["stream"] = True
        if json_schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": json_schema}}
        options: RequestOptions = {"headers": call_headers(self._authorization, stream=stream)}
        return await self._sdk.post("/v1/messages", cast_to=httpx2.Response, body=body, options=options)

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        del content_type
        return AnthropicStream(self.name, self._redact)


def _prompt(messages: Sequence[Message]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Divides system prompt and conversation, and marks what may come again for the cache.

    Those are the rules, and the conversation up to the question. The question itself carries the passages that were
    found for it: they hardly ever come again, and writing to the cache costs a quarter more than reading.
    """
    system = [_block(message) for message in messages if message.role is Role.SYSTEM and message.content]
    talk = [message for message in messages if message.role is not Role.SYSTEM and message.content]
    turns: list[dict[str, object]] = [{"role": message.role.value, "content": [_block(message)]} for message in talk]
    tokens = sum(estimate_tokens(message.content) for message in messages if message.role is Role.SYSTEM)
    if system and tokens >= CACHED_FROM:
        system[-1] |= _CACHE
    if len(turns) > 1 and tokens + sum(estimate_tokens(message.content) for message in talk[:-1]) >= CACHED_FROM:
        turns[-2]["content"] = [_block(talk[-2]) | _CACHE]
    return system, turns


def _block(message: Message) -> dict[str, object]:
    return {"type": "text", "text": message.content}
