"""What the embedder can be told, as environment variables `CITEWIRE_EMBEDDER_*`."""

from pathlib import Path

from pydantic import Field

from citewire_embedder.providers.base import Precision
from citewire_embedder.scheduler import BatchLimits
from citewire_embedder.service import ServiceLimits
from citewire_kit.settings import ProcessSettings, settings_config
from citewire_remote.settings import TenantProviderSettings


class EmbedderSettings(TenantProviderSettings, ProcessSettings):
    """Settings of the embedder process."""

    model_config = settings_config("CITEWIRE_EMBEDDER_")

    port: int = Field(default=50051, ge=0, le=65535)
    """gRPC port."""

    metrics_port: int = Field(default=9101, ge=0, le=65535)
    """Port of the metrics server."""

    model: str = Field(default="all-MiniLM-L6-v2", min_length=1)
    """`all-MiniLM-L6-v2` (built in), a model directory's path, or a name on the Hugging Face hub, `owner/name`, with
    `@revision` if one is to be pinned. A path's model is named after its last part."""

    model_cache: Path | None = None
    """Where models from the hub are kept; unset means the hub library's own cache."""

    precision: Precision = Precision.FP32
    """`fp32` (the reference), `bf16` (only on CPUs with bf16 instructions), `int8`. Their speed and their cost in
    quality are in docs/adr/0007-embedding-runtime.md."""

    threads: int = Field(default=0, ge=0, le=512)
    """CPU threads of one computation; 0 takes all CPUs that the process may use, its container's quota included."""

    batch_tokens: int = Field(default=768, ge=1)
    """Padded tokens in one batch of the model: four chunks of 190. On few cores larger batches aren't faster, and a
    query waits for the running one's end; a machine with many cores wants more."""

    batch_texts: int = Field(default=16, ge=1)
    """Texts in one batch of the model."""

    query_tokens: int = Field(default=8_192, ge=1)
    """Tokens of queries that may wait or be computed at once: about a second's work of two cores, as a query's
    deadline is 2 s. More are refused at once."""

    document_tokens: int = Field(default=131_072, ge=1)
    """The same for documents: two requests of the largest size. Streams wait instead of being refused."""

    cache_entries: int = Field(default=10_000, ge=0)
    """Query vectors kept: 1.5 kB each with 384 dimensions, and the text. 0 switches the cache off."""

    stream_ahead: int = Field(default=2, ge=1, le=64)
    """Batches of one EmbedStream that are worked on at once: two, so that the model never waits for the next."""

    max_concurrent_rpcs: int = Field(default=512, ge=1)
    """Calls handled at once, waiting ones included. More are refused at once."""

    def limits(self) -> ServiceLimits:
        """Returns the limits as the domain wants them."""
        return ServiceLimits(
            query_tokens=self.query_tokens,
            document_tokens=self.document_tokens,
            cache_entries=self.cache_entries,
            batch=BatchLimits(tokens=self.batch_tokens, texts=self.batch_texts),
            stream_ahead=self.stream_ahead,
        )
