"""Settings of the gateway's processes, read from the environment in `__main__` and nowhere else."""

from pydantic import Field, field_validator

from citewire_accounts.settings import PREFIX, AccountSettings
from citewire_dialects.profile import ProfileModels
from citewire_gateway.profiles.builtin import PROFILES, SIMPLE
from citewire_http.settings import HttpSettings
from citewire_kit.limit_store import LimitStoreSettings
from citewire_kit.pace import Pace
from citewire_kit.settings import CallerSettings, TlsSettings, settings_config

MIB = 1024 * 1024


class GatewaySettings(HttpSettings, AccountSettings, CallerSettings, LimitStoreSettings):
    """What `serve` can be told."""

    model_config = settings_config(PREFIX)

    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the HTTP API; 0 takes a free one (tests)."""

    metrics_port: int = Field(default=9100, ge=0, le=65535)
    """Port of the metrics, apart from the public one."""

    dsn: str
    """Connection string of the application role `citewire_chat`, whom row-level security binds."""

    pool_max: int = Field(default=8, ge=1, le=100)
    """Most database connections. A chat holds one for milliseconds at its start and end, never while streaming."""

    embedder_target: str = "127.0.0.1:50051"
    """gRPC target of the embedder."""

    retriever_target: str = "127.0.0.1:50052"
    """gRPC target of the retriever."""

    generator_target: str = "127.0.0.1:50053"
    """gRPC target of the generator."""

    default_profile: str = "documents"
    """Profile of a request that names none."""

    simple_model: str = Field(default="", max_length=200)
    """Chat model of the profile `simple`, as the generator names it, such as `ollama/llama3.2`; empty is the default
    one."""

    simple_embedding_model: str = Field(default="", max_length=200)
    """Embedding model of the profile `simple`, as the embedder names it; empty is the default one. The worker must
    embed documents with it too: `CITEWIRE_WORKER_MORE_MODELS`."""

    max_question_bytes: int = Field(default=32 * 1024, ge=1)
    """Longest question, in bytes of UTF-8."""

    max_json_bytes: int = Field(default=MIB, ge=1024)
    """Largest JSON body."""

    max_upload_bytes: int = Field(default=256 * MIB, ge=1)
    """Largest file."""

    max_uploads: int = Field(default=16, ge=1)
    """Uploads that are received at once, each with a spool file on disk. Organisations share them: where none is free,
    the one that holds most loses its youngest to another that holds fewer; that upload, or one too many of an
    organisation's own, is refused with 503."""

    upload_bytes_per_second: float = Field(default=4096.0, gt=0)
    """Slowest upload: one that is behind this rate by more than upload_grace_seconds is broken off. An upload holds one
    of few places, so it must be faster than `body_bytes_per_second`, which protects connections from bodies of any
    kind; the retriever has the same setting for uploads that don't come through a gateway."""

    upload_grace_seconds: float = Field(default=20.0, gt=0)
    """How long an upload may be slower than that."""

    max_calls: int = Field(default=6, ge=1)
    """Calls of the services at once, files aside; a further one waits. A stream, or a call of the generator, counts for
    a tenth of a second at most, since it then waits for a model or a client. Three per core behind this gateway keep
    the cores busy; more would only wait there."""

    max_shared_calls: int = Field(default=2, ge=1)
    """The same while several organisations are active: they share this number equally, and each may make at least one
    call. With one per core behind this gateway, no organisation's call waits for a core that another's calls occupy."""

    max_waiting_calls: int = Field(default=256, ge=1)
    """Calls of one organisation that may wait; more are refused with 503."""

    arrival_seconds: float = Field(default=0.5, gt=0)
    """How long a caller's requests may wait for their first turn. While 64 or more are waiting, and the oldest has
    waited longer or one more would, further ones are refused with 503 at once: those let in are answered in time."""

    spool_dir: str | None = None
    """Folder for spool files of uploads; None: the system's folder for temporary files."""

    chat_seconds: float = Field(default=300.0, gt=0)
    """Time budget of a chat. It shrinks hop by hop: services and providers never get more than what is left."""

    request_seconds: float = Field(default=30.0, gt=0)
    """Time budget of a request that is neither a chat nor a transfer."""

    transfer_seconds: float = Field(default=3600.0, gt=0)
    """Time budget of an upload, a download or a watched ingest: slow clients are served too."""

    embed_seconds: float = Field(default=2.0, gt=0)
    """Longest call that embeds a question."""

    plan_seconds: float = Field(default=2.0, gt=0)
    """Longest `Plan`."""

    search_seconds: float = Field(default=2.0, gt=0)
    """Longest `Search`."""

    tables_seconds: float = Field(default=5.0, gt=0)
    """Longest that a chat waits for an answer computed over tables (`AnswerFromTables`); without one it goes on."""

    rerank_seconds: float = Field(default=0.3, gt=0, le=20)
    """Longest `Rerank` of a chat. What it had no time for follows in the first order, and a step says so."""

    search_rerank_seconds: float = Field(default=3.0, gt=0, le=20)
    """The same of a search that doesn't say how long."""

    suggest_seconds: float = Field(default=10.0, gt=0)
    """Longest `SuggestQuestions`."""

    judge_seconds: float = Field(default=10.0, gt=0)
    """Longest `Decide`, `Assess`, `Rewrite` or `FillTableQuery`."""

    provider_test_seconds: float = Field(default=25.0, gt=0)
    """Longest that saving a tenant's own provider may take, its test call included."""

    hold_seconds: float = Field(default=5.0, ge=0)
    """Seconds for which a stream's status line may be held back: until then a failure is still an HTTP error."""

    heartbeat_seconds: float = Field(default=10.0, gt=0, le=15)
    """Longest pause on a stream before a comment is sent, so that proxies keep it open."""

    orphan_seconds: float = Field(default=30.0, gt=0)
    """Beyond a chat's budget, after which an exchange that a dead gateway left open is closed as failed."""

    run_lease_seconds: float = Field(default=10.0, ge=2)
    """After which a chat run whose events are stored counts as lost, if its gateway didn't renew it: readers on others
    then hear of it."""

    run_events_seconds: float = Field(default=300.0, gt=0)
    """How long the events of a chat run are kept after its end, for readers who come late. Those of a request with an
    Idempotency-Key are kept for `idempotency_hours`."""

    sweeper_seconds: float = Field(default=30.0, gt=0)
    """Pause between two rounds of sweeping orphans and writing the API keys' last use."""

    idempotency_hours: float = Field(default=24.0, gt=0)
    """How long an answer is kept for its Idempotency-Key."""

    def upload_pace(self) -> Pace:
        """Returns how slow an upload may be."""
        return Pace(self.upload_bytes_per_second, self.upload_grace_seconds)

    def profile_models(self) -> dict[str, ProfileModels]:
        """Returns the models of the profiles that have their own."""
        return {SIMPLE.name: ProfileModels(self.simple_model.strip(), self.simple_embedding_model.strip())}

    @field_validator("default_profile")
    @classmethod
    def _is_a_profile(cls, name: str) -> str:
        if name not in PROFILES:
            raise ValueError(f"there is no such profile; there are: {', '.join(PROFILES)}")
        return name


class RotateSettings(TlsSettings):
    """What `rotate` can be told."""

    model_config = settings_config(PREFIX)

    dsn: str
    """Connection string of the application role `citewire_chat`."""

    embedder_target: str = "127.0.0.1:50051"
    """gRPC target of the embedder, which has the newest master key already."""

    generator_target: str = "127.0.0.1:50053"
    """gRPC target of the generator, which has it too."""
