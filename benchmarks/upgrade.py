"""Upgrades a running installation from an earlier commit, process by process, under load.

Two of each service, two gateways and a worker run from the earlier commit's own files, with keys, on a database
created by its migrations and filled by its processes. Then, under load: this commit's migrations; each process is
replaced by one of this commit, in any order, while unsigned calls are accepted; the later migrations; and each process
once more, without that setting. No request may fail, and two users' data from before the upgrade must be there after
each step, on both gateways, with the same keys.

`python -m benchmarks.upgrade --base COMMIT` takes about five minutes. It doesn't install the earlier commit: its files
run with today's packages, as dependencies were only added since f61e045, the commit before callers were signed.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx

from api_keys import bearer
from benchmarks.tables import describe_machine, format_table
from callers import keyed_environment
from deploy.rehearsal.balancer import Balancer
from deploy.rehearsal.load import Kind, Load
from embedded_postgres import start_embedded_postgres
from local_ports import free_port
from paced_model_stack import paced_model_server

ROOT = Path(__file__).resolve().parent.parent
SERVICES = ("embedder", "retriever", "generator")
OWNERS = ("gateway", "retriever", "ledger")
RATES: Mapping[Kind, float] = {"native": 0.7, "simple": 0.7, "search": 2.0, "upload": 0.5}
USERS = ("ada", "bob")
MAKE_KEY = ("keys", "create", "--org", "acme", "--plan", "pro", "--json")
PER_USER = 6
SETTLE_SECONDS = 4.0
"""Wait after a process is ready: clients may take this long to find it."""

Json = dict[str, Any]


def python_of(commit: str, folder: Path) -> str:
    """Unpacks a commit's files; returns a Python that imports its packages, and all others from this environment.

    They are in the environment itself instead of `PYTHONPATH`, which the confined readers of files ignore.
    """
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    sources = [folder / "protos", *(path for path in folder.glob("**/src") if "web" not in path.parts)]
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    places = [*sources, sysconfig.get_path("purelib")]
    (packages / "earlier.pth").write_text("".join(f"{place}\n" for place in places))
    return str(environment / "bin" / "python")


@dataclass(slots=True)
class Part:
    """A process with its own ports, in either version."""

    service: str
    port: int
    metrics_port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of its HTTP API, if it has one."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, environment: Mapping[str, str], python: str = sys.executable) -> None:
        """Starts the process; `ready` waits for it."""
        prefix = f"CITEWIRE_{self.service.upper()}"
        own = {f"{prefix}_PORT": str(self.port), f"{prefix}_METRICS_PORT": str(self.metrics_port)}
        command = ["citewire_retriever", "worker"] if self.service == "worker" else [f"citewire_{self.service}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [python, "-m", *command], env={**environment, **own}, stdout=log, stderr=log
            )

    async def ready(self) -> None:
        """Waits until it responds and its callers have had time to find it."""
        place = f"{self.url}/readyz" if self.service == "gateway" else f"http://127.0.0.1:{self.metrics_port}/metrics"
        async with httpx.AsyncClient(trust_env=False) as http, asyncio.timeout(120):
            while not await _answers(http, place):  # noqa: ASYNC110 # there is no event to wait for
                await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE_SECONDS)

    async def end(self) -> None:
        """Stops it and waits until it has ended properly."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            code = await asyncio.to_thread(self.process.wait, 60)
            if code:
                raise RuntimeError(f"{self.service} ended with {code}: {self.log.read_text()[-2000:]}")


@dataclass(frozen=True, slots=True)
class Versions:
    """The environments of both versions' processes."""

    common: Mapping[str, str]
    earlier: str
    """The Python of the earlier commit."""

    def after(self, service: str, unsigned: str) -> dict[str, str]:
        """The environment of a process of this commit."""
        keys = keyed_environment("worker" if service == "worker" else "gateway")
        return {**self.common, **keys, "CITEWIRE_UNSIGNED_CALLERS": unsigned}

    def run(self, package: str, *arguments: str, old: bool = False) -> str:
        """Runs a command of one version; returns its output."""
        command = [self.earlier if old else sys.executable, "-m", package, *arguments]
        done = subprocess.run(command, env=dict(self.common), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[2:])}: {done.stderr[-2000:]}")
        return done.stdout


