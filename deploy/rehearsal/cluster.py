"""The stack as pods: started, probed, scaled, rolled and stopped like by a Kubernetes Deployment."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from citewire_kit.callers.__main__ import make_keys
from deploy.rehearsal import specs
from deploy.rehearsal.balancer import Balancer
from deploy.rehearsal.build import WORLD
from deploy.rehearsal.engine import PREFIX, Container, Engine, EngineError
from deploy.rehearsal.metrics import Samples
from deploy.rehearsal.specs import MIGRATIONS, SERVICES, Service

START_SECONDS = 60.0
PRE_STOP_SECONDS = 5.0
"""Seconds between a pod's removal from the endpoints and its SIGTERM: the `preStop` of deploy/k8s."""
MIN_READY_SECONDS = 7.0
"""Seconds between a new pod's readiness and an old one's end, as in deploy/k8s: by then every client has renewed its
connections (CITEWIRE_CONNECTION_SECONDS) and found the new pod."""
GRACE_SECONDS = 330.0
_PROBE_SECONDS = 0.1
_ORG = "rehearsal"
_PSQL = ("--host=/tmp", "--username=postgres", "-X", "-q", "-A", "-t", "--set=ON_ERROR_STOP=1")


@dataclass(slots=True)
class Pod:
    """A container of a service, and its start time (by the monotonic clock)."""

    service: Service
    container: Container
    started: float
    ready: float | None = None

    @property
    def url(self) -> str:
        """Its HTTP URL: the API of a gateway, the metrics of a worker."""
        return f"http://{self.container.address}:{specs.PORTS[self.service]}"

    @property
    def start_seconds(self) -> float:
        """Seconds from `podman run` to readiness."""
        return (self.ready or time.monotonic()) - self.started


@dataclass(frozen=True, slots=True)
class Ended:
    """A pod's shutdown: the streams that it was still sending at its SIGTERM, and the seconds from then to its end."""

    streams: int
    seconds: float


@dataclass(slots=True)
class Cluster:
    """All pods and their surroundings. Created by `running`."""

    engine: Engine
    tag: str
    """The tag of our images, with `{name}` in it. An upgrade assigns another."""
    extra: Mapping[str, str]
    """Additional variables of every service."""
    callers: Path
    """The folder with the callers' keys."""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)
    pods: dict[Service, list[Pod]] = field(default_factory=lambda: {service: [] for service in SERVICES})
    balancer: Balancer = field(default_factory=Balancer)
    key: str = field(default="", repr=False)
    """An API key of the asking organisation."""
    postgres: Container | None = None
    upstream: Container | None = None
    _numbers: dict[Service, int] = field(default_factory=dict[Service, int])
    _jobs: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request of a client."""
        return {"Authorization": f"Bearer {self.key}"}

    def image(self, name: str) -> str:
        """The image with that name."""
        return self.tag.format(name=name)

    async def start_pod(self, service: Service, *, image: str | None = None) -> Pod:
        """Starts one more pod and waits until it is ready; a gateway then gets requests.

        Raises:
            EngineError: It ended, or wasn't ready in time; the message ends with its log.
        """
        number = self._numbers[service] = self._numbers.get(service, 0) + 1
        environ = {**specs.environ(service, self.password), **self.extra}
        started = time.monotonic()
        container = await self.engine.start(
            f"{service}-{number}",
            image or self.image(specs.IMAGES[service]),
            *specs.COMMANDS.get(service, ()),
            alias=service,
            environ=environ,
            options=(f"--volume={self.callers}:{specs.CALLERS_FOLDER}:ro",),
        )
        pod = Pod(service, container, started)
        self.pods[service].append(pod)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await is_ready(pod):  # noqa: ASYNC110 # nothing announces it
                    await asyncio.sleep(_PROBE_SECONDS)
        except TimeoutError:
            log = await self.engine.logs(container)
            raise EngineError(f"{container.name} wasn't ready after {START_SECONDS:g} s:\n{log}") from None
        pod.ready = time.monotonic()
        if service == "gateway":
            self.balancer.add(pod.url)
            await self.balancer.until_ready(pod.url)
        return pod

    async def end_pod(self, pod: Pod) -> Ended:
        """Stops a pod properly: it leaves the endpoints; then a pause, SIGTERM, and its grace period.

        Raises:
            EngineError: It didn't end by itself, or ended with an error.
        """
        self.pods[pod.service].remove(pod)
        if pod.service == "gateway":
            self.balancer.remove(pod.url)
        await asyncio.sleep(PRE_STOP_SECONDS)
        streams = (await self.samples(pod)).total("citewire_streams_in_flight")
        told = time.monotonic()
        await self.engine.signal(pod.container, "TERM")
        code = await self.engine.wait(pod.container, seconds=GRACE_SECONDS)
        took = time.monotonic() - told
        if code != 0:
            log = await self.engine.logs(pod.container)
            raise EngineError(f"{pod.container.name} ended with {code}:\n{log}")
        await self.engine.remove(pod.container)
        return Ended(round(streams), took)

    async def kill_pod(self, pod: Pod) -> None:
        """Kills a pod without notice by SIGKILL, like a machine that dies."""
        self.pods[pod.service].remove(pod)
        await self.engine.signal(pod.container, "KILL")

    async def scale(self, service: Service, replicas: int) -> None:
        """Starts or stops pods, one after another, until there are this many."""
        while len(self.pods[service]) < replicas:
            await self.start_pod(service)
        while len(self.pods[service]) > replicas:
            await self.end_pod(self.pods[service][-1])

    async def migrate(self, phase: str) -> None:
        """Runs the migration jobs of a phase with the current images."""
        for migration in MIGRATIONS:
            await self.job(
                migration.image,
                "-m",
                migration.entrypoint,
                "migrate",
                "--phase",
                phase,
                entrypoint="python",
                environ={migration.variable: specs.dsn(specs.OWNER, self.password)},
            )

    async def job(self, image: str, *command: str, entrypoint: str, environ: Mapping[str, str]) -> str:
        """Runs one of our images to its end; returns its output."""
        self._jobs += 1
        options = (f"--entrypoint={entrypoint}",)
        return await self.engine.job(f"job-{self._jobs}", self.image(image), *command, environ=environ, options=options)

    async def samples(self, pod: Pod) -> Samples:
        """Returns a pod's current metrics."""
        url = f"http://{pod.container.address}:{specs.METRICS_PORTS[pod.service]}/metrics"
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
            return Samples.parse((await http.get(url)).raise_for_status().text)

    async def pace(self, **settings: float) -> None:
        """Sets the model's behaviour: see benchmarks/upstream.py."""
        assert self.upstream is not None
        async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
            url = f"http://{self.upstream.address}:8000/settings"
            (await http.patch(url, json=settings)).raise_for_status()

    async def make_key(self) -> str:
        """Creates an API key for an organisation with plan pro."""
        variable = {"CITEWIRE_GATEWAY_MIGRATE_DSN": specs.dsn(specs.OWNER, self.password)}
        arguments = ("-m", "citewire_gateway", "keys", "create", "--org", _ORG, "--user", _ORG, "--plan", "pro")
        return (await self.job("gateway", *arguments, entrypoint="python", environ=variable)).split()[-1]

    async def psql(self, statement: str, *options: str, database: str = specs.DATABASE) -> str:
        """Runs SQL as the database's administrator; returns rows as `a|b` lines."""
        assert self.postgres is not None
        arguments = ("psql", *_PSQL, f"--dbname={database}")
        return await self.in_postgres(*arguments, *options, "-c", statement)

    async def in_postgres(self, *command: str) -> str:
        """Runs a program beside the database."""
        assert self.postgres is not None
        variable = f"--env=PGPASSWORD={self.password}"
        return await self.engine.podman("exec", variable, self.postgres.name, *command)


