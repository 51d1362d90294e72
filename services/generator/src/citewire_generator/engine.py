"""Calls the models of a chain, with retries and failover, until one answers.

Before a provider's first token a failure costs nothing but time: the same provider is called again if that may help,
then the next one. Retries and waits of one provider share the time that its first token has. After the first token an
error is the stream's end: text is never said twice. Every attempt has a row in the ledger.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import metrics
from citewire_generator.calls import Call
from citewire_generator.model import FinishReason, Message, Usage
from citewire_generator.providers.base import Delta, End
from citewire_generator.registry import Chain, ChatModel
from citewire_kit.errors import CitewireError, DeadlineExceeded, Unavailable
from citewire_kit.telemetry import get_logger
from citewire_ledger import Ledger, NewCall, NoLedger, Purpose
from citewire_remote.breaker import Breakers
from citewire_remote.failures import name_provider
from citewire_remote.retry import Retries, RetryPolicy

log = get_logger(__name__)

TAKEN_OVER = {
    "PROVIDER_UNAVAILABLE": "can't be reached or answered with an error",
    "PROVIDER_AUTH": "refused its key",
    "PROVIDER_RATE_LIMITED": "reached its rate limit or quota",
    "PROVIDER_REJECTED": "refused the request",
    "PROVIDER_STREAM_BROKEN": "broke off or ended before its first word",
    "PROVIDER_TIMEOUT": "didn't begin in time",
    "PROVIDER_ADDRESS": "has an address that this server may not connect to",
    "CONTEXT_TOO_LONG": "found the prompt too long",
}
"""Reasons for which the next model of a chain takes over, and their wording. An exhausted budget isn't one, because the
next provider would cost too."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The first call is in the ledger, so that no budget rejects it any more, and is being made."""

    chat_model: ChatModel


@dataclass(frozen=True, slots=True)
class Began:
    """A model has begun to answer: from now on no other one takes over."""

    chat_model: ChatModel
    attempts: int
    """Calls made to providers so far, including this one; 0 for a model in this process."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The model's end of the answer."""

    end: End
    usage: Usage
    """Its reported usage, or our estimate."""


EngineEvent = Admitted | Began | Delta | Ended | pb.Notice


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of calls."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How often one provider is called."""
    first_token_seconds: float = 30.0
    """Time limit for one provider's first token, including retries and their waits."""
    max_chars: int = 131_072
    """Maximum code points of an answer; a longer one is cut there, as at the model's own limit."""


class Work(ABC):
    """A task for one of the models in a chain."""

    chain: Chain
    purpose: Purpose
    expects_text: bool = False
    """Whether a provider that ends normally, and wrote nothing, has failed."""

    @abstractmethod
    def stream(self, chat_model: ChatModel) -> AsyncGenerator[Delta | End, None]:
        """Starts the call of one model."""

    @abstractmethod
    def prompt_tokens(self) -> int:
        """Our estimate of the prompt."""

    @abstractmethod
    def max_output_tokens(self, chat_model: ChatModel) -> int:
        """Maximum tokens that the model may write."""

    def messages(self, chat_model: ChatModel) -> Sequence[Message]:
        """The prompt, for traces with content; () if it isn't a list of messages."""
        return ()

    def trim(self) -> bool:
        """Shortens a prompt that was too long; False if that isn't possible."""
        return False


@dataclass(slots=True)
class _Tally:
    attempts: int = 0
    admitted: bool = False


