"""The share of off-topic questions that reach no model, and of answerable ones that are lost by that.

`python -m benchmarks.off_topic [--dimensions 128] [--precision bf16]` embeds the sets with the built-in model (once:
their vectors are cached in `.citewire-bench/`), and asks each library its own questions and those of the others, with
the retriever's own code over an exact search in memory: the five best chunks, as in the profile `documents`.
SQuAD and XQuAD aren't asked each other's questions, because they share paragraphs. `--dimensions` keeps only the first
values of each vector, like another, poorer model, whose scale is measured separately.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_data import LexicalIndex, QuestionSet, load
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.models import open_model
from citewire_embedder.providers.base import Precision, Purpose
from citewire_embedder.settings import EmbedderSettings
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.backfill.scales import TEXTS, scale_of
from citewire_retriever.model import Candidate, Scope, SearchQuery, Space, SpaceScale
from citewire_retriever.service.topics import TopicJudge
from citewire_retriever.store.snapshots import SearchSnapshot
from citewire_retriever.store.topics import LibraryTopic, PostgresTopics

LIBRARIES: Final = ("SciFact", "XQuAD en", "SQuAD", "ClapNQ")
ASKED: Final = (*LIBRARIES, "FinanceBench", "XQuAD es", "XQuAD hi", "XQuAD th")
KNOWN: Final = (*LIBRARIES, "FinanceBench")
"""Sets in the language that the model knows."""
TOGETHER: Final = {"XQuAD en": "Wikipedia", "SQuAD": "Wikipedia", "XQuAD es": "Wikipedia", "XQuAD hi": "Wikipedia",
                   "XQuAD th": "Wikipedia"}  # fmt: skip
"""Sets that share paragraphs."""
_TENANT: Final = Tenant("bench", "bench", "free")
_PASSAGES: Final = 5
_MOST: Final = 1000

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Memory:
    """A library in memory, with the interface of `PostgresTopics`."""

    vectors: Floats
    words: LexicalIndex
    topic: LibraryTopic

    async def library(self, _tenant: Tenant, _space: Space, _collection: str) -> LibraryTopic:
        """The scale and samples that a worker would have measured."""
        return self.topic

    async def word_share(self, _tenant: Tenant, query: SearchQuery, _table: str, _chunks: int) -> float:
        """The share of the question's words in the best chunk, as in the lexical leg."""
        scores, ideal = self.words.scores(query.text)
        best = float(scores.max())
        return best / max(ideal, best, 1e-9)

    async def is_off_topic(self, text: str, vector: Floats) -> bool:
        """Searches and judges."""
        cosines = np.clip(self.vectors @ vector, 0.0, 1.0)
        best = np.argsort(-cosines)[:_PASSAGES]
        ranked = tuple(Candidate(int(place), int(place), b"", float(cosines[place])) for place in best)
        query = SearchQuery(
            Scope(), vector=vector.astype("<f4").tobytes(), space=Space("benchmark", "", len(vector)), text=text
        )
        snapshot = SearchSnapshot((), (), ranked, (), exact=True)
        judge = TopicJudge(cast("PostgresTopics", self))
        return (await judge.judge(_TENANT, query, snapshot, ranked)).off_topic


def main() -> int:
    """Measures, and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimensions", type=int, help="use only this many first values of each vector")
    parser.add_argument("--precision", type=Precision, default=Precision.FP32, choices=list(Precision))
    options = parser.parse_args()
    print(describe_machine())
    scale = asyncio.run(measure(options.precision, options.dimensions))
    print(f"unrelated {scale.unrelated:.3f} ± {scale.deviation:.3f}, related {scale.related:.1f} deviations above")
    sets = {name: load(name, options.precision) for name in ASKED}
    rows: list[list[object]] = []
    for name in LIBRARIES:
        library = hold(sets[name], scale, options.dimensions)
        for other in ASKED:
            if other == name or TOGETHER.get(other, other) != TOGETHER.get(name, name):
                rows.append(asyncio.run(ask(library, name, sets[other], options.dimensions)))
                print(".", end="", file=sys.stderr, flush=True)
    print()
    print(format_table(["library", "questions of", "number", "off topic", "95 %", ""], rows))
    return 0


async def measure(precision: Precision, dimensions: int | None) -> SpaceScale:
    """Measures the space like a worker."""
    model = open_model(EmbedderSettings(port=0, metrics_port=0, auth="off", precision=precision))
    await model.load()
    vectors: dict[str, tuple[Floats, Floats]] = {}
    try:
        for language, texts in TEXTS.items():
            asked = await model.embed(await model.tokenise(texts.questions, Purpose.QUERY))
            stored = await model.embed(await model.tokenise(texts.passages, Purpose.DOCUMENT))
            vectors[language] = np.asarray(asked)[:, :dimensions], np.asarray(stored)[:, :dimensions]
    finally:
        await model.close()
    return scale_of(vectors)


def hold(library: QuestionSet, scale: SpaceScale, dimensions: int | None) -> Memory:
    """Loads a library into memory."""
    vectors = normalise(library.vectors[:, :dimensions])
    topic = LibraryTopic("", scale, len(vectors), vectors.mean(axis=0))
    words = LexicalIndex(
        (passage.text for passage in library.passages), (passage.headings for passage in library.passages)
    )
    return Memory(vectors, words, topic)


async def ask(library: Memory, name: str, asked: QuestionSet, dimensions: int | None) -> list[object]:
    """Asks at most 1,000 evenly spaced questions; returns the table's row."""
    step = math.ceil(len(asked.questions) / _MOST)
    vectors = normalise(asked.asked[::step, :dimensions])
    verdicts = [
        await library.is_off_topic(question.text, vector)
        for question, vector in zip(asked.questions[::step], vectors, strict=True)
    ]
    low, high = wilson(sum(verdicts), len(verdicts))
    kind = "lost" if asked.name == name else "caught" if asked.name in KNOWN else "caught, other language"
    return [name, asked.name, len(verdicts), f"{np.mean(verdicts):.3f}", f"{low:.3f}-{high:.3f}", kind]


def wilson(count: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def normalise(vectors: Floats) -> Floats:
    """Vectors of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


if __name__ == "__main__":
    sys.exit(main())
