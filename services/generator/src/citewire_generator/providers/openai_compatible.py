"""Any server that speaks OpenAI's chat completions: OpenAI, Ollama, vLLM, LM Studio, LiteLLM, OpenRouter."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, cast

import aiohttp
import openai

from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatTask
from citewire_generator.providers.ollama_stream import CONTENT_TYPE, OllamaStream
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import RawAnswer, RemoteChat, http_client, sdk_headers
from citewire_remote.redaction import Redaction
from citewire_remote.silence import TimeLimits

PROVIDER: Final = "openai-compatible"
SCHEMA_NAME: Final = "answer"


class OpenAiCompatible(RemoteChat):
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
        key = api_key or ""
        super().__init__(
            session, models=models, limits=limits or TimeLimits(), name=name, redact=Redaction(key, api_base)
        )
        # Said outright, the header is ours whatever the environment says.
        self._headers = {"Authorization": f"Bearer {key}" if key else openai.omit}
        sdk = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=api_base,
            max_retries=0,
            timeout=None,
            default_headers=sdk_headers(),
            http_client=http_client(session),
        )
        self._create = cast(
            "Callable[..., AbstractAsyncContextManager[RawAnswer]]",
            sdk.chat.completions.with_streaming_response.create,
        )

    def request(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> AbstractAsyncContextManager[RawAnswer]:
        """See `RemoteChat.request`."""
        body: dict[str, object] = {
            "model": task.model,
            "messages": [{"role": message.role.value, "content": message.content} for message in task.messages],
            "extra_headers": self._headers,
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if task.max_completion_tokens is not None:
            # OpenAI's newer models refuse the old name, and most other servers don't know the new one.
            limit = "max_completion_tokens" if self.name == "openai" else "max_tokens"
            body[limit] = task.max_completion_tokens
        if task.temperature is not None:
            body["temperature"] = task.temperature
        if json_schema is not None:
            schema = {"name": SCHEMA_NAME, "schema": json_schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return self._create(**body)

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        if content_type == CONTENT_TYPE:
            return OllamaStream(self.name, self._redact)
        return OpenAiStream(self.name, self._redact)