async def is_ready(pod: Pod) -> bool:
    """Sends the request of Kubernetes' readiness probe."""
    if pod.service in ("gateway", "worker"):
        path = "/readyz" if pod.service == "gateway" else "/metrics"
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=2) as http:
                return (await http.get(pod.url + path)).status_code == 200
        except httpx.HTTPError:
            return False
    return await serves(f"{pod.container.address}:{specs.PORTS[pod.service]}")


async def serves(address: str) -> bool:
    """Whether a gRPC server reports SERVING."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        check = cast("grpc.aio.UnaryUnaryMultiCallable[Any, Any]", stub.Check)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - has no types
        try:
            response = await check(health_pb2.HealthCheckRequest(), timeout=1)
        except grpc.aio.AioRpcError:
            return False
        return response.status == health_pb2.HealthCheckResponse.SERVING


@asynccontextmanager
async def running(
    engine: Engine, tag: str, *, replicas: Mapping[Service, int], extra: Mapping[str, str] | None = None
) -> AsyncGenerator[Cluster]:
    """Starts everything and removes it afterwards.

    Args:
        engine: Podman.
        tag: The tag of the images, with `{name}` in it.
        replicas: Number of replicas per service; 1 for services that aren't named.
        extra: Additional variables of every service.
    """
    await engine.create_network()
    folder = TemporaryDirectory(prefix=f"{PREFIX}-callers-")
    make_keys(Path(folder.name), dict.fromkeys(specs.CALLERS, ()), readable=True)
    cluster = Cluster(engine, tag, extra or {}, Path(folder.name))
    try:
        async with cluster.balancer.watching():
            await start_world(cluster)
            await cluster.migrate("pre")
            await cluster.migrate("post")
            for service in SERVICES:
                await asyncio.gather(*(cluster.start_pod(service) for _ in range(replicas.get(service, 1))))
            cluster.key = await cluster.make_key()
            yield cluster
    finally:
        folder.cleanup()
        with contextlib.suppress(EngineError):
            await engine.clear()


async def start_world(cluster: Cluster) -> None:
    """Starts the database and the model, and creates owner, database and roles."""
    engine, image = cluster.engine, WORLD
    # A new name each time: the leftovers of a volume whose removal was interrupted would reappear under its name.
    volume = f"{PREFIX}-postgres-{secrets.token_hex(4)}"
    cluster.postgres = await engine.start(
        "postgres",
        image,
        alias="postgres",
        environ={"POSTGRES_PASSWORD": cluster.password},
        options=(f"--volume={volume}:/data:U", "--shm-size=256m"),
    )
    cluster.upstream = await engine.start(
        "upstream",
        image,
        "/app/upstream.py",
        "--host=0.0.0.0",
        "--port=8000",
        alias="upstream",
        environ={},
        options=("--entrypoint=python",),
    )
    await _until_postgres(cluster)
    for statement in specs.setup_sql(cluster.password).splitlines():
        await cluster.psql(statement, database="postgres")
    await cluster.psql("CREATE EXTENSION vector")


async def _until_postgres(cluster: Cluster) -> None:
    """Waits until the server answers over TCP, which it doesn't while initdb runs."""
    assert cluster.postgres is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(EngineError):
                    await cluster.in_postgres("pg_isready", "-q", "-h", "127.0.0.1")
                    return
                await asyncio.sleep(_PROBE_SECONDS)
    except TimeoutError:
        log = await cluster.engine.logs(cluster.postgres)
        raise EngineError(f"Postgres wasn't ready after {START_SECONDS:g} s:\n{log}") from None
