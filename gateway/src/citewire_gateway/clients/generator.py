"""The generator, as the gateway calls it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import grpc
from citewire.generator.v1 import generator_pb2, generator_pb2_grpc
from google.protobuf.message import Message

from citewire_kit import client
from citewire_kit.errors import Unavailable
from citewire_kit.fair_calls import FairCalls

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)


class Generator:
    """Writes answers. All methods raise `CitewireError`."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        streams: grpc.aio.Channel,
        calls: FairCalls,
        *,
        chat_seconds: float,
        suggest_seconds: float,
        judge_seconds: float,
    ) -> None:
        """Sets the maximum durations of calls; a call never gets more time than its request has left.

        Streams have a separate channel: see `open_channel`.
        """
        self._calls = calls
        self._stub = generator_pb2_grpc.GeneratorServiceStub(channel)
        self._streams = generator_pb2_grpc.GeneratorServiceStub(streams)
        self._chat_seconds = chat_seconds
        self._suggest_seconds = suggest_seconds
        self._judge_seconds = judge_seconds

    async def generate(
        self, request: generator_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        """Streams an answer: `started` first, `completed` last, or it raises. Closing it stops the model."""
        complete = False
        stream = client.stream(self._streams.Generate, request, timeout=self._chat_seconds)
        async with self._calls.begun(self._chat_seconds), aclosing(stream) as messages:
            async for message in messages:
                complete = complete or message.HasField("completed")
                yield message
        if not complete:
            raise Unavailable("the answer was cut off before its end", reason="PROVIDER_STREAM_BROKEN", retry_after=1.0)

    async def suggest_questions(
        self, request: generator_pb2.SuggestQuestionsRequest
    ) -> generator_pb2.SuggestQuestionsResponse:
        """Suggests questions that the passages can answer."""
        return await self._ask(self._stub.SuggestQuestions, request, self._suggest_seconds)

    async def decide(self, request: generator_pb2.DecideRequest) -> generator_pb2.DecideResponse:
        """Decides whether a question needs retrieval."""
        return await self._ask(self._stub.Decide, request, self._judge_seconds)

    async def assess(self, request: generator_pb2.AssessRequest) -> generator_pb2.AssessResponse:
        """Assesses an answer against its passages."""
        return await self._ask(self._stub.Assess, request, self._judge_seconds)

    async def judge_relevance(
        self, request: generator_pb2.JudgeRelevanceRequest
    ) -> generator_pb2.JudgeRelevanceResponse:
        """Judges which passages are irrelevant to a question."""
        return await self._ask(self._stub.JudgeRelevance, request, self._judge_seconds)

    async def rewrite(self, request: generator_pb2.RewriteRequest) -> generator_pb2.RewriteResponse:
        """Rewrites a question."""
        return await self._ask(self._stub.Rewrite, request, self._judge_seconds)

    async def fill_table_query(
        self, request: generator_pb2.FillTableQueryRequest
    ) -> generator_pb2.FillTableQueryResponse:
        """Writes a table query for a question."""
        return await self._ask(self._stub.FillTableQuery, request, self._judge_seconds)

    async def verify(self, request: generator_pb2.VerifyRequest) -> generator_pb2.VerifyResponse:
        """Verifies an answer from any system against the passages that it cites."""
        return await self._ask(self._stub.Verify, request, self._chat_seconds)

    async def _ask(self, method: grpc.aio.UnaryUnaryMultiCallable[Req, Res], request: Req, seconds: float) -> Res:
        return await self._calls.patient_unary(method, request, timeout=seconds)
