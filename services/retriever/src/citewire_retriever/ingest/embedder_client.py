"""The embedder over gRPC: the one place of ingest that knows its messages."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing

import grpc
import numpy as np
from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1 import embedder_pb2_grpc

from citewire_kit import client
from citewire_kit.errors import DataLoss, FailedPrecondition
from citewire_retriever.ingest.model import ModelWindow, OwnEmbedding, Vectors
from citewire_retriever.model import Space

MAX_INPUTS = 256
MAX_BYTES = 1024 * 1024
_COUNT_SECONDS = 30.0
_AHEAD = 4
"""Batches in flight: more than the embedder works on, but few, because they can't be stopped."""

_SERVICE = "citewire.embedder.v1.EmbedderService"


class GrpcEmbedder:
    """The embedding model. Raises `citewire_kit.errors.CitewireError`."""

    def __init__(self, channel: grpc.aio.Channel, *, batch_seconds: float) -> None:
        """Takes an open channel.

        Args:
            channel: To the embedder.
            batch_seconds: Maximum duration of one batch, including the wait for the embedder.
        """
        self._stub = embedder_pb2_grpc.EmbedderServiceStub(channel)
        self._batch_seconds = batch_seconds
        client.init_client([_SERVICE])

    async def window(self, model: str, own: OwnEmbedding | None = None) -> ModelWindow:
        """Returns the window of a model or a tenant's own provider; an empty name means the default model."""
        request = pb.CountTokensRequest(inputs=[""], model=model, provider=_ref(own))
        response = await client.unary(self._stub.CountTokens, request, timeout=_COUNT_SECONDS)
        return ModelWindow(_space(response.space), response.max_input_tokens - response.special_tokens, own)

    async def count(self, window: ModelWindow, texts: Sequence[str]) -> list[int]:
        """Counts tokens, without special ones, of any number of texts."""
        counts: list[int] = []
        for batch in batches(texts, most=MAX_INPUTS):
            request = pb.CountTokensRequest(inputs=batch, model=_model(window), provider=_ref(window.own))
            response = await client.unary(self._stub.CountTokens, request, timeout=_COUNT_SECONDS)
            if len(response.counts) != len(batch):
                raise DataLoss("the embedder counted a different number of texts", reason="INTERNAL")
            counts += response.counts
        return counts

    async def embed(
        self,
        window: ModelWindow,
        batches: Sequence[Sequence[str]],
        *,
        truncate: bool = False,
        purpose: pb.Purpose = pb.PURPOSE_DOCUMENT,
        stop: asyncio.Event | None = None,
    ) -> AsyncGenerator[Vectors]:
        """Embeds batches of texts; yields the vectors of each, in order.

        Args:
            window: The model.
            batches: The texts.
            truncate: Cut texts that are longer than the window, instead of failing.
            purpose: Whether they are documents or questions.
            stop: Once set, no further batch is sent; results of sent ones are still returned.

        Raises:
            CitewireError: The call failed, or the model now has a different space (`FailedPrecondition`).
        """
        space, sent, ahead = window.space, list[int](), asyncio.Semaphore(_AHEAD)
        calling = client.bidi(
            self._stub.EmbedStream,
            _requests(window, batches, sent, ahead, truncate=truncate, purpose=purpose, stop=stop),
            timeout=self._batch_seconds * len(batches),
        )
        answered = 0
        async with aclosing(calling) as responses:
            async for response in responses:
                if answered == len(sent) or response.batch_id != answered:
                    raise DataLoss("the embedder's response doesn't match its batch", reason="INTERNAL")
                yield _vectors(space, response.batch, len(batches[answered]))
                answered += 1
                ahead.release()
        if answered != len(sent):
            raise DataLoss("the embedder answered fewer batches than it was sent", reason="INTERNAL")


def batches(texts: Iterable[str], *, most: int, most_bytes: int = MAX_BYTES) -> list[list[str]]:
    """Groups texts, in order, so that each group fits one request. A text above the limit gets its own group."""
    groups: list[list[str]] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8"))
        if not groups or len(groups[-1]) == most or size + length > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(text)
        size += length
    return groups


async def _requests(
    window: ModelWindow,
    batches: Sequence[Sequence[str]],
    sent: list[int],
    ahead: asyncio.Semaphore,
    *,
    truncate: bool,
    purpose: pb.Purpose,
    stop: asyncio.Event | None,
) -> AsyncGenerator[pb.EmbedStreamRequest]:
    model, provider = _model(window), _ref(window.own)
    for number, texts in enumerate(batches):
        await ahead.acquire()
        if stop is not None and stop.is_set():
            return
        sent.append(number)
        batch = pb.EmbedRequest(inputs=texts, purpose=purpose, model=model, provider=provider)
        batch.overflow = pb.OVERFLOW_TRUNCATE if truncate else pb.OVERFLOW_REJECT
        yield pb.EmbedStreamRequest(batch_id=number, batch=batch)


def _model(window: ModelWindow) -> str:
    """A space's model is one of the embedder's own; a tenant's provider specifies its model itself."""
    return "" if window.own else window.space.model


def _ref(own: OwnEmbedding | None) -> common_pb2.ProviderRef | None:
    if own is None:
        return None
    return common_pb2.ProviderRef(
        provider=own.provider,
        model=own.model,
        sealed_api_base=own.sealed_api_base,
        sealed_key=own.sealed_key,
        type=common_pb2.PROVIDER_TYPE_EMBEDDING,
        user_id=own.user_id,
        dimensions=own.dimensions,
    )


def _vectors(space: Space, response: pb.EmbedResponse, texts: int) -> Vectors:
    if _space(response.space) != space:
        raise FailedPrecondition("the embedder serves a different model now", reason="SPACE_MISMATCH")
    values = np.frombuffer(response.vectors, dtype="<f4")
    if values.size != texts * space.dimensions or not np.isfinite(values).all():
        raise DataLoss("the embedder sent vectors of a wrong length, or not finite", reason="INVALID_VECTOR")
    return values.reshape(texts, space.dimensions)


def _space(message: common_pb2.EmbeddingSpace) -> Space:
    return Space(message.model, message.revision, message.dimensions)
