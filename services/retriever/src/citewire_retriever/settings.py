"""Settings of the retriever's processes. Built only in `__main__`."""

from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr, field_validator

from citewire_egress.addresses import EgressPolicy
from citewire_kit.caller_limits import CallerLimitSettings
from citewire_kit.settings import settings_config
from citewire_retriever.ingest.sandbox import Confinement

_MIB = 1024 * 1024


class RetrieverSettings(CallerLimitSettings):
    """What the server can be told."""

    model_config = settings_config("CITEWIRE_RETRIEVER_")

    port: int = Field(default=50052, ge=0, le=65535)
    """Port to listen on; 0 takes a free one (tests)."""

    metrics_port: int = Field(default=9102, ge=0, le=65535)
    """Port of the metrics server; 0 takes a free one (tests)."""

    dsn: SecretStr
    """Connection string of the role citewire_corpus: neither owner nor allowed around row-level security."""

    pool_max_size: int = Field(default=8, ge=1, le=200)
    """Database connections at most. A search holds one for a few milliseconds; more than cores × 4 only queue there."""

    max_concurrent: int = Field(default=256, ge=1)
    """Calls at the same time, watches and uploads included; one more is refused at once."""

    spool_dir: Path | None = None
    """Folder for uploads on their way; None takes the system's. It needs room for max_concurrent × upload_max_bytes in
    the worst case."""

    upload_max_bytes: int = Field(default=256 * _MIB, ge=1)
    """Largest file, in bytes."""

    max_uploads: int = Field(default=64, ge=1)
    """Uploads that are received at once. Organisations share them: one that holds more than another loses its youngest
    to it, with RESOURCE_EXHAUSTED, as does one too many of its own."""

    upload_bytes_per_second: float = Field(default=4096.0, gt=0)
    """Slowest upload: one that is behind this rate by more than upload_grace_seconds is broken off."""

    upload_grace_seconds: float = Field(default=20.0, gt=0)
    """How long an upload may be slower than that."""

    fetch: bool = True
    """Whether uploads may name an address that the file is fetched from, which then is a public one."""

    fetch_allow: str = ""
    """Private addresses that files may be fetched from as well, by everybody who may upload: hosts, `host:port`,
    addresses, CIDR ranges, separated by commas."""

    fetch_seconds: float = Field(default=50.0, gt=0)
    """Longest that fetching one file may take, redirects included; clients wait 60 seconds for the answer."""

    text_max_bytes: int = Field(default=8 * _MIB, ge=1)
    """Largest typed text (PutDocument), in bytes of UTF-8."""

    max_chars: int = Field(
        default=32_000_000,
        ge=1000,
        validation_alias=AliasChoices("CITEWIRE_RETRIEVER_MAX_CHARS", "CITEWIRE_WORKER_MAX_CHARS"),
    )
    """Characters of text that a file may hold, refused at the upload where they can be counted then: the worker's
    setting, which is read as well if this one isn't set."""

    locate_processes: int = Field(default=2, ge=1, le=64)
    """Originals that are read at once to find where a quote stands in them, each by a confined process."""

    locate_seconds: float = Field(default=10.0, ge=1)
    """Longest that reading one may take; then a quote has a page and no boxes."""

    locate_memory_mib: int = Field(default=768, ge=256)
    """Address space of such a process."""

    locate_max_bytes: int = Field(default=64 * _MIB, ge=0)
    """Largest original that is read for it, in bytes. 0: none."""

    table_processes: int = Field(default=2, ge=1, le=64)
    """Originals that are read at once to compute answers over their tables, each by a confined process."""

    table_seconds: float = Field(default=90.0, ge=1)
    """Longest that one such answer may take, by the clock and in computing; a million rows of six columns take 30."""

    table_memory_mib: int = Field(default=2048, ge=512)
    """Address space of such a process."""

    table_max_bytes: int = Field(default=128 * _MIB, ge=0)
    """Largest original that is computed over, in bytes. 0: none."""

    confinement: Confinement = Field(
        default="required",
        validation_alias=AliasChoices("CITEWIRE_RETRIEVER_CONFINEMENT", "CITEWIRE_WORKER_CONFINEMENT"),
    )
    """The worker's setting, for these processes: `required` reads no original where the kernel can't lock them in."""

    store_seconds: float = Field(default=120.0, gt=0)
    """Longest that storing one spooled upload may take, in seconds; 256 MiB take about 5 on a small machine."""

    watch_poll_seconds: float = Field(default=2.0, gt=0)
    """How often a watch asks by itself, in seconds, should a notification be lost."""

    health_seconds: float = Field(default=1.0, gt=0)
    """How often the database is asked whether it is there, in seconds; health follows it."""

    ef_search_first: int = Field(default=60, ge=1, le=1000)
    """Candidates that the graph keeps in the first, short walk, which is enough for questions about what a tenant
    holds; more for many results, and where part of the graph's rows is out of scope."""

    ef_search: int = Field(default=160, ge=1, le=1000)
    """The same of the second walk, besides four for each result wanted; more where part of the graph's rows is out of
    scope. It follows where the first walk's distances say that the tenant holds nothing near."""

    ef_search_max: int = Field(default=400, ge=1, le=1000)
    """Most candidates of either walk, for scopes that hold few of the graph's rows; beyond it the iterative scan goes
    on."""

    max_scan_tuples: int = Field(default=20_000, ge=1)
    """Rows that an iterative scan visits before it gives up; if it found too little, the exact scan follows."""

    exact_chunks: int = Field(default=1000, ge=0)
    """Scopes of at most this many chunks are always scanned exactly: the graph isn't faster there."""

    exact_chunks_per_candidate: float = Field(default=12.0, ge=0)
    """Chunks that an exact scan reads in the time that the graph takes for one more candidate; measured, 384
    dimensions."""

    lexical_scan_chunks: int = Field(default=4000, ge=0)
    """Scopes of at most this many chunks are scanned for words; in larger ones, candidates are found by the question's
    rare terms. The results are the same."""

    statistics_seconds: float = Field(default=30.0, ge=0)
    """How long an organisation's chunk count is remembered for choosing between graph and exact scan. It never decides
    what is found."""

    recall_sample_rate: float = Field(default=0.01, ge=0, le=1)
    """Share of the searches through the graph whose recall is measured in the background; 0 measures none. At 0.01 a
    scan of 20 ms adds less than a tenth to what such searches cost."""

    recall_sample_connections: int = Field(default=1, ge=1, le=20)
    """Samples measured at once, each on a connection of its own beside `pool_max_size`."""

    recall_sample_waiting: int = Field(default=16, ge=1, le=1000)
    """Samples that wait for their turn; more are dropped and counted."""

    recall_sample_seconds: float = Field(default=10.0, gt=0)
    """Longest that measuring one may take in the database, in seconds."""

    recall_sample_low: float = Field(default=0.8, ge=0, le=1)
    """A sample with less recall than this is logged."""

    @field_validator("fetch_allow")
    @classmethod
    def _is_a_list(cls, value: str) -> str:
        EgressPolicy.parse(value)
        return value
