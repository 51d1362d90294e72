"""The base of each process's settings.

Each process has one frozen settings class with its own environment prefix. It is built once, in `__main__`, with
`load_settings`; no other code reads the environment.
"""

import ipaddress
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeVar

from pydantic import AliasChoices, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from citewire_kit.callers.signer import Signer
from citewire_kit.errors import StartupError
from citewire_kit.tls_files import TlsFiles

S = TypeVar("S", bound="BaseSettings")

Auth = Literal["keys", "off"]
_TLS_FILES = 3


def settings_config(prefix: str) -> SettingsConfigDict:
    """Returns the model config of a settings class whose environment variables start with `prefix`."""
    return SettingsConfigDict(
        env_prefix=prefix,
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,  # an empty variable counts as unset, because compose files and shells produce them
        validate_by_name=True,  # tests build settings with keywords
        validate_by_alias=True,
        validate_default=True,
    )


Unsigned = Literal["refused", "accepted"]


class TlsSettings(BaseSettings):
    """A process's identity for other processes. Part of each server's settings, and of commands that call a server."""

    model_config = settings_config("CITEWIRE_")

    tls_cert: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_TLS_CERT"))
    """File with the process's certificate, as server and as client, in PEM. With it, CITEWIRE_TLS_KEY and
    CITEWIRE_TLS_CA, gRPC uses mutual TLS only. The files may be replaced at any time."""

    tls_key: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_TLS_KEY"))
    """File with its private key."""

    tls_ca: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_TLS_CA"))
    """File with the certificate of the authority that issues the certificates of servers and clients."""

    caller_key: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_CALLER_KEY"))
    """File with the private key (Ed25519, PEM) with which the process signs its calls. The file may be replaced at any
    time. Unset: only calls for the local tenant are possible."""

    unsigned_callers: Unsigned = Field(default="refused", validation_alias=AliasChoices("CITEWIRE_UNSIGNED_CALLERS"))
    """`accepted`: a service accepts unsigned callers, and a process also sends its caller unsigned. Use it only while
    upgrading from a version that didn't sign: meanwhile anyone who reaches a service can read everything."""

    @model_validator(mode="after")
    def _tls_is_complete(self) -> Self:
        self.tls()
        return self

    def tls(self) -> TlsFiles | None:
        """Returns the files of the process's certificate; None: gRPC without TLS."""
        files = [path for path in (self.tls_cert, self.tls_key, self.tls_ca) if path is not None]
        if not files:
            return None
        if len(files) < _TLS_FILES:
            raise ValueError("CITEWIRE_TLS_CERT, CITEWIRE_TLS_KEY and CITEWIRE_TLS_CA must be set together")
        return TlsFiles(*files)

    def signer(self) -> Signer:
        """Returns the signer of this process's calls; its issuer is `citewire-` and the process's name.

        Raises:
            StartupError: The key can't be read.
        """
        prefix: Any = self.model_config.get("env_prefix", "")
        issuer = str(prefix).strip("_").lower().replace("_", "-")
        return Signer(issuer, self.caller_key, plain=self.unsigned_callers == "accepted")


