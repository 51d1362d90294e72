"""Settings of the retriever's processes. Built only in `__main__`."""

from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr, field_validator

from citewire_egress.addresses import EgressPolicy
from citewire_kit.caller_limits import CallerLimitSettings
from citewire_kit.settings import settings_config
from citewire_retriever.ingest.sandbox import Confinement

_MIB = 1024 * 1024


class RetrieverSettings(CallerLimitSettings):
    """The server's settings."""

    model_config = settings_config("CITEWIRE_RETRIEVER_")

    port: int = Field(default=50052, ge=0, le=65535)
    """Port to listen on; 0 takes a free one (tests)."""

    metrics_port: int = Field(default=9102, ge=0, le=65535)
    """Port of the metrics server; 0 takes a free one (tests)."""

    dsn: SecretStr
    """Connection string of the role citewire_corpus, which is neither owner nor exempt from row-level security."""

    direct_dsn: SecretStr | None = None
    """The same past the pooler, if `dsn` leads through one: for notifications, which a pooler doesn't pass on, and for
    probing a cluster's nodes, which would hold up the pooler's connections. None: `dsn`."""

    pool_max_size: int = Field(default=8, ge=1, le=200)
    """Most database connections. A search holds one for a few milliseconds; more than cores × 4 only queue there."""

    max_concurrent: int = Field(default=256, ge=1)
    """Most concurrent calls, including watches and uploads; further ones are refused at once."""

    spool_dir: Path | None = None
    """Folder for incoming uploads; None for the system's. In the worst case it needs space for max_concurrent ×
    upload_max_bytes."""

    upload_max_bytes: int = Field(default=256 * _MIB, ge=1)
    """Largest file, in bytes."""

    max_uploads: int = Field(default=64, ge=1)
    """Most uploads received concurrently. Organisations share them: one with more than another loses its latest upload
    to it, with RESOURCE_EXHAUSTED; one upload too many of its own is refused likewise."""

    upload_bytes_per_second: float = Field(default=4096.0, gt=0)
    """Slowest upload rate: an upload that is behind it by more than upload_grace_seconds is aborted."""

    upload_grace_seconds: float = Field(default=20.0, gt=0)
    """Seconds that an upload may be slower than that."""

    fetch: bool = True
    """Whether uploads may name a public address to fetch the file from."""

    fetch_allow: str = ""
    """Private addresses from which everybody who may upload can also fetch files: hosts, `host:port`, addresses, CIDR
    ranges, separated by commas."""

    fetch_seconds: float = Field(default=50.0, gt=0)
    """Most seconds for fetching one file, including redirects; clients wait 60 seconds for the answer."""

    text_max_bytes: int = Field(default=8 * _MIB, ge=1)
    """Largest typed text (PutDocument), in bytes of UTF-8."""

    max_chars: int = Field(
        default=32_000_000,
        ge=1000,
        validation_alias=AliasChoices("CITEWIRE_RETRIEVER_MAX_CHARS", "CITEWIRE_WORKER_MAX_CHARS"),
    )
    """Most characters of text in a file, checked at the upload if they can be counted then. Defaults to the worker's
    setting."""

    locate_processes: int = Field(default=2, ge=1, le=64)
    """Originals read concurrently for locating quotes, each by a confined process."""

    locate_seconds: float = Field(default=10.0, ge=1)
    """Most seconds for reading one; after that, a quote has a page but no boxes."""

    locate_memory_mib: int = Field(default=768, ge=256)
    """Address space of such a process."""

    locate_max_bytes: int = Field(default=64 * _MIB, ge=0)
    """Largest original read for it, in bytes. 0: none."""

    table_processes: int = Field(default=2, ge=1, le=64)
    """Originals read concurrently for computing over their tables, each by a confined process."""

    table_seconds: float = Field(default=90.0, ge=1)
    """Most seconds for one such answer, by the clock and of CPU; a million rows of six columns take 30."""

    table_memory_mib: int = Field(default=2048, ge=512)
    """Address space of such a process."""

    table_max_bytes: int = Field(default=128 * _MIB, ge=0)
    """Largest original for computing, in bytes. 0: none."""

    confinement: Confinement = Field(
        default="required",
        validation_alias=AliasChoices("CITEWIRE_RETRIEVER_CONFINEMENT", "CITEWIRE_WORKER_CONFINEMENT"),
    )
    """The worker's setting, for these processes: with `required`, none is read if the kernel can't confine them."""

    store_seconds: float = Field(default=120.0, gt=0)
    """Most seconds for storing one spooled upload; 256 MiB take about 5 on a small machine."""

    watch_poll_seconds: float = Field(default=2.0, gt=0)
    """Seconds between a watch's own polls, in case a notification is lost."""

    health_seconds: float = Field(default=1.0, gt=0)
    """Seconds between checks of the database, which determine the health status."""

    ef_search_first: int = Field(default=60, ge=1, le=1000)
    """Candidates that the graph keeps in the first, short walk, which is enough for questions about a tenant's
    documents; more for many results, and if some of the graph's rows are out of scope."""

    ef_search: int = Field(default=160, ge=1, le=1000)
    """The same for the second walk, plus four per result; more if some of the graph's rows are out of scope. It follows
    if the first walk's distances show that the tenant has nothing close."""

    ef_search_max: int = Field(default=400, ge=1, le=1000)
    """Most candidates of either walk, for scopes with few of the graph's rows; beyond it the iterative scan continues.
    """

    max_scan_tuples: int = Field(default=20_000, ge=1)
    """Most rows visited by an iterative scan; if it found too little, the exact scan follows."""

    exact_chunks: int = Field(default=1000, ge=0)
    """Scopes of at most this many chunks are always scanned exactly, as the graph isn't faster."""

    exact_chunks_per_candidate: float = Field(default=12.0, ge=0)
    """Chunks that an exact scan reads in the time that the graph needs for one more candidate, measured with 384
    dimensions."""

    lexical_scan_chunks: int = Field(default=4000, ge=0)
    """Scopes of at most this many chunks are scanned for words; in larger ones, candidates are found by the question's
    rare terms. The results are the same."""

    statistics_seconds: float = Field(default=30.0, ge=0)
    """Seconds that an organisation's chunk count is cached for choosing between graph and exact scan. It never affects
    what is found."""

    recall_sample_rate: float = Field(default=0.01, ge=0, le=1)
    """Share of searches through the graph with recall measured in the background; 0 for none. At 0.01, a scan of 20 ms
    adds less than a tenth to the cost of such searches."""

    recall_sample_connections: int = Field(default=1, ge=1, le=20)
    """Samples measured concurrently, each on a separate connection in addition to `pool_max_size`."""

    recall_sample_waiting: int = Field(default=16, ge=1, le=1000)
    """Most waiting samples; further ones are dropped and counted."""

    recall_sample_seconds: float = Field(default=10.0, gt=0)
    """Most seconds for measuring one in the database."""

    recall_sample_low: float = Field(default=0.8, ge=0, le=1)
    """Samples with less recall are logged."""

    @field_validator("fetch_allow")
    @classmethod
    def _is_a_list(cls, value: str) -> str:
        EgressPolicy.parse(value)
        return value

    def direct(self) -> str:
        """Returns the connection string past any pooler."""
        return (self.direct_dsn or self.dsn).get_secret_value()
