"""What the embedder's domain speaks of: texts in, vectors out."""

from dataclasses import dataclass

from citewire_embedder.providers.base import EmbeddingSpace, ModelInfo, Purpose, Vectors
from citewire_embedder.scheduler import BatchLimits
from citewire_remote.tenants import SealedProvider


@dataclass(frozen=True, slots=True)
class EmbedBatch:
    """Texts to embed.

    Attributes:
        texts: 1-256 texts, none empty.
        purpose: What they are embedded for.
        org_id: Whose they are.
        model: The model's name; empty for the default.
        dimensions: Length of the vectors wanted; None for the model's own.
        truncate: Leave out the tail of a text that is longer than the window, instead of refusing the batch.
        provider: The tenant's own, which embeds instead; None for this process's model.
    """

    texts: tuple[str, ...]
    purpose: Purpose
    org_id: str
    model: str = ""
    dimensions: int | None = None
    truncate: bool = False
    provider: SealedProvider | None = None


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """The vectors of a batch, in its order.

    Attributes:
        vectors: Shape (texts, dimensions).
        space: What the vectors are comparable in.
        input_tokens: Tokens that the model read; texts answered from the cache cost none.
        token_counts: Tokens of each text before any cut.
        truncated: Indices of the texts whose tail was left out.
    """

    vectors: Vectors
    space: EmbeddingSpace
    input_tokens: int
    token_counts: tuple[int, ...]
    truncated: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of texts without what the model adds to each, and the model that counted."""

    counts: tuple[int, ...]
    model: ModelInfo


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits of the service; all are settings.

    Attributes:
        query_tokens: Tokens of queries that may wait or be computed at once.
        document_tokens: The same for documents.
        cache_entries: Query vectors kept.
        batch: Size of a batch of the model.
        stream_ahead: Batches of one EmbedStream that are worked on at once.
    """

    query_tokens: int
    document_tokens: int
    cache_entries: int
    batch: BatchLimits
    stream_ahead: int = 2
