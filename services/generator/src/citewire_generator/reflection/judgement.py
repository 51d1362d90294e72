"""One question to a model that answers with a JSON object or a short text, as the engine sees it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from citewire_generator.engine import Work
from citewire_generator.model import FinishReason, Message, Usage
from citewire_generator.providers.base import ChatProvider, ChatTask, Completion, Delta, End
from citewire_generator.reflection.prompts import Prompt
from citewire_generator.registry import Chain, ChatModel
from citewire_generator.tokens import estimate_messages
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_ledger import Purpose

log = get_logger(__name__)

PlainModels: TypeAlias = WeakKeyDictionary[ChatProvider, set[str]]
"""Models that don't support a schema or a temperature."""


class Judgement(Work):
    """A judgement as an engine task. For a provider without a language model, rules are used."""

    def __init__(self, chain: Chain, purpose: Purpose, prompt: Prompt, plain: PlainModels) -> None:
        self.chain = chain
        self.purpose = purpose
        self._prompt = prompt
        self._plain = plain
        self.text: str | None = None

    async def stream(self, chat_model: ChatModel) -> AsyncGenerator[Delta | End, None]:
        """Calls a model and stores its reply in `text`, which stays None for a provider without a language model."""
        self.text = None
        if not chat_model.model.remote:
            yield End(FinishReason.STOP, Usage())
            return
        completion = await self._complete(chat_model)
        self.text = completion.text
        if completion.text:
            yield Delta((completion.text,))
        yield End(completion.finish_reason, None if completion.usage.estimated else completion.usage)

    def prompt_tokens(self) -> int:
        """Our estimate of the prompt."""
        return estimate_messages(self._prompt.messages)

    def messages(self, chat_model: ChatModel) -> Sequence[Message]:
        """The prompt."""
        return self._prompt.messages

    async def _complete(self, chat_model: ChatModel) -> Completion:
        """Calls one model: with a schema at temperature 0, or without both if it rejects them.

        Providers don't report reliably whether a model rejects the schema or the temperature, so a rejected request is
        repeated without both, as part of the same attempt: rejected requests aren't billed. Once that has worked, it
        is remembered for the model.
        """
        plain = ChatTask(
            model=chat_model.model.name,
            messages=self._prompt.messages,
            max_completion_tokens=self.max_output_tokens(chat_model),
        )
        known = self._plain.setdefault(chat_model.provider, set())
        if chat_model.model.name in known:
            return await chat_model.provider.complete(plain)
        try:
            task = replace(plain, temperature=0.0)
            return await chat_model.provider.complete(task, json_schema=self._prompt.json_schema)
        except CitewireError as exc:
            if exc.reason != "PROVIDER_REJECTED":
                raise
        completion = await chat_model.provider.complete(plain)
        log.info("judgement_plain", provider=chat_model.title)
        known.add(chat_model.model.name)
        return completion

    def max_output_tokens(self, chat_model: ChatModel) -> int:
        """The prompt's limit, or the model's if that is lower."""
        return min(self._prompt.max_tokens, chat_model.model.max_completion_tokens or self._prompt.max_tokens)