async def upgrade(versions: Versions, parts: Sequence[Part], seed: int) -> tuple[list[list[object]], list[str]]:
    """Upgrades the running processes. Returns a row for each step, and the changes found in two users' data."""
    gateways = [part for part in parts if part.service == "gateway"]
    keys = {
        user: json.loads(versions.run("citewire_gateway", *MAKE_KEY, "--user", user, old=True))["key"] for user in USERS
    }
    rows: list[list[object]] = []
    lost: list[str] = []
    order = list(parts)
    random.Random(seed).shuffle(order)
    balancer = Balancer([gateway.url for gateway in gateways])
    async with balancer.watching():
        await balancer.until_ready(*(gateway.url for gateway in gateways))
        await fill(gateways[0].url, keys)
        known = {user: await read(gateways[0].url, key) for user, key in keys.items()}
        load = Load(balancer.url, f"upgrade-{time.monotonic_ns()}", bearer(keys["ada"]))

        async def step(name: str, work: Callable[[], Awaitable[None]]) -> None:
            began, seen = time.monotonic(), len(load.asked)
            await work()
            for gateway in gateways:
                for user, key in keys.items():
                    now = await read(gateway.url, key, known[user]["conversations"])
                    lost.extend(f"{name}: {user}: {what}" for what in missing(known[user], now))
            await load.until(lambda: len(load.asked) > seen, "nothing is asked any more")
            during = load.asked[seen:]
            failed = [asked for asked in during if asked.end not in (None, "complete")]
            rows.append([name, time.monotonic() - began, len(during), len(failed)])
            print(f"{name}: {len(during)} requests, {len(failed)} failed {failed[:3]}", flush=True)

        async def migrate(phase: str) -> None:
            for owner in OWNERS:
                await asyncio.to_thread(versions.run, f"citewire_{owner}", "migrate", "--phase", phase)

        async def replace(part: Part, unsigned: str) -> None:
            await part.end()
            part.start(versions.after(part.service, unsigned))
            await part.ready()
            if part.service == "gateway":
                await balancer.until_ready(part.url)

        async with load.steady(RATES):
            await step("before", partial(asyncio.sleep, 10))
            await step("migrations", partial(migrate, "pre"))
            for part in order:
                await step(f"{part.service}, new", partial(replace, part, "accepted"))
            await step("migrations after it", partial(migrate, "post"))
            for part in order:
                await step(f"{part.service}, signed calls only", partial(replace, part, "refused"))
    kinds = Counter(asked.kind for asked in load.asked)
    ends = Counter(asked.end for asked in load.asked)
    print(f"{dict(kinds)}; {dict(ends)}")
    rows.append(
        ["all", sum(cast("float", row[1]) for row in rows), len(load.asked), len(load.asked) - ends["complete"]]
    )
    return rows, lost


async def fill(url: str, keys: Mapping[str, str]) -> None:
    """Creates the users' data before the upgrade: processed documents, conversations, a profile, a budget."""
    for user, key in keys.items():
        async with client(url, key) as http:
            for number in range(PER_USER):
                body = {"type": "article", "title": f"{user} {number}", "content": f"# Tides {number}\n\nHigh water."}
                (await http.post("/v1/documents", json=body | {"collection": f"of {user}"})).raise_for_status()
                question = {"question": f"When is high water at pier {number}?", "stream": False}
                (await http.post("/v1/chat", json=question)).raise_for_status()
    async with client(url, keys["ada"]) as http, asyncio.timeout(120):
        budget = {"scope": "org", "period": "month", "limit_usd": 1000}
        (await http.put("/v1/budgets", json=budget)).raise_for_status()
        while {entry["status"] for entry in (await documents(http))} != {"ready"}:  # noqa: ASYNC110 # there is no event to wait for
            await asyncio.sleep(0.2)


async def read(url: str, key: str, conversations: Collection[str] = ()) -> Json:
    """The data as a user sees it; `conversations` are the known ones, which follow those of the load."""
    async with client(url, key) as http:
        stored = {entry["title"]: entry for entry in await documents(http) if entry["title"].startswith(USERS)}
        texts = {
            title: (await http.get(f"/v1/documents/{entry['id']}/text")).raise_for_status().text
            for title, entry in stored.items()
        }
        if not conversations:
            listed = (await http.get("/v1/conversations")).raise_for_status().json()["conversations"]
            conversations = [entry["id"] for entry in listed]
        answers = {number: (await http.get(f"/v1/conversations/{number}")) for number in conversations}
        query = {"query": "high water", "collection": "of bob", "top_k": 20}
        results = (await http.post("/v1/search", json=query)).raise_for_status().json()["results"]
        budgets = (await http.get("/v1/budgets")).json().get("budgets", [])
        return {
            "documents": stored,
            "texts": texts,
            "conversations": {number: answer.raise_for_status().json() for number, answer in answers.items()},
            "found": sorted(result["document_id"] for result in results),
            "budgets": [(entry["scope"], entry["period"], entry["limit_usd"]) for entry in budgets],
        }


