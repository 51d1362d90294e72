"""Settings of the ingest worker. Built only by its `main`."""

from pathlib import Path

from pydantic import Field, SecretStr

from citewire_kit.settings import CallerSettings, settings_config
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.sandbox import Confinement

_DAY = 24 * 3600.0


class WorkerSettings(CallerSettings):
    """The worker's settings, as environment variables `CITEWIRE_WORKER_*`."""

    model_config = settings_config("CITEWIRE_WORKER_")

    port: int = Field(default=0, ge=0, le=65535)
    """Not used, as the worker serves no calls. Probes use `probe_port`."""

    metrics_port: int = Field(default=9104, ge=0, le=65535)
    """Port of the metrics server; 0 takes a free one (tests)."""

    dsn: SecretStr
    """Connection string of the role citewire_worker."""

    direct_dsn: SecretStr | None = None
    """The same past the pooler, if `dsn` leads through one: for notifications, without which the worker finds work by
    polling every poll_seconds, and for probing a cluster's nodes, which would hold up the pooler's connections. None:
    `dsn`."""

    embedder_target: str = Field(default="127.0.0.1:50051", min_length=1)
    """Address of the embedder: `host:port`, or a gRPC target."""

    generator_target: str = Field(default="127.0.0.1:50053", min_length=1)
    """Address of the generator, which describes documents in collections with enrichment."""

    enrich_concurrency: int = Field(default=2, ge=0, le=64)
    """Documents enriched concurrently, in addition to those being ingested, as this is mostly waiting for a model.
    0: this worker enriches none."""

    enrich_seconds: float = Field(default=90.0, gt=0)
    """Most seconds for describing one document; the generator's own limit should be lower."""

    enrich_again_seconds: float = Field(default=3600.0, gt=0)
    """Seconds until a document is tried again whose enrichment was refused by a budget."""

    more_models: str = ""
    """Further models of the embedder, separated by commas. Every document is also embedded in their spaces after it
    went live in its organisation's space, for systems that search with their own model."""

    backfill_seconds: float = Field(default=60.0, ge=0)
    """Seconds between checks of an organisation's live documents for missing vectors, by one worker for all. Those
    found are embedded when no upload is waiting. 0: never by this worker."""

    backfill_tokens_per_second: float = Field(default=5000.0, ge=0)
    """Most document tokens per second that this worker's backfill has embedded, on average. The rest of a shared
    embedder's capacity, or of a provider's rate limit, is for uploads and questions. 0: no limit."""

    backfill_documents: int = Field(default=1000, ge=1)
    """Most documents of one organisation queued for backfill; more are looked for when these are done."""

    backfill_again_seconds: float = Field(default=600.0, gt=0)
    """Seconds until a document is tried again whose backfill was given up after max_attempts."""

    concurrency: int = Field(default=2, ge=1, le=64)
    """Documents processed concurrently, each with a parsing process while it is read, in addition to a reserved slot
    for small files (small_bytes). With two, one is parsed while the other is embedded."""

    small_bytes: int = Field(default=1024 * 1024, ge=0)
    """Largest file for the reserved slot, which serves organisations with no job running while others' long files
    occupy all other slots. 0: there is no reserved slot."""

    turn_seconds: float = Field(default=5.0, gt=0)
    """Seconds that a document is worked on while others wait; then it returns to the queue, keeping what is embedded.
    At least twice the time for reading it, as another worker would have to read it again."""

    lease_seconds: float = Field(default=30.0, ge=1)
    """A worker that is silent for this long loses its jobs. Leases are renewed after a third of it."""

    poll_seconds: float = Field(default=2.0, gt=0)
    """Seconds between an idle worker's polls for work: due retries, and lost notifications."""

    measure_seconds: float = Field(default=10.0, gt=0)
    """Seconds between measurements of the queue."""

    retry_seconds: float = Field(default=1.0, gt=0)
    """Wait before the second attempt; doubled with each further one."""

    retry_seconds_max: float = Field(default=60.0, gt=0)
    """Longest wait between attempts."""

    max_attempts: int = Field(default=10, ge=1)
    """Attempts that end in an internal error before a version is given up: four minutes including the waits. An
    unreachable database or embedder doesn't count: such jobs are retried for give_up_seconds."""

    max_claims: int = Field(default=100, ge=1)
    """Claims of one job, however they ended, before it is given up: mainly for documents that crash the worker."""

    give_up_seconds: float = Field(default=_DAY, gt=0)
    """Seconds that a job is retried while the embedder refuses it."""

    keep_seconds: float = Field(default=30 * _DAY, ge=0)
    """Seconds that a superseded version's text, chunks and bytes are kept so that old citations still open: 30 days."""

    spool_dir: Path | None = None
    """Folder for files being read; None for the system's. It needs space for concurrency × 256 MiB."""

    parse_seconds: float = Field(default=300.0, gt=0)
    """Most seconds for reading one file. 100 pages of PDF take one second."""

    parse_cpu_seconds: float = Field(default=30.0, ge=1)
    """CPU seconds for reading a file of up to 1 MiB."""

    parse_cpu_seconds_per_mib: float = Field(default=10.0, ge=0)
    """CPU seconds added for each further MiB of a file, up to parse_seconds in total."""

    parse_memory_mib: int = Field(default=2048, ge=256)
    """Address space of a parsing process."""

    ocr_program: str = "tesseract"
    """Name or path of Tesseract, which recognises text in images and scanned pages. If it isn't installed, or this is
    `off`, such files fail with `NO_TEXT`."""

    ocr_languages: str = ""
    """Languages to recognise, by Tesseract's names, separated by commas: `eng,deu`. Empty: all that are installed. Each
    takes about as much CPU time as the first."""

    ocr_cpu_seconds: float = Field(default=60.0, ge=1)
    """CPU seconds for recognising one page; an A4 page takes one to five."""

    ocr_pages: int = Field(default=500, ge=1)
    """Most scanned pages of one document, which occupies a slot of the worker until all are recognised."""

    parse_jobs: int = Field(default=1000, ge=1)
    """Files after which the process that forks parsing processes is replaced: its children share a memory layout."""

    confinement: Confinement = "required"
    """`required`: the worker starts only if parsing processes can be confined by Landlock and seccomp.
    `available`: it starts on any kernel, and confines them as far as possible; only for trusted files."""

    max_chars: int = Field(default=32_000_000, ge=1000)
    """Most characters of text in one document."""

    max_pages: int = Field(default=10_000, ge=1)
    """Most pages of one PDF."""

    max_chunks: int = Field(default=1_000_000, ge=1)
    """Most chunks of one document."""

    chunk_tokens: int = Field(default=160, ge=16)
    """Tokens at which a chunk of small paragraphs is closed. Measured on SQuAD 2 and FinanceBench: 96 to 200 perform
    alike (recall@3 0.85–0.86), filling the window of 254 costs 3 points."""

    row_tokens: int = Field(default=24, ge=1)
    """Tokens at which a chunk of small table rows is closed. Each further row in a chunk makes the others harder to
    find by meaning: in recall@5, rows alone have 0.67, chunks of 24 tokens 0.62, of 160 tokens 0.55."""

    overlap_tokens: int = Field(default=32, ge=0)
    """Tokens of sentences repeated where a paragraph had to be split."""

    batch_chunks: int = Field(default=32, ge=1, le=256)
    """Chunks embedded and stored together: about one second of work for two cores."""

    stream_batches: int = Field(default=16, ge=1)
    """Batches per EmbedStream call; the next call goes to whichever embedder has capacity."""

    embed_seconds: float = Field(default=120.0, gt=0)
    """Most seconds for one batch, including waiting for other documents."""

    def direct(self) -> str:
        """Returns the connection string past any pooler."""
        return (self.direct_dsn or self.dsn).get_secret_value()

    def further_models(self) -> tuple[str, ...]:
        """Returns the names of the further models."""
        return tuple(dict.fromkeys(name.strip() for name in self.more_models.split(",") if name.strip()))

    def parse_limits(self) -> ParseLimits:
        """Limits on one file."""
        return ParseLimits(max_chars=self.max_chars, max_pages=self.max_pages)

    def rules(self, window: int) -> ChunkRules:
        """Chunk sizes for a model with this token limit."""
        return ChunkRules(
            max_tokens=window,
            target_tokens=min(self.chunk_tokens, window),
            row_tokens=self.row_tokens,
            overlap_tokens=min(self.overlap_tokens, window // 4),
            max_chunks=self.max_chunks,
        )
