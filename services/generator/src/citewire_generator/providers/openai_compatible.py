"""Any server that speaks OpenAI's chat completions: OpenAI, Ollama, vLLM, LM Studio, LiteLLM, OpenRouter."""

from collections.abc import Mapping
from typing import ClassVar, Final

import aiohttp
import httpx2
import openai
from openai import RequestOptions

from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatTask
from citewire_generator.providers.ollama_stream import CONTENT_TYPE, OllamaStream
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.remote import RemoteChat, SdkErrors, call_headers, http_client
from citewire_remote.redaction import Redaction
from citewire_remote.stall_timeout import TimeLimits

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

    takes_temperature: ClassVar[bool] = True
    sdk_errors = SdkErrors(openai.APIStatusError, openai.APIConnectionError)

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
        self._authorization = f"Bearer {key}" if key else openai.omit
        self._sdk = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=api_base,
            max_retries=0,
            timeout=None,
            http_client=http_client(session),
        )

    async def send(
        self, task: ChatTask, *, stream: bool, json_schema: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        """See `RemoteChat.send`."""
        body: dict[str, object] = {
            "model": task.model,
            "messages": [{"role": message.role.value, "content": message.content} for message in task.messages],
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
        options: RequestOptions = {"headers": call_headers(self._authorization, stream=stream)}
        return await self._sdk.post("/chat/completions", cast_to=httpx2.Response, body=body, options=options)

    def reader(self, content_type: str) -> AnswerReader:
        """See `RemoteChat.reader`."""
        if content_type == CONTENT_TYPE:
            return OllamaStream(self.name, self._redact)
        return OpenAiStream(self.name, self._redact)
