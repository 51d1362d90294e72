"""Several models in one service: which one embeds, what is cached, and that one model's failure spares the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from citewire.common.v1.common_pb2 import EmbeddingSpace

from citewire_embedder.batches import EmbedBatch
from citewire_embedder.providers.base import EmbeddingModel, ModelInfo, Purpose, Vectors
from citewire_embedder.service import Embedder
from citewire_kit.errors import InvalidArgument, NotFound, StartupError, Unavailable
from fake_embedding import FakeModel, make_limits, words


class Elsewhere(FakeModel):
    """A remote model that can also return vectors of half its length."""

    def __init__(self, name: str = "elsewhere", dimensions: int = 8, **kinds: Any) -> None:  # noqa: ANN401 # the base's
        super().__init__(**kinds)
        self.name, self.dimensions, self.loads = name, dimensions, 0

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            EmbeddingSpace(model=self.name, revision="openai", dimensions=self.dimensions), 16, 0, "", "openai"
        )

    async def load(self) -> None:
        self.loads += 1

    async def embed(self, texts: Any) -> Vectors:  # noqa: ANN401 # the base's
        return np.asarray((await super().embed(texts))[:, : self.dimensions], np.float32)

    def shortened(self, dimensions: int) -> EmbeddingModel | None:
        return Elsewhere(self.name, dimensions) if dimensions == self.dimensions // 2 else None


@asynccontextmanager
async def running(*remote: EmbeddingModel, default: str = "") -> AsyncGenerator[tuple[Embedder, FakeModel]]:
    here = FakeModel()
    embedder = Embedder(here, make_limits(), remote=remote, default=default)
    async with embedder.running():
        yield embedder, here
    assert all(model.closed for model in remote if isinstance(model, FakeModel))


def batch(*texts: str, model: str = "", dimensions: int | None = None, query: bool = True) -> EmbedBatch:
    purpose = Purpose.QUERY if query else Purpose.DOCUMENT
    return EmbedBatch(texts=texts, purpose=purpose, org_id="org", model=model, dimensions=dimensions)


async def test_a_request_names_its_model() -> None:
    there = Elsewhere()
    async with running(there) as (embedder, here):
        named = await embedder.embed(batch("who is it", model="elsewhere"))
        default = await embedder.embed(batch("who is it"))
    assert (named.space.model, named.vectors.shape) == ("elsewhere", (1, 8))
    assert default.space.model == "fake"
    assert (there.texts_computed, here.texts_computed) == (1, 1), "vectors of one model must not serve for another"


async def test_the_default_may_be_elsewhere() -> None:
    there = Elsewhere()
    async with running(there, default="elsewhere") as (embedder, _):
        assert (await embedder.embed(batch("x"))).space.model == "elsewhere"
        assert [info.space.model for info in embedder.models()] == ["elsewhere", "fake"]
        assert (await embedder.count_tokens(["a b"])).model.space.model == "elsewhere"


async def test_a_question_is_embedded_once_for_all_its_lengths() -> None:
    there = Elsewhere()
    async with running(there) as (embedder, _):
        first = await embedder.embed(batch("who", model="elsewhere"))
        again = await embedder.embed(batch("who", model="elsewhere"))
        shorter = await embedder.embed(batch("who", model="elsewhere", dimensions=4))
        passage = await embedder.embed(batch("who", model="elsewhere", query=False))
    assert there.texts_computed == 2
    assert (first.input_tokens, again.input_tokens) == (3, 0)
    assert np.array_equal(first.vectors, again.vectors)
    assert (shorter.space.dimensions, shorter.vectors.shape) == (4, (1, 4))
    assert passage.input_tokens == 3


async def test_unsupported_requests_are_refused() -> None:
    async with running(Elsewhere()) as (embedder, _):
        with pytest.raises(InvalidArgument, match="can't be shortened to 5"):
            await embedder.embed(batch("x", model="elsewhere", dimensions=5))
        with pytest.raises(InvalidArgument, match="16"):
            await embedder.embed(batch(words(40), model="elsewhere"))
        with pytest.raises(NotFound, match="fake, elsewhere") as caught:
            await embedder.embed(batch("x", model="nowhere"))
    assert caught.value.metadata["models"] == "fake, elsewhere"


async def test_a_remote_failure_affects_only_its_caller() -> None:
    there = Elsewhere()
    there.error = Unavailable("gone", reason="PROVIDER_UNAVAILABLE")
    async with running(there) as (embedder, _):
        with pytest.raises(Unavailable):
            await embedder.embed(batch("x", model="elsewhere"))
        assert (await embedder.embed(batch("x"))).space.model == "fake"


def test_names_are_unique_and_the_default_is_one_of_them() -> None:
    with pytest.raises(StartupError, match="same name"):
        Embedder(FakeModel(), make_limits(), remote=[Elsewhere("fake")])
    with pytest.raises(StartupError, match="no embedding model nowhere"):
        Embedder(FakeModel(), make_limits(), default="nowhere")
