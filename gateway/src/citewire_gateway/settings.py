"""Settings of the gateway's processes, read from the environment in `__main__` and nowhere else."""

import ipaddress
import re
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings

from citewire_gateway.people.issuers import Issuer, is_safe_url, read_issuers
from citewire_gateway.people.sealer import MIN_SECRET_CHARS
from citewire_gateway.profiles.builtin import PROFILES, SIMPLE
from citewire_gateway.profiles.model import ProfileModels
from citewire_gateway.tenants.providers import ProviderType
from citewire_kit.limit_store import LimitStoreSettings
from citewire_kit.pace import Pace
from citewire_kit.settings import ProcessSettings, TlsSettings, settings_config

PREFIX = "CITEWIRE_GATEWAY_"
MIB = 1024 * 1024
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::\d{1,5})?")


class GatewaySettings(ProcessSettings, LimitStoreSettings):
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
    """Uploads that are received at once, each with a spool file on disk. Organisations share them: one that holds more
    than another loses its youngest to it, with 503, as does one too many of its own."""

    upload_bytes_per_second: float = Field(default=4096.0, gt=0)
    """Slowest upload: one that is behind this rate by more than upload_grace_seconds is broken off."""

    upload_grace_seconds: float = Field(default=20.0, gt=0)
    """How long an upload may be slower than that."""

    max_calls: int = Field(default=6, ge=1)
    """Calls of the services at once, files aside; one more waits. One of the generator, or a stream, counts for a tenth
    of a second at most: then it waits for a model or a client. Three for each core behind this gateway keep those busy;
    more only wait there."""

    max_shared_calls: int = Field(default=2, ge=1)
    """The same, while several organisations are there: each makes its part of so many at once, and at least one. One
    for each core behind this gateway: then a call of one doesn't wait for a core that another's many calls keep
    busy."""

    max_waiting_calls: int = Field(default=256, ge=1)
    """Calls of one organisation that may wait; more are refused with 503."""

    arrival_seconds: float = Field(default=0.5, gt=0)
    """How long the oldest of a caller's requests may have waited for its first turn: while it is longer, and 32 or more
    wait, further ones are refused with 503 at once, so that those that are let in are answered in time."""

    spool_dir: str | None = None
    """Folder for spool files of uploads; None: the system's folder for temporary files."""

    chat_seconds: float = Field(default=300.0, gt=0)
    """Time budget of a chat. It shrinks hop by hop: services and providers never get more than what is left."""

    request_seconds: float = Field(default=30.0, gt=0)
    """Time budget of any other request that isn't a stream or an upload."""

    transfer_seconds: float = Field(default=3600.0, gt=0)
    """Time budget of an upload, a download or a watched ingest: slow clients are served too."""

    embed_seconds: float = Field(default=2.0, gt=0)
    """Longest call that embeds a question."""

    plan_seconds: float = Field(default=2.0, gt=0)
    """Longest `Plan`."""

    search_seconds: float = Field(default=2.0, gt=0)
    """Longest `Search`."""

    rerank_seconds: float = Field(default=0.3, gt=0, le=20)
    """Longest `Rerank` of a chat. What it had no time for follows in the first order, and a step says so."""

    search_rerank_seconds: float = Field(default=3.0, gt=0, le=20)
    """The same of a search that doesn't say how long."""

    suggest_seconds: float = Field(default=10.0, gt=0)
    """Longest `SuggestQuestions`."""

    judge_seconds: float = Field(default=10.0, gt=0)
    """Longest `Decide`, `Assess` or `Rewrite`."""

    provider_test_seconds: float = Field(default=25.0, gt=0)
    """Longest that saving a tenant's own provider may take, its test call included."""

    offered_providers: str = Field(default="chat,embedding,rerank")
    """Types of the operator's providers that tenants may use, divided by commas; `none` lets each bring its own."""

    hold_seconds: float = Field(default=5.0, ge=0)
    """Seconds for which a stream's status line may be held back: until then a failure is still an HTTP error."""

    heartbeat_seconds: float = Field(default=10.0, gt=0, le=15)
    """Longest pause on a stream before a comment is sent, so that proxies keep it open."""

    orphan_seconds: float = Field(default=30.0, gt=0)
    """Beyond a chat's budget, after which an exchange that a dead gateway left open is closed as failed."""

    sweeper_seconds: float = Field(default=30.0, gt=0)
    """Pause between two rounds of sweeping orphans and writing the API keys' last use."""

    audit_days: int = Field(default=400, ge=30, le=36_500)
    """Days for which the audit trail of an organisation without a policy of its own is kept."""

    idempotency_hours: float = Field(default=24.0, gt=0)
    """How long an answer is kept for its Idempotency-Key."""

    max_header_bytes: int = Field(default=32 * 1024, ge=1024)
    """Largest head of a request, in bytes: its address and all headers. Larger ones are a 431."""

    max_headers: int = Field(default=100, ge=16)
    """Most headers of a request; more are a 431."""

    max_url_bytes: int = Field(default=16 * 1024, ge=256)
    """Longest address of a request, its query included; a longer one is a 414."""

    header_seconds: float = Field(default=10.0, gt=0)
    """Longest time for a request's head to arrive, from the connection or the head's first byte."""

    body_idle_seconds: float = Field(default=20.0, gt=0)
    """Longest pause in a request's body, while the gateway reads it."""

    body_seconds: float = Field(default=30.0, gt=0)
    """Time that each body has to arrive, beyond what `body_bytes_per_second` gives it; a slower one is a 408."""

    body_bytes_per_second: int = Field(default=1024, ge=1)
    """Slowest rate of a body that takes longer than `body_seconds`."""

    max_connections: int = Field(default=2000, ge=16)
    """Most connections. Above it, one without a request makes room; without any, only probes are answered."""

    max_connections_per_address: int = Field(default=500, ge=1)
    """Most connections from one address (IPv6: one /64), or requests at once of one client of a trusted proxy."""

    trusted_proxies: str = ""
    """Addresses and networks of proxies, divided by commas. Their connections aren't limited by address, and their
    `X-Forwarded-For` names the client."""

    cors_origins: str = ""
    """Origins whose pages may call the API from a browser, divided by commas: `https://app.example.org`. `*` is every
    origin; empty is none but the server's own."""

    cors_credentials: bool = False
    """Whether those pages may send cookies, for a proxy that authenticates by them. API keys need no cookies."""

    cors_seconds: int = Field(default=600, ge=0, le=86_400)
    """How long a browser may keep the answer to a preflight request."""

    oidc_issuers: SecretStr = SecretStr("")
    """Identity providers, as a JSON list: where people sign in, and whose bearer tokens are taken."""

    public_url: str = ""
    """Where browsers find this server, such as https://citewire.example.org; needed where people sign in."""

    session_secrets: SecretStr = SecretStr("")
    """Secrets of at least 32 characters each, with white space between: the first seals what sessions hold, all of them
    open it. The same on every gateway; needed where people sign in."""

    session_hours: float = Field(default=12.0, gt=0, le=24 * 30)
    """After how long a person must sign in again, however active."""

    @field_validator("oidc_issuers")
    @classmethod
    def _are_issuers(cls, value: SecretStr) -> SecretStr:
        read_issuers(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _sign_in_is_complete(self) -> Self:
        if not self.signs_in():
            return self
        if self.auth == "off":
            raise ValueError(f"{self.env_name('oidc_issuers')}: nobody signs in while CITEWIRE_AUTH is off")
        if not is_safe_url(self.public_url) or not _ORIGIN.fullmatch(self.public_url):
            raise ValueError(
                f"{self.env_name('public_url')}: must be an https origin (http on loopback only), in lower case and "
                "without a path, such as https://citewire.example.org"
            )
        if not self.sealing_secrets() or any(len(secret) < MIN_SECRET_CHARS for secret in self.sealing_secrets()):
            raise ValueError(
                f"{self.env_name('session_secrets')}: each must have {MIN_SECRET_CHARS} characters or more"
            )
        return self

    def signs_in(self) -> bool:
        """Says whether people sign in with a browser."""
        return any(issuer.client_id for issuer in self.issuers())

    def issuers(self) -> tuple[Issuer, ...]:
        """Returns the identity providers."""
        return read_issuers(self.oidc_issuers.get_secret_value())

    def sealing_secrets(self) -> tuple[str, ...]:
        """Returns the secrets of sessions, the newest first."""
        return tuple(self.session_secrets.get_secret_value().split())

    @model_validator(mode="after")
    def _origins_are_origins(self) -> Self:
        origins = self.allowed_origins()
        if "*" in origins and (len(origins) > 1 or self.cors_credentials):
            raise ValueError(
                f"{self.env_name('cors_origins')}: `*` stands alone, and without {self.env_name('cors_credentials')}: "
                "any page could act with a visitor's cookies"
            )
        wrong = [origin for origin in origins if origin != "*" and not _ORIGIN.fullmatch(origin)]
        if wrong:
            raise ValueError(
                f"{self.env_name('cors_origins')}: {wrong[0]!r} is no origin: it must be a scheme, a host and a port "
                "where that isn't the scheme's own, in lower case and without a path, such as https://app.example.org"
            )
        return self

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        _networks_in(value)
        return value

    def trusted_networks(self) -> tuple[Network, ...]:
        """Returns the networks of the trusted proxies."""
        return _networks_in(self.trusted_proxies)

    def allowed_origins(self) -> tuple[str, ...]:
        """Returns the origins whose pages may call the API."""
        return tuple(origin.strip() for origin in self.cors_origins.split(",") if origin.strip())

    @field_validator("offered_providers")
    @classmethod
    def _are_types(cls, value: str) -> str:
        _types_in(value)
        return value

    def upload_pace(self) -> Pace:
        """Returns how slow an upload may be."""
        return Pace(self.upload_bytes_per_second, self.upload_grace_seconds)

    def profile_models(self) -> dict[str, ProfileModels]:
        """Returns the models of the profiles that have their own."""
        return {SIMPLE.name: ProfileModels(self.simple_model.strip(), self.simple_embedding_model.strip())}

    def offered_types(self) -> frozenset[ProviderType]:
        """Returns the types of the operator's providers that tenants may use."""
        return _types_in(self.offered_providers)

    @field_validator("default_profile")
    @classmethod
    def _is_a_profile(cls, name: str) -> str:
        if name not in PROFILES:
            raise ValueError(f"there is no such profile; there are: {', '.join(PROFILES)}")
        return name


def _networks_in(value: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part.strip()) for part in value.split(",") if part.strip())


def _types_in(value: str) -> frozenset[ProviderType]:
    names = [] if value.strip() == "none" else [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name not in set(ProviderType)]
    if unknown:
        raise ValueError(f"there is no such type of provider; there are: {', '.join(ProviderType)}")
    return frozenset(ProviderType(name) for name in names)


class RotateSettings(TlsSettings):
    """What `rotate` can be told."""

    model_config = settings_config(PREFIX)

    dsn: str
    """Connection string of the application role `citewire_chat`."""

    embedder_target: str = "127.0.0.1:50051"
    """gRPC target of the embedder, which has the newest master key already."""

    generator_target: str = "127.0.0.1:50053"
    """gRPC target of the generator, which has it too."""


class DatabaseSettings(BaseSettings):
    """What `keys` can be told; one of the two is needed."""

    model_config = settings_config(PREFIX)

    dsn: str | None = None
    """Connection string of the application role `citewire_chat`: keys of one organisation at a time."""

    migrate_dsn: str | None = None
    """Connection string of the role that owns the schema `chat`: keys of all organisations."""

    @classmethod
    def env_name(cls, field: str) -> str:
        """Returns the environment variable that sets `field`."""
        return f"{PREFIX}{field}".upper()
