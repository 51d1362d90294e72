"""Groups chunks and texts to fit one request to the embedder."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from citewire_retriever.ingest import metrics
from citewire_retriever.ingest.chunks import Chunk, embedding_input, input_hash
from citewire_retriever.ingest.turn import Turn
from citewire_retriever.store.vectors import Float32

T = TypeVar("T")

_MAX_BATCH_BYTES: Final = 768 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks stored together."""

    chunks: list[Chunk]
    live: list[int | None]
    """For each, the chunk of the live version with the same embedding input, if there is one."""
    texts: list[str]
    """The texts to embed for the others."""

    @classmethod
    def of(cls, chunks: list[Chunk], live: Mapping[bytes, int]) -> "Batch":
        """Splits chunks into those to embed and those that the live version already has."""
        known = [live.get(input_hash(each)) if live else None for each in chunks]
        texts = [embedding_input(c.header, c.text) for c, earlier in zip(chunks, known, strict=True) if earlier is None]
        return cls(chunks, known, texts)

    def merged(self, vectors: Iterable[Float32]) -> list[Float32 | int]:
        """For each chunk its vector, or the chunk that has it."""
        fresh = iter(vectors)
        return [next(fresh) if earlier is None else earlier for earlier in self.live]

    def count(self, turn: Turn) -> None:
        """Counts embedded and reused chunks."""
        fresh = [c.token_count for c, earlier in zip(self.chunks, self.live, strict=True) if earlier is None]
        metrics.CHUNKS.inc(len(fresh))
        metrics.REUSED.inc(len(self.chunks) - len(fresh))
        turn.embedded(sum(fresh))


def batches_of(chunks: Sequence[Chunk], most: int) -> list[list[Chunk]]:
    """Returns chunks in groups of limited size."""
    return _groups(chunks, lambda each: embedding_input(each.header, each.text), most)


def grouped(texts: Sequence[str]) -> list[list[str]]:
    """Returns texts in groups of limited size."""
    return _groups(texts, str, len(texts))


def _groups(items: Sequence[T], text_of: Callable[[T], str], most: int) -> list[list[T]]:
    groups: list[list[T]] = []
    size = 0
    for item in items:
        length = len(text_of(item).encode("utf-8"))
        if not groups or len(groups[-1]) == most or size + length > _MAX_BATCH_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += length
    return groups
