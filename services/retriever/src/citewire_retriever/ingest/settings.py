"""Settings of the ingest worker. Built only by its `main`."""

from pathlib import Path

from pydantic import Field, SecretStr

from citewire_kit.settings import CallerSettings, settings_config
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.sandbox import Confinement

_DAY = 24 * 3600.0


class WorkerSettings(CallerSettings):
    """What the worker can be told, as environment variables `CITEWIRE_WORKER_*`."""

    model_config = settings_config("CITEWIRE_WORKER_")

    port: int = Field(default=0, ge=0, le=65535)
    """Not used: the worker answers no calls. Probes ask it on `probe_port`."""

    metrics_port: int = Field(default=9104, ge=0, le=65535)
    """Port of the metrics server; 0 takes a free one (tests)."""

    dsn: SecretStr
    """Connection string of the role citewire_worker. A direct one: LISTEN doesn't pass a transaction-mode pooler
    (the worker then finds work by asking every poll_seconds)."""

    embedder_target: str = Field(default="127.0.0.1:50051", min_length=1)
    """Where the embedder is: `host:port`, or a gRPC target."""

    generator_target: str = Field(default="127.0.0.1:50053", min_length=1)
    """Where the generator is, which describes documents of collections that want them enriched."""

    enrich_concurrency: int = Field(default=2, ge=0, le=64)
    """Documents that are enriched at once, beside those that are ingested: most of the time a model is waited for.
    0: none by this worker."""

    enrich_seconds: float = Field(default=90.0, gt=0)
    """Longest that describing one document may take; the generator has a limit of its own, which should be less."""

    enrich_again_seconds: float = Field(default=3600.0, gt=0)
    """How long a document rests whose enrichment a budget has refused."""

    more_models: str = ""
    """Models of the embedder, divided by commas, in whose spaces every document is embedded too, after it went live in
    its organisation's space: for systems that search with a model of their own."""

    backfill_seconds: float = Field(default=60.0, ge=0)
    """How often an organisation's live documents are looked through for missing vectors, by one worker for all; those
    found are embedded when no upload waits. 0: never by this worker."""

    backfill_tokens_per_second: float = Field(default=5000.0, ge=0)
    """How many tokens of documents backfill may have embedded a second, on average and by this worker: what it leaves
    of a shared embedder, or of a provider's rate limit, is for uploads and questions. 0: no limit."""

    backfill_documents: int = Field(default=1000, ge=1)
    """Documents of one organisation that may wait for backfill at once; the next are found when these are done."""

    backfill_again_seconds: float = Field(default=600.0, gt=0)
    """How long a document rests whose backfill was given up after max_attempts."""

    concurrency: int = Field(default=2, ge=1, le=64)
    """Documents at once, each with a parsing process while it is read, beside a kept slot for small files
    (small_bytes). Two: while one is embedded, the next is parsed."""

    small_bytes: int = Field(default=1024 * 1024, ge=0)
    """Largest file that the kept slot takes, beside those of `concurrency`: one of an organisation that has nothing in
    work, while others' long files have all other slots. 0: there is no kept slot."""

    turn_seconds: float = Field(default=5.0, gt=0)
    """How long a document is worked on while others wait; then it goes back to the queue with what is embedded. At
    least twice as long as reading it took, as another worker would have to read it again."""

    lease_seconds: float = Field(default=30.0, ge=1)
    """A worker that is silent for this long has lost its jobs. They are renewed every third of it."""

    poll_seconds: float = Field(default=2.0, gt=0)
    """How often an idle worker asks for work by itself: for retries whose time has come, and lost notifications."""

    measure_seconds: float = Field(default=10.0, gt=0)
    """How often the queue is measured."""

    retry_seconds: float = Field(default=1.0, gt=0)
    """Wait before the second attempt; doubled with each further one."""

    retry_seconds_max: float = Field(default=60.0, gt=0)
    """Longest wait between attempts."""

    max_attempts: int = Field(default=10, ge=1)
    """Attempts that end in an error of our own before a version is given up, four minutes with the waits between. A
    database or embedder that can't be reached isn't one: such jobs are tried for give_up_seconds."""

    max_claims: int = Field(default=100, ge=1)
    """Claims of one job, whatever ended them, before it is given up: a document that kills the worker, above all."""

    give_up_seconds: float = Field(default=_DAY, gt=0)
    """How long a job is tried while the embedder refuses it."""

    keep_seconds: float = Field(default=30 * _DAY, ge=0)
    """How long a superseded version keeps its text, chunks and bytes, so that old citations still open: 30 days."""

    spool_dir: Path | None = None
    """Folder for the file that is being read; None takes the system's. It needs room for concurrency × 256 MiB."""

    parse_seconds: float = Field(default=300.0, gt=0)
    """Longest that reading one file may take. 100 pages of PDF take a second."""

    parse_cpu_seconds: float = Field(default=30.0, ge=1)
    """Seconds of computing that reading a file of up to 1 MiB may take."""

    parse_cpu_seconds_per_mib: float = Field(default=10.0, ge=0)
    """Seconds of computing that each further MiB of a file adds to it, up to parse_seconds in all."""

    parse_memory_mib: int = Field(default=2048, ge=256)
    """Address space of a parsing process."""

    ocr_program: str = "tesseract"
    """Tesseract, which recognises text in images and scanned pages: its name or path. Where it isn't installed, or this
    is `off`, such files fail with `NO_TEXT`."""

    ocr_languages: str = ""
    """Languages in which text is recognised, by Tesseract's names, divided by commas: `eng,deu`. Empty: all that are
    installed. Each takes about as much computing as the first."""

    ocr_cpu_seconds: float = Field(default=60.0, ge=1)
    """Seconds of computing that recognising one page may take; a page of A4 takes one to five."""

    ocr_pages: int = Field(default=500, ge=1)
    """Scanned pages that one document may have: they hold a slot of the worker until all are recognised."""

    parse_jobs: int = Field(default=1000, ge=1)
    """Files after which the process that forks parsing processes is replaced: those of one share its layout of memory.
    """

    confinement: Confinement = "required"
    """`required`: the worker starts only where parsing processes can be locked in by Landlock and seccomp.
    `available`: it starts on any kernel, and locks them in as far as that one can; for files that are your own."""

    max_chars: int = Field(default=32_000_000, ge=1000)
    """Characters of text that one document may hold."""

    max_pages: int = Field(default=10_000, ge=1)
    """Pages that one PDF may have."""

    max_chunks: int = Field(default=1_000_000, ge=1)
    """Chunks that one document may become."""

    chunk_tokens: int = Field(default=160, ge=16)
    """Tokens at which a chunk of small paragraphs is closed. Measured on SQuAD 2 and FinanceBench: 96 to 200 are alike
    (recall@3 0.85–0.86), filling the window of 254 costs 3 points."""

    row_tokens: int = Field(default=24, ge=1)
    """Tokens at which a chunk of small table rows is closed. Each further row in a chunk makes the others harder to
    find by meaning: in recall@5, rows alone have 0.67, chunks of 24 tokens 0.62, of 160 tokens 0.55."""

    overlap_tokens: int = Field(default=32, ge=0)
    """Tokens of sentences that are repeated where a paragraph had to be cut."""

    batch_chunks: int = Field(default=32, ge=1, le=256)
    """Chunks that are embedded and stored together: about a second's work of two cores."""

    stream_batches: int = Field(default=16, ge=1)
    """Batches of one EmbedStream call; then a new one goes to whichever embedder has room."""

    embed_seconds: float = Field(default=120.0, gt=0)
    """Longest that one batch may take, waiting for other documents included."""

    def further_models(self) -> tuple[str, ...]:
        """Returns the names of the further models."""
        return tuple(dict.fromkeys(name.strip() for name in self.more_models.split(",") if name.strip()))

    def parse_limits(self) -> ParseLimits:
        """Bounds on one file."""
        return ParseLimits(max_chars=self.max_chars, max_pages=self.max_pages)

    def rules(self, window: int) -> ChunkRules:
        """Sizes of chunks for a model that takes so many tokens."""
        return ChunkRules(
            max_tokens=window,
            target_tokens=min(self.chunk_tokens, window),
            row_tokens=self.row_tokens,
            overlap_tokens=min(self.overlap_tokens, window // 4),
            max_chunks=self.max_chunks,
        )