async def documents(http: httpx.AsyncClient) -> list[Json]:
    """All documents that a user sees."""
    result: list[Json] = []
    token = ""
    while True:
        page = (
            (await http.get("/v1/documents", params={"page_size": 100, "page_token": token})).raise_for_status().json()
        )
        result += page["documents"]
        token = page["next_page_token"]
        if not token:
            return result


def missing(before: Any, after: Any, place: str = "") -> list[str]:  # noqa: ANN401 # JSON of any type
    """Lists the changes in the data. Fields may have been added."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("Json", before), cast("Json", after)
        gone = [f"{place}/{name} is gone" for name in old.keys() - new.keys()]
        return gone + [
            what for name in old.keys() & new.keys() for what in missing(old[name], new[name], f"{place}/{name}")
        ]
    if isinstance(before, list) and isinstance(after, list):
        olds, news = cast("list[Any]", before), cast("list[Any]", after)
        if len(olds) == len(news):
            pairs = enumerate(zip(olds, news, strict=True))
            return [what for number, pair in pairs for what in missing(*pair, f"{place}[{number}]")]
    return [] if before == after else [f"{place} was {before!r:.200} and is {after!r:.200}"]


def client(url: str, key: str) -> httpx.AsyncClient:
    """A client with a key."""
    return httpx.AsyncClient(base_url=url, headers=bearer(key), trust_env=False, timeout=30)


async def _answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).status_code == 200
    except httpx.HTTPError:
        return False


def _environment(dsn: Callable[[str], str], parts: Sequence[Part], upstream: str) -> dict[str, str]:
    """The settings of all processes of both versions."""
    targets: dict[str, str] = {}
    for service in SERVICES:
        addresses = ",".join(f"127.0.0.1:{part.port}" for part in parts if part.service == service)
        for caller in ("GATEWAY", "WORKER"):
            targets[f"CITEWIRE_{caller}_{service.upper()}_TARGET"] = f"ipv4:{addresses}"
    waits = {f"CITEWIRE_{name.upper()}_LEAVE_SECONDS": "1" for name in (*SERVICES, "gateway")}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("CITEWIRE_")},
        **targets,
        **waits,
        "CITEWIRE_AUTH": "keys",
        # The same timeout as the load's clients: speed isn't measured here.
        **{f"CITEWIRE_GATEWAY_{name}_SECONDS": "20" for name in ("EMBED", "PLAN", "SEARCH", "REQUEST")},
        "CITEWIRE_WORKER_CONFINEMENT": "available",
        "CITEWIRE_WORKER_POLL_SECONDS": "0.5",
        "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
        "CITEWIRE_GENERATOR_MODEL": "paced",
        "CITEWIRE_GENERATOR_API_BASE": upstream,
        "CITEWIRE_GATEWAY_DSN": dsn("citewire_chat"),
        "CITEWIRE_RETRIEVER_DSN": dsn("citewire_corpus"),
        "CITEWIRE_WORKER_DSN": dsn("citewire_worker"),
        "CITEWIRE_LEDGER_DSN": dsn("citewire_ledger"),
        **{f"CITEWIRE_{owner.upper()}_MIGRATE_DSN": dsn("postgres") for owner in OWNERS},
    }


async def run(base: str, seed: int) -> tuple[list[list[object]], list[str]]:
    """Starts the earlier commit's installation, upgrades it and stops it."""
    names = [service for service in (*SERVICES, "gateway") for _ in range(2)] + ["worker"]
    with (
        tempfile.TemporaryDirectory(prefix="citewire-upgrade-") as temporary,
        start_embedded_postgres() as server,
        paced_model_server() as upstream,
    ):
        folder = Path(temporary)
        upstream.pace(rate=40, tokens=40)
        parts = [Part(name, free_port(), free_port(), folder / f"{name}-{at}.log") for at, name in enumerate(names)]
        earlier = python_of(base, folder / "earlier")
        versions = Versions(_environment(server.dsn, parts, upstream.url), earlier)
        for owner in OWNERS:
            versions.run(f"citewire_{owner}", "migrate", old=True)
        try:
            for part in parts:
                part.start(versions.common, versions.earlier)
            await asyncio.gather(*(part.ready() for part in parts))
            return await upgrade(versions, parts, seed)
        finally:
            for part in parts:
                await part.end()


def main(arguments: Sequence[str]) -> int:
    """Runs the upgrade; returns 1 if a request failed or data changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="f61e045", help="the commit that is upgraded from (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed for the order of processes")
    options = parser.parse_args(arguments)
    rows, lost = asyncio.run(run(options.base, options.seed))
    print(f"{describe_machine()}\n\n{format_table(['step', 'seconds', 'requests', 'failed'], rows)}\n")
    print("\n".join(lost) or "everything was read as before, after each step")
    return 1 if lost or rows[-1][3] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
