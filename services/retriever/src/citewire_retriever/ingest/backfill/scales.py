"""The scale of similarities in a space, measured with built-in texts, so that no library has to be typical.

Pairs of a library's own chunks don't show it: those of a library about one thing are related, those of a broad one
aren't. A question and a text of the built-in ones that don't belong together are unrelated by construction.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from citewire.embedder.v1 import embedder_pb2
from numpy.typing import NDArray

from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest.backfill.store import PostgresBackfillStore
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.model import ModelWindow, VectorTable
from citewire_retriever.model import Space, SpaceScale

log = get_logger(__name__)

_LEAST_DEVIATION: Final = 1e-4
"""Minimum deviation: in a space where all texts are similar, nothing can be determined."""


@dataclass(frozen=True, slots=True)
class ScaleTexts:
    """Questions in one language, each with the text that answers it; the other texts are unrelated to it."""

    questions: Sequence[str]
    passages: Sequence[str]


class SpaceScales:
    """Measures spaces in the background, and samples libraries for their centroids."""

    def __init__(self, store: PostgresBackfillStore, embedder: GrpcEmbedder) -> None:
        self._store = store
        self._embedder = embedder
        self._measured: dict[Space, SpaceScale] = {}
        """Measured scales of the operator's models, which are the same for all organisations."""

    async def refresh(
        self, org_id: str, table: VectorTable, space: Space, find_window: Callable[[], Awaitable[ModelWindow]]
    ) -> None:
        """Measures a space for an organisation unless that is done, and samples its library if it has changed.

        Failures are retried at the next round.

        Args:
            org_id: The organisation.
            table: The space's.
            space: The space.
            find_window: Finds the model that serves it; raises `CitewireError` if none does.

        Raises:
            CitewireError: The database can't be reached.
        """
        await self._store.sample_centroids(org_id, table)
        if await self._store.has_scale(org_id, table, VERSION):
            return
        try:
            window = await find_window()
            scale = self._measured.get(space) if window.own is None else None
            scale = scale or await self._measure(window)
        except CitewireError as error:
            log.warning("space_not_measured", org_id=org_id, model=space.model, error=str(error))
            return
        if window.own is None:
            self._measured[space] = scale
        await self._store.put_scale(org_id, table, scale, VERSION)
        log.info("space_measured", org_id=org_id, model=space.model, related=round(scale.related, 1))

    async def _measure(self, window: ModelWindow) -> SpaceScale:
        vectors: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
        asked = await self._embed(window, [texts.questions for texts in TEXTS.values()], embedder_pb2.PURPOSE_QUERY)
        stored = await self._embed(window, [texts.passages for texts in TEXTS.values()], embedder_pb2.PURPOSE_DOCUMENT)
        for language, questions, passages in zip(TEXTS, asked, stored, strict=True):
            vectors[language] = questions, passages
        return scale_of(vectors)

    async def _embed(
        self, window: ModelWindow, batches: Sequence[Sequence[str]], purpose: embedder_pb2.Purpose
    ) -> list[NDArray[np.float32]]:
        answers = self._embedder.embed(window, batches, truncate=True, purpose=purpose)
        async with aclosing(answers) as vectors:
            return [part async for part in vectors]


def scale_of(vectors: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]) -> SpaceScale:
    """Returns the scale of the language in which the model separates related from unrelated texts best.

    A model that doesn't know a language finds all its texts similar, which says nothing about languages that it knows.

    Args:
        vectors: By language, the vectors of the questions and of the texts that answer them, in the same order; shape
            (texts, dimensions), of any length.

    Returns:
        The scale, with `related` about 0 if the model separates nothing.
    """
    scales: list[SpaceScale] = []
    for questions, passages in vectors.values():
        cosines = np.clip(_normalised(questions) @ _normalised(passages).T, -1, 1)
        own = np.eye(len(cosines), dtype=bool)
        unrelated = float(cosines[~own].mean())
        deviation = max(float(cosines[~own].std()), _LEAST_DEVIATION)
        scales.append(SpaceScale(unrelated, deviation, (float(np.median(cosines[own])) - unrelated) / deviation))
    return max(scales, key=lambda scale: scale.related)


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)


_FILE: Final[dict[str, Any]] = json.loads(
    files("citewire_retriever.ingest.backfill").joinpath("scale_texts.json").read_bytes()
)
VERSION: Final[int] = _FILE["version"]
TEXTS: Final[Mapping[str, ScaleTexts]] = MappingProxyType(
    {language: ScaleTexts(texts["questions"], texts["passages"]) for language, texts in _FILE["languages"].items()}
)
"""By language."""