class Engine:
    """Makes calls.

    Args:
        ledger: Records each call.
        breakers: The process's breakers.
        limits: Limits of calls.
    """

    def __init__(
        self, ledger: Ledger | None = None, breakers: Breakers | None = None, limits: CallLimits | None = None
    ) -> None:
        self._ledger = ledger or NoLedger()
        self._local = NoLedger(metered=False)
        self._breakers = breakers or Breakers()
        self._limits = limits or CallLimits()

    async def run(self, work: Work) -> AsyncGenerator[EngineEvent, None]:
        """Streams an answer: notices of takeovers, `Admitted` and `Began` once, text, `Ended`.

        Raises:
            CitewireError: That of the last provider if none of the chain began, or of the one that began.
        """
        tally = _Tally()
        position = 0
        deadline, retries = self._patience()
        while True:
            chat_model, began = work.chain[position], False
            try:
                async with aclosing(self._attempt(work, chat_model, deadline, tally)) as events:
                    async for event in events:
                        began = began or not isinstance(event, Admitted)
                        yield event
            except CitewireError as exc:
                error = name_provider(exc, chat_model.provider.name, chat_model.model.name)
                if began:
                    raise
            else:
                return
            if error.reason == "CONTEXT_TOO_LONG" and work.trim():
                continue
            delay = None if "breaker" in error.metadata else retries.delay_after(error)
            if delay is not None:
                metrics.RETRIES.labels(chat_model.provider.name, error.reason).inc()
                log.info("provider_retried", provider=chat_model.title, reason=error.reason, seconds=round(delay, 3))
                await asyncio.sleep(delay)
                continue
            position += 1
            if position == len(work.chain) or error.reason not in TAKEN_OVER:
                raise error
            yield _takeover(chat_model, work.chain[position], error)
            deadline, retries = self._patience()

    def _patience(self) -> tuple[float, Retries]:
        """Returns a model's deadline for its first token, and the retries until then."""
        deadline = asyncio.get_running_loop().time() + self._limits.first_token_seconds
        return deadline, Retries(self._limits.retry, deadline=deadline)

    async def _attempt(
        self, work: Work, chat_model: ChatModel, deadline: float, tally: _Tally
    ) -> AsyncGenerator[Admitted | Began | Delta | Ended, None]:
        """Makes one call."""
        remote = chat_model.model.remote
        ledger = self._ledger if remote else self._local
        async with AsyncExitStack() as stack:
            breaker = self._breakers.of(chat_model.provider, chat_model.provider.name)
            permit = stack.enter_context(breaker.enter())
            entry = await stack.enter_async_context(ledger.call(_new_call(work, chat_model)))
            tally.attempts += remote
            if not tally.admitted:
                tally.admitted = True
                yield Admitted(chat_model)
            call = Call(chat_model, work.prompt_tokens(), entry)
            stack.enter_context(call.measured())
            if call.traces_content:
                call.asked((message.role, message.content) for message in work.messages(chat_model))
            events = await stack.enter_async_context(aclosing(work.stream(chat_model)))
            first = await self._first(events, chat_model, deadline if remote else None)
            if remote and work.expects_text and isinstance(first, End) and first.finish_reason is FinishReason.STOP:
                permit.succeeded()  # it works, and may bill this
                call.settle(first.usage, first.finish_reason.value)
                raise Unavailable("the model provider's answer was empty", reason="PROVIDER_STREAM_BROKEN")
            yield Began(chat_model, tally.attempts)
            room = self._limits.max_chars
            event: Delta | End | None = first
            while isinstance(event, Delta):
                delta = _cut(event, room)
                room -= len(delta)
                call.received((*delta.texts, *(piece.arguments for piece in delta.tool_calls if piece.arguments)))
                yield delta
                if delta is event:
                    event = await anext(events, None)
                else:
                    log.warning("answer_cut", provider=chat_model.title, chars=self._limits.max_chars)
                    event = End(FinishReason.LENGTH)
            end = event
            if end is None:
                raise Unavailable(
                    "the model provider's stream was cut off before its end", reason="PROVIDER_STREAM_BROKEN"
                )
            permit.succeeded()
            usage = call.settle(end.usage, end.finish_reason.value)
        yield Ended(end, usage)

    async def _first(
        self, events: AsyncGenerator[Delta | End, None], chat_model: ChatModel, deadline: float | None
    ) -> Delta | End:
        """Waits for the first event. Unlike the limits of a provider's client, this one covers all attempts."""
        try:
            async with asyncio.timeout_at(deadline):
                event = await anext(events, None)
        except TimeoutError:
            raise DeadlineExceeded(
                f"the model provider sent no first token in {self._limits.first_token_seconds:g} s",
                reason="PROVIDER_TIMEOUT",
                metadata={"provider": chat_model.provider.name},
            ) from None
        if event is None:
            raise Unavailable("the model provider's stream was empty", reason="PROVIDER_STREAM_BROKEN")
        return event


def _cut(delta: Delta, room: int) -> Delta:
    """A delta, cut to the remaining room."""
    if len(delta) <= room:
        return delta
    texts: list[str] = []
    for text in delta.texts:
        texts.append(text[:room])
        room -= len(texts[-1])
    return Delta(tuple(filter(None, texts)))


def _new_call(work: Work, chat_model: ChatModel) -> NewCall:
    return NewCall(
        purpose=work.purpose,
        provider=chat_model.provider.name,
        model=chat_model.model.name,
        price=chat_model.model.price,
        input_tokens=work.prompt_tokens(),
        max_output_tokens=work.max_output_tokens(chat_model),
        own=chat_model.own,
    )


def _takeover(failed: ChatModel, following: ChatModel, error: CitewireError) -> pb.Notice:
    names = (failed.provider.name, following.provider.name)
    metrics.FAILOVERS.labels(*names, error.reason).inc()
    log.warning("provider_failover", provider=failed.title, next=following.title, reason=error.reason)
    text = f"{failed.title} {TAKEN_OVER[error.reason]}; {following.title} answers instead."
    return pb.Notice(name="failover", text=text, provider=following.provider.name, model=following.model.name)
