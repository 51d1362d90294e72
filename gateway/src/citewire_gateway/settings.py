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
    """Settings of `serve`."""

    model_config = settings_config(PREFIX)

    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the HTTP API; 0 takes a free one (tests)."""

    metrics_port: int = Field(default=9100, ge=0, le=65535)
    """Port of the metrics, separate from the public one."""

    dsn: str
    """Connection string of the application role `citewire_chat`, to which row-level security applies."""

    pool_max: int = Field(default=8, ge=1, le=100)
    """Maximum database connections. A chat holds one for milliseconds at its start and end, never while streaming."""

    embedder_target: str = "127.0.0.1:50051"
    """gRPC target of the embedder."""

    retriever_target: str = "127.0.0.1:50052"
    """gRPC target of the retriever."""

    generator_target: str = "127.0.0.1:50053"
    """gRPC target of the generator."""

    default_profile: str = "documents"
    """Default profile."""

    simple_model: str = Field(default="", max_length=200)
    """Chat model of the profile `simple`, by the generator's name, such as `ollama/llama3.2`; empty for the default
    one."""

    simple_embedding_model: str = Field(default="", max_length=200)
    """Embedding model of the profile `simple`, by the embedder's name; empty for the default one. The worker must
    embed documents with it too: `CITEWIRE_WORKER_MORE_MODELS`."""

    max_question_bytes: int = Field(default=32 * 1024, ge=1)
    """Maximum length of a question in bytes of UTF-8."""

    max_json_bytes: int = Field(default=MIB, ge=1024)
    """Maximum size of a JSON body in bytes."""

    max_upload_bytes: int = Field(default=256 * MIB, ge=1)
    """Maximum size of a file in bytes."""

    max_uploads: int = Field(default=16, ge=1)
    """Uploads received concurrently, each with a spool file on disk. Organisations share them: if none is free, the
    organisation with most loses its latest to another that has fewer; that upload, or one beyond an organisation's
    share, is rejected with 503."""

    upload_bytes_per_second: float = Field(default=4096.0, gt=0)
    """Minimum upload rate: an upload that falls behind by more than upload_grace_seconds is aborted. An upload holds
    one of few slots, so it must be faster than `body_bytes_per_second`, which applies to all bodies; the retriever has
    the same setting for uploads that don't come through a gateway."""

    upload_grace_seconds: float = Field(default=20.0, gt=0)
    """How long an upload may be behind that rate."""

    max_calls: int = Field(default=6, ge=1)
    """Concurrent calls to the services, except for files; further ones wait. A stream, or a call to the generator,
    counts for a tenth of a second at most, since it then waits for a model or a client. Three per core behind this
    gateway keep the cores busy; more would only wait there."""

    max_shared_calls: int = Field(default=2, ge=1)
    """The same while several organisations are active: they share this number equally, and each may make at least one
    call. With one per core behind this gateway, no organisation's call waits for a core that another's calls occupy."""

    max_waiting_calls: int = Field(default=256, ge=1)
    """Calls of one organisation that may wait; further ones are rejected with 503."""

    arrival_seconds: float = Field(default=0.5, gt=0)
    """How long a caller's requests may wait for their first turn. While 64 or more are waiting, and the oldest has
    waited longer or one more would, further ones are rejected with 503 at once: admitted ones are served in time."""

    spool_dir: str | None = None
    """Folder for spool files of uploads; None: the system's folder for temporary files."""

    chat_seconds: float = Field(default=300.0, gt=0)
    """Time budget of a chat. It shrinks hop by hop: services and providers never get more than what is left."""

    request_seconds: float = Field(default=30.0, gt=0)
    """Time budget of a request that is neither a chat nor a transfer."""

    transfer_seconds: float = Field(default=3600.0, gt=0)
    """Time budget of an upload, a download or a watched ingest: slow clients are served too."""

    embed_seconds: float = Field(default=2.0, gt=0)
    """Time limit for embedding a question."""

    plan_seconds: float = Field(default=2.0, gt=0)
    """Time limit of `Plan`."""

    search_seconds: float = Field(default=2.0, gt=0)
    """Time limit of `Search`."""

    tables_seconds: float = Field(default=5.0, gt=0)
    """Time limit for an answer computed from tables (`AnswerFromTables`) in a chat, which continues without it."""

    rerank_seconds: float = Field(default=0.3, gt=0, le=20)
    """Time limit of `Rerank` in a chat. Results that it had no time for keep the first order, and a step says so."""

    search_rerank_seconds: float = Field(default=3.0, gt=0, le=20)
    """Default time limit of `Rerank` in a search."""

    suggest_seconds: float = Field(default=10.0, gt=0)
    """Time limit of `SuggestQuestions`."""

    judge_seconds: float = Field(default=10.0, gt=0)
    """Time limit of `Decide`, `Assess`, `Rewrite` and `FillTableQuery`."""

    provider_test_seconds: float = Field(default=25.0, gt=0)
    """Time limit for saving a tenant's own provider, including its test call."""

    hold_seconds: float = Field(default=5.0, ge=0)
    """Seconds for which a stream's status line may be held back: until then a failure is still an HTTP error."""

    heartbeat_seconds: float = Field(default=10.0, gt=0, le=15)
    """Maximum pause in a stream before a comment is sent, so that proxies keep it open."""

    orphan_seconds: float = Field(default=30.0, gt=0)
    """Time after a chat's budget at which an exchange left open by a dead gateway is closed as failed."""

    run_lease_seconds: float = Field(default=10.0, ge=2)
    """Time after which a chat run with stored events counts as lost if its gateway hasn't renewed it; its readers are
    then told."""

    run_events_seconds: float = Field(default=300.0, gt=0)
    """How long the events of a chat run are kept after its end, for late readers. Those of a request with an
    Idempotency-Key are kept for `idempotency_hours`."""

    sweeper_seconds: float = Field(default=30.0, gt=0)
    """Pause between two rounds of the sweeper, which also writes the API keys' last use."""

    idempotency_hours: float = Field(default=24.0, gt=0)
    """How long a response is kept for its Idempotency-Key."""

    def upload_pace(self) -> Pace:
        """Returns the minimum speed of an upload."""
        return Pace(self.upload_bytes_per_second, self.upload_grace_seconds)

    def profile_models(self) -> dict[str, ProfileModels]:
        """Returns the models of profiles that have their own."""
        return {SIMPLE.name: ProfileModels(self.simple_model.strip(), self.simple_embedding_model.strip())}

    @field_validator("default_profile")
    @classmethod
    def _is_a_profile(cls, name: str) -> str:
        if name not in PROFILES:
            raise ValueError(f"there is no such profile; there are: {', '.join(PROFILES)}")
        return name


class RotateSettings(TlsSettings):
    """Settings of `rotate`."""

    model_config = settings_config(PREFIX)

    dsn: str
    """Connection string of the application role `citewire_chat`."""

    embedder_target: str = "127.0.0.1:50051"
    """gRPC target of the embedder, which must already have the newest master key."""

    generator_target: str = "127.0.0.1:50053"
    """gRPC target of the generator, which must have it too."""
