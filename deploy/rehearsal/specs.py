"""The settings of each pod. Ports and limits are the services' own defaults, as in deploy/k8s."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

Service = Literal["embedder", "retriever", "worker", "generator", "gateway"]

SERVICES: tuple[Service, ...] = ("embedder", "retriever", "worker", "generator", "gateway")
"""In the order in which they are started and rolled: called services come before their callers."""

PORTS: Mapping[Service, int] = {
    "embedder": 50051,
    "retriever": 50052,
    "worker": 9104,
    "generator": 50053,
    "gateway": 8080,
}
METRICS_PORTS: Mapping[Service, int] = {
    "embedder": 9101,
    "retriever": 9102,
    "worker": 9104,
    "generator": 9103,
    "gateway": 9100,
}
IMAGES: Mapping[Service, str] = {
    "embedder": "embedder",
    "retriever": "retriever",
    "worker": "retriever",
    "generator": "generator",
    "gateway": "gateway",
}
COMMANDS: Mapping[Service, tuple[str, ...]] = {"worker": ("worker",)}

MODEL = "paced"
OWNER = "citewire_owner"
ROLES = ("citewire_corpus", "citewire_worker", "citewire_chat", "citewire_ledger")
DATABASE = "citewire"
_POSTGRES, _UPSTREAM = "postgres", "upstream"


CALLERS = ("gateway", "worker")
"""The services that call others, each with its own key."""

CALLERS_FOLDER = "/callers"
"""The folder with a pod's key, or with the callers that it accepts."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A job that brings an owner's schema up to date."""

    name: str
    image: str
    entrypoint: str
    variable: str


MIGRATIONS = (
    Migration("corpus", "retriever", "citewire_retriever", "CITEWIRE_RETRIEVER_MIGRATE_DSN"),
    Migration("chat", "gateway", "citewire_gateway", "CITEWIRE_GATEWAY_MIGRATE_DSN"),
    Migration("ledger", "generator", "citewire_ledger", "CITEWIRE_LEDGER_MIGRATE_DSN"),
)
"""In the order of their dependencies."""


def dsn(role: str, password: str, host: str = _POSTGRES, database: str = DATABASE) -> str:
    """The connection string of a role, who has the rehearsal's password."""
    return f"postgresql://{role}:{quote(password, safe='')}@{host}:5432/{database}"


def environ(service: Service, password: str) -> dict[str, str]:
    """All variables of one service."""
    common = {"CITEWIRE_AUTH": "keys", "CITEWIRE_LOG_LEVEL": "INFO", "CITEWIRE_CONNECTION_SECONDS": "5"}
    if service in CALLERS:
        common["CITEWIRE_CALLER_KEY"] = f"{CALLERS_FOLDER}/{service}.pem"
    else:
        common |= {"CITEWIRE_CALLER_ISSUERS": f"{CALLERS_FOLDER}/issuers.json", "CITEWIRE_PLAINTEXT": "accepted"}
    own: Mapping[Service, dict[str, str]] = {
        "embedder": {
            "CITEWIRE_LEDGER_DSN": dsn("citewire_ledger", password),
            # Two replicas share two cores here.
            "CITEWIRE_EMBEDDER_THREADS": "1",
        },
        "retriever": {"CITEWIRE_RETRIEVER_DSN": dsn("citewire_corpus", password)},
        "worker": {
            "CITEWIRE_WORKER_DSN": dsn("citewire_worker", password),
            "CITEWIRE_WORKER_EMBEDDER_TARGET": f"embedder:{PORTS['embedder']}",
            "CITEWIRE_WORKER_GENERATOR_TARGET": f"generator:{PORTS['generator']}",
        },
        "generator": {
            "CITEWIRE_LEDGER_DSN": dsn("citewire_ledger", password),
            "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
            "CITEWIRE_GENERATOR_MODEL": MODEL,
            "CITEWIRE_GENERATOR_API_BASE": f"http://{_UPSTREAM}:8000/v1",
        },
        "gateway": {
            "CITEWIRE_GATEWAY_DSN": dsn("citewire_chat", password),
            "CITEWIRE_GATEWAY_EMBEDDER_TARGET": f"embedder:{PORTS['embedder']}",
            "CITEWIRE_GATEWAY_RETRIEVER_TARGET": f"retriever:{PORTS['retriever']}",
            "CITEWIRE_GATEWAY_GENERATOR_TARGET": f"generator:{PORTS['generator']}",
        },
    }
    return {**common, **own[service]}


def setup_sql(password: str) -> str:
    """A database administrator's one-time steps: owner, database, extension, and roles with a password.

    The migrations would create the roles, but without a password, and here every connection needs one.
    """
    quoted = password.replace("'", "''")
    roles = "\n".join(
        f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD '{quoted}';"
        for role in ROLES
    )
    return (
        f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '{quoted}';\n"
        f"{roles}\n"
        + "".join(f"GRANT {role} TO {OWNER} WITH ADMIN OPTION;\n" for role in ROLES)
        + f"CREATE DATABASE {DATABASE} OWNER {OWNER};\n"
    )
