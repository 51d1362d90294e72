"""The processes of the stack: command, environment, readiness and order."""

import asyncio
import importlib.util
import os
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from citewire_cli.errors import CliError
from citewire_cli.stack.child import ChildSpec
from citewire_cli.stack.ports import HOST, PORTS
from citewire_cli.stack.postgres import Postgres
from citewire_cli.stack.provider import keep_secrets, provider_environ

PACKAGES = ("citewire_embedder", "citewire_retriever", "citewire_generator", "citewire_gateway")
SCHEMA_OWNERS = ("citewire_ledger", "citewire_retriever", "citewire_gateway")
OWNER = "citewire_owner"
STOP_ORDER = (("gateway",), ("worker", "retriever", "generator", "embedder"), ("postgres",))
"""The gateway first, so that running answers still have everything they need; Postgres last."""

SEALING = ("embedder", "generator")
"""The processes that seal and open the keys of providers that users bring."""

SERVICES = ("embedder", "retriever", "generator")
CALLERS = ("gateway", "worker")
"""The processes that call services, each with a key of its own."""

MASTER_KEYS = ("CITEWIRE_MASTER_KEYS", "CITEWIRE_MASTER_KEYS_FILE")
HTTP_OK = 200

Ready = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class StackSpec:
    """The processes of a stack on these ports and this database."""

    postgres: Postgres
    ports: Mapping[str, int]
    environ: Mapping[str, str]
    http: httpx.AsyncClient
    master_keys: Path
    callers: Path

    @property
    def url(self) -> str:
        """The gateway's address."""
        return f"http://{HOST}:{self.ports['CITEWIRE_GATEWAY_PORT']}"

    def postgres_child(self) -> ChildSpec:
        """The database. SIGINT is its fast shutdown (SIGTERM would wait for clients), SIGQUIT the immediate one."""
        return ChildSpec(
            "postgres",
            tuple(self.postgres.server_command()),
            self._postgres_environ(),
            self._postgres_ready,
            stop_signals=(signal.SIGINT, signal.SIGQUIT),
            orphan_signal=signal.SIGINT,
            account=self.postgres.account,
            search_anywhere=self.postgres.search_anywhere,
            prepare=self.postgres.clear_stale,
        )

    def initdb(self) -> ChildSpec:
        """Creates the cluster."""
        return ChildSpec(
            "initdb",
            tuple(self.postgres.initdb_command()),
            self._postgres_environ(),
            _never,
            account=self.postgres.account,
            search_anywhere=self.postgres.search_anywhere,
            prepare=self.postgres.prepare_unfinished,
        )

    def setup(self) -> ChildSpec:
        """Creates the database, its owner and its extension."""
        return ChildSpec("database", tuple(self.postgres.setup_command()), self._postgres_environ(), _never)

    def caller_keys(self) -> ChildSpec:
        """Creates missing callers' keys: our processes', and one for the user's own service."""
        names = (*CALLERS, "service=local")
        return self._python("keys", "citewire_kit.callers", "make", os.fspath(self.callers), *names, ready=_never)

    def has_caller_keys(self) -> bool:
        """Whether they are there already."""
        return all((self.callers / name).exists() for name in ("issuers.json", *(f"{name}.pem" for name in CALLERS)))

    def migrations(self) -> ChildSpec:
        """Brings all schemas up to date."""
        return self._python("migrate", "citewire_kit.migrate_all", *SCHEMA_OWNERS, ready=_never)

    def service(self, name: str) -> ChildSpec:
        """One of our processes."""
        if name == "worker":
            return self._python(name, "citewire_retriever", "worker", ready=self._metrics_ready(name))
        if name == "gateway":
            return self._python(name, "citewire_gateway", "serve", ready=self._answers(f"{self.url}/livez"))
        # The generator and the embedder only serve; the retriever and the gateway have sub-commands.
        arguments = ("serve",) if name == "retriever" else ()
        return self._python(name, f"citewire_{name}", *arguments, ready=self._metrics_ready(name))

    def child_environ(self) -> dict[str, str]:
        """The environment of our processes: the user's, with addresses and connection strings of this stack."""
        return {
            "CITEWIRE_AUTH": "off",
            "CITEWIRE_LOG_LEVEL": "INFO",
            "GRPC_VERBOSITY": "ERROR",  # its library's notes about itself aren't for people
            # One person's own files, on loopback: any kernel will do, and the worker's log says what it lacks.
            "CITEWIRE_WORKER_CONFINEMENT": "available",
            # Nobody balances load here, so leaving takes no longer than our own channels need to notice.
            **{f"CITEWIRE_{name}_LEAVE_SECONDS": "0.3" for name in ("GATEWAY", "EMBEDDER", "RETRIEVER", "GENERATOR")},
            **self.environ,
            **provider_environ(self.environ),
            **self.addresses(),
            "CITEWIRE_LOG_FORMAT": "json",
            "PYTHONUNBUFFERED": "1",
        }

    def addresses(self) -> dict[str, str]:
        """The variables by which our processes find each other and the database; no secret is among them."""
        environ = {
            **{spec.variable: str(self.ports[spec.variable]) for spec in PORTS},
            "CITEWIRE_RETRIEVER_DSN": self.postgres.dsn("citewire_corpus"),
            "CITEWIRE_RETRIEVER_MIGRATE_DSN": self.postgres.dsn(OWNER),
            "CITEWIRE_WORKER_DSN": self.postgres.dsn("citewire_worker"),
            "CITEWIRE_GATEWAY_DSN": self.postgres.dsn("citewire_chat"),
            "CITEWIRE_GATEWAY_MIGRATE_DSN": self.postgres.dsn(OWNER),
            "CITEWIRE_LEDGER_DSN": self.postgres.dsn("citewire_ledger"),
            "CITEWIRE_LEDGER_MIGRATE_DSN": self.postgres.dsn(OWNER),
        }
        for name in ("embedder", "retriever", "generator"):
            target = f"{HOST}:{self.ports[f'CITEWIRE_{name.upper()}_PORT']}"
            environ[f"CITEWIRE_GATEWAY_{name.upper()}_TARGET"] = target
        for name in ("EMBEDDER", "GENERATOR"):
            environ[f"CITEWIRE_WORKER_{name}_TARGET"] = environ[f"CITEWIRE_GATEWAY_{name}_TARGET"]
        return environ

    def command_environ(self) -> dict[str, str]:
        """The variables for commands beside this stack, such as the gateway's `rotate`, which call like the gateway."""
        return {**self.addresses(), "CITEWIRE_CALLER_KEY": str(self.callers / "gateway.pem")}

    async def stack_ready(self) -> tuple[bool, str]:
        """Whether the gateway says that everything works, and its words if it doesn't."""
        try:
            response = await self.http.get(f"{self.url}/readyz")
        except httpx.HTTPError as error:
            return False, type(error).__name__
        return response.status_code == HTTP_OK, response.text

    def _python(self, name: str, package: str, *arguments: str, ready: Ready) -> ChildSpec:
        attributes = {
            "port" if spec.purpose != "metrics" else "metrics_port": self.ports[spec.variable]
            for spec in PORTS
            if spec.process == name
        }
        command = (sys.executable, "-m", package, *arguments)
        return ChildSpec(name, command, self._with_keys(name), ready, attributes=attributes)

    def _with_keys(self, name: str) -> dict[str, str]:
        """The environment of one process: only those that call providers learn their keys and the master keys."""
        environ = keep_secrets(name, self.child_environ())
        if name in SERVICES:
            environ["CITEWIRE_CALLER_ISSUERS"] = str(self.callers / "issuers.json")
        if name in CALLERS:
            environ["CITEWIRE_CALLER_KEY"] = str(self.callers / f"{name}.pem")
        if name not in SEALING:
            return {key: value for key, value in environ.items() if key not in MASTER_KEYS}
        if not any(environ.get(key) for key in MASTER_KEYS):
            environ["CITEWIRE_MASTER_KEYS_FILE"] = str(self.master_keys)
        if environ["CITEWIRE_AUTH"] == "off":  # one person has all of it: nobody could take another's key
            environ.setdefault("CITEWIRE_SEALED_APART", "true")
        return environ

    def _postgres_environ(self) -> dict[str, str]:
        """Nothing of the user's own Postgres settings (PGHOST, PGOPTIONS…) may reach ours, and no key."""
        environ = keep_secrets("postgres", self.environ)
        return {name: value for name, value in environ.items() if not name.startswith(("PG", "LC_", "CITEWIRE_"))}

    async def _postgres_ready(self) -> bool:
        command = self.postgres.ready_command()
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env=self._postgres_environ()
        )
        return await process.wait() == 0

    def _metrics_ready(self, name: str) -> Ready:
        return self._answers(f"http://{HOST}:{self.ports[f'CITEWIRE_{name.upper()}_METRICS_PORT']}/metrics")

    def _answers(self, url: str) -> Ready:
        async def ready() -> bool:
            try:
                return (await self.http.get(url)).status_code == HTTP_OK
            except httpx.HTTPError:
                return False

        return ready


def check_installed() -> None:
    """Raises CliError if the services aren't installed beside the command."""
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise CliError(
            "The services aren't installed here",
            f"`citewire up` starts them; missing: {', '.join(missing)}. "
            "In a clone of the repository, `make up` installs everything.",
        )


async def _never() -> bool:
    return False