class ProcessSettings(TlsSettings):
    """Settings of every server process. Subclasses set `model_config = settings_config("CITEWIRE_X_")`."""

    model_config = settings_config("CITEWIRE_")

    host: str = "127.0.0.1"
    """Address to listen on. Loopback by default, so that opening a port to a network is a deliberate choice."""

    port: int = Field(ge=0, le=65535)
    """Port to listen on; 0 takes a free one (tests)."""

    metrics_host: str = "127.0.0.1"
    """Address of the metrics server, never the public one."""

    metrics_port: int = Field(ge=0, le=65535)
    """Port of the metrics server; 0 takes a free one (tests)."""

    auth: Auth = Field(default="keys", validation_alias=AliasChoices("CITEWIRE_AUTH"))
    """`keys`: every call must identify its caller. `off`: everybody is the local tenant, on loopback only."""

    audit: Literal["on", "required", "off"] = Field(default="on", validation_alias=AliasChoices("CITEWIRE_AUDIT"))
    """`on`: actions are recorded; if they can't be written for a long time they are dropped, and counted. `required`:
    requests are rejected then. `off`: nothing is recorded."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", validation_alias=AliasChoices("CITEWIRE_LOG_LEVEL")
    )
    """Lowest level that is logged."""

    log_format: Literal["json", "console"] = Field(default="json", validation_alias=AliasChoices("CITEWIRE_LOG_FORMAT"))
    """`json` for machines, one object per line; `console` for people."""

    probe_port: int = Field(default=0, ge=0, le=65535)
    """Port that answers only health checks, without TLS: for probes that can't use TLS, and for processes without
    a gRPC server. 0: none."""

    otlp_endpoint: str | None = Field(
        default=None, validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_ENDPOINT"), pattern=r"^https?://.+"
    )
    """OTLP gRPC endpoint for traces, for example http://localhost:4317. None: nothing is exported."""

    trace_content: Literal["off", "on"] = Field(default="off", validation_alias=AliasChoices("CITEWIRE_TRACE_CONTENT"))
    """`on`: traces include prompts (questions, passages) and answers, for everyone who can read the traces."""

    reflection: Literal["on", "off"] = Field(default="on", validation_alias=AliasChoices("CITEWIRE_REFLECTION"))
    """`on`: gRPC servers describe their contracts by reflection, even to callers without a tenant."""

    plaintext: Unsigned = Field(default="refused", validation_alias=AliasChoices("CITEWIRE_PLAINTEXT"))
    """`accepted`: a gRPC service may listen beyond loopback without TLS, for networks that are trusted themselves."""

    drain_seconds: float = Field(default=330.0, ge=0)
    """Seconds for running calls after SIGTERM: longer than the longest stream (300 s), so that none is cut off."""

    connection_seconds: float = Field(default=30.0, gt=0, validation_alias=AliasChoices("CITEWIRE_CONNECTION_SECONDS"))
    """Age in seconds at which a gRPC connection is renewed; running calls continue. Clients query DNS again only then,
    so a new replica gets its first call after at most this time, and a rollout must wait as long between replicas."""

    leave_seconds: float = Field(default=2.0, ge=0)
    """Seconds between NOT_SERVING and the end of accepting calls, so that clients and load balancers leave first.

    Without it, a call that arrives during the shutdown may be cancelled, or wait until its deadline."""

    @model_validator(mode="after")
    def _no_auth_stays_on_loopback(self) -> Self:
        if self.auth == "off":
            for field in ("host", "metrics_host"):
                if not is_loopback(str(getattr(self, field))):
                    raise ValueError(
                        f"{self.env_name(field)} must be a loopback address while CITEWIRE_AUTH is off: "
                        "anyone on the network could read and change everything"
                    )
        return self

    def address(self, port: int) -> str:
        """Returns `host:port`."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    @classmethod
    def env_name(cls, field: str) -> str:
        """Returns the environment variable that sets `field`."""
        return _env_name(cls, field)


class CallerSettings(ProcessSettings):
    """Settings of processes that call services on behalf of any organisation."""

    model_config = settings_config("CITEWIRE_")

    def signer(self) -> Signer:
        """See `TlsSettings`.

        Raises:
            StartupError: The key can't be read, or is missing while auth is on.
        """
        if self.auth == "keys" and self.caller_key is None and self.unsigned_callers == "refused":
            raise StartupError(
                "CITEWIRE_CALLER_KEY is required while CITEWIRE_AUTH is keys: services accept only signed calls "
                "(docs/how-to/callers.md)"
            )
        return super().signer()


class ServiceSettings(ProcessSettings):
    """Settings of every gRPC service: which callers it accepts."""

    model_config = settings_config("CITEWIRE_")

    caller_issuers: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_CALLER_ISSUERS"))
    """File with the trusted issuers of signed calls, their keys, organisations and methods (docs/how-to/callers.md). It
    and the key files that it names may be replaced at any time. Required while CITEWIRE_AUTH is `keys`; with it,
    unsigned calls are rejected."""

    @model_validator(mode="after")
    def _callers_are_known_beyond_loopback(self) -> Self:
        if is_loopback(self.host):
            return self
        if self.caller_issuers is None:
            raise ValueError(
                f"{self.env_name('host')} must be a loopback address without CITEWIRE_CALLER_ISSUERS: "
                "otherwise the service can't identify its callers (docs/how-to/callers.md)"
            )
        if self.tls() is None and self.plaintext == "refused":
            raise ValueError(
                f"{self.env_name('host')} must be a loopback address without CITEWIRE_TLS_CERT: anyone reading the "
                "network could impersonate its callers. If the network is trusted, set CITEWIRE_PLAINTEXT=accepted"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether `host` is `localhost` or a loopback IP address; other names aren't resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(cls: type[S]) -> S:
    """Builds the settings from the environment.

    If they are invalid, each problem is printed with the name of its environment variable and the process exits with
    code 2.
    """
    try:
        return cls()
    except ValidationError as exc:
        _refuse(cls, exc)


def _refuse(cls: type[BaseSettings], exc: ValidationError) -> NoReturn:
    lines = [_describe(cls, error["loc"], error["type"], error["msg"], error["input"]) for error in exc.errors()]
    sys.stderr.write("Invalid settings:\n" + "".join(f"  {line}\n" for line in lines))
    raise SystemExit(2) from None


def _describe(cls: type[BaseSettings], loc: Sequence[int | str], kind: str, message: str, value: object) -> str:
    message = message.removeprefix("Value error, ")
    if not loc:
        return message
    field, name = _field_of(cls, str(loc[0]))
    if kind == "missing":
        return f"{name}: is required and not set"
    secret = field is not None and "Secret" in str(field.annotation)
    shown = "" if secret or isinstance(value, SecretStr) else f" (it is {str(value)[:100]!r})"
    return f"{name}: {message}{shown}"


def _field_of(cls: type[BaseSettings], loc: str) -> tuple[FieldInfo | None, str]:
    """Finds a field by its name or alias: pydantic reports whichever was used."""
    for name, field in cls.model_fields.items():
        if loc == name or loc in _aliases(field):
            return field, _env_name(cls, name)
    return None, loc


def _env_name(cls: type[BaseSettings], field: str) -> str:
    aliases = _aliases(cls.model_fields[field])
    prefix: Any = cls.model_config.get("env_prefix", "")
    return aliases[0] if aliases else f"{prefix}{field}".upper()


def _aliases(field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [alias] if isinstance(alias, str) else []
