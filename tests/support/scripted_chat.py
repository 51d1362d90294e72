"""A chat provider with a scripted answer, including pauses and faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import FinishReason, ModelInfo, Suggestions, Usage
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End

Step = str | tuple[str, ...] | Exception | asyncio.Event
"""A delta of one text or of several, an error to raise, or an event to wait for."""

STOP = End(FinishReason.STOP, Usage(11, 2, 7))


class ScriptedChat(ChatProvider):
    """Each answer is `script`: texts (a tuple is one delta of several), errors to raise, events to wait for."""

    def __init__(self, *script: Step, end: End | None = STOP, window: int = 0) -> None:
        self.script: Sequence[Step] = script
        self.end = end
        self.window = window
        self.tasks: list[ChatTask] = []
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        return (
            ModelInfo("scripted", "parrot", context_window=self.window, max_completion_tokens=1000),
            ModelInfo("scripted", "lab/crow"),
        )

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        self.tasks.append(task)
        try:
            async for delta in _play(self.script, self.waiting):
                yield delta
            if self.end is not None:
                yield self.end
        finally:
            self.closed.set()

    async def suggest(self, request: pb.SuggestQuestionsRequest, model: str) -> Suggestions:
        for step in self.script:
            if isinstance(step, Exception):
                raise step
        return Suggestions(tuple(f"{model} {number}?" for number in range(request.count)), Usage(3, 0, 2))


class ScriptedTurns(ChatProvider):
    """One script for each call, the last one for all further ones; a script that doesn't fail ends in `STOP`."""

    def __init__(self, name: str, *turns: Sequence[Step], window: int = 100_000, guessed: bool = False) -> None:
        self._name = name
        self.turns: list[Sequence[Step]] = list(turns)
        self.model = ModelInfo(name, f"{name}-model", context_window=window, window_guessed=guessed)
        self.tasks: list[ChatTask] = []
        self.waiting = asyncio.Event()
        self.open = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        return (self.model,)

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        turn = self.turns[min(len(self.tasks), len(self.turns) - 1)]
        self.tasks.append(task)
        self.open += 1
        try:
            async for delta in _play(turn, self.waiting):
                yield delta
            yield STOP
        finally:
            self.open -= 1

    async def suggest(self, request: pb.SuggestQuestionsRequest, model: str) -> Suggestions:
        async for event in self.stream(ChatTask(model, ())):
            if isinstance(event, Delta):
                return Suggestions(event.texts, Usage(3, 0, 2))
        return Suggestions(())


async def _play(script: Sequence[Step], waiting: asyncio.Event) -> AsyncGenerator[Delta, None]:
    """Plays a script; `waiting` is set before the first event that is waited for."""
    for step in script:
        if isinstance(step, Exception):
            raise step
        if isinstance(step, asyncio.Event):
            waiting.set()
            await step.wait()
        else:
            yield Delta((step,) if isinstance(step, str) else step)
