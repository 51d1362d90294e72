"""`citewire up`: brings the stack up, supervises it, and ends it."""

import asyncio
import datetime
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

import httpx

from citewire_cli.api import Api
from citewire_cli.commands.ingest import IngestProgress
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.ingest import Target, ingest
from citewire_cli.settings import ClientSettings, data_dir_from
from citewire_cli.stack import postgres as embedded
from citewire_cli.stack import sample
from citewire_cli.stack.layout import FolderLock, Layout
from citewire_cli.stack.ports import choose_ports
from citewire_cli.stack.reporter import Reporter
from citewire_cli.stack.spec import STOP_ORDER, StackSpec, check_installed
from citewire_cli.stack.supervisor import StartError, Supervisor
from citewire_cli.stack.welcome import needs_keys, short_path, welcome

PROCESSES = ("embedder", "generator", "retriever", "worker", "gateway")
READY_SECONDS = 180.0
SAMPLE_PATIENCE = 90.0
"""Seconds without progress after which the stack is ready without its sample library."""
WRITE_AGAIN_SECONDS = 0.5
SAME_KEYSTROKE_SECONDS = 0.5
"""Ctrl-C can arrive twice at once, from the terminal and from a parent that passes it on."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options from the command line."""

    port: int | None = None
    """The gateway's port, None for the environment's or the default."""
    sample: bool = True
    """Whether an empty library gets the sample documents."""
    grace: float = 15.0
    """Seconds that a stop gives each group of processes."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The environment that children inherit."""


async def up(options: UpOptions, reporter: Reporter) -> ExitCode:
    """Starts the stack, keeps it, and ends it when a signal asks to.

    Raises:
        CliError: it cannot be started; StartError if a process is to blame. Nothing is left running.
    """
    check_installed()
    layout = Layout(data_dir_from(options.environ))
    layout.create()
    with FolderLock(layout):
        layout.make_master_key()
        ports = choose_ports(options.environ, gateway_port=options.port)
        async with httpx.AsyncClient(trust_env=False, timeout=5.0) as http:
            spec = StackSpec(embedded.locate(layout), ports, options.environ, http, layout.master_keys, layout.callers)
            return await _Run(spec, layout, options, reporter).run()


class _Run:
    """One life of the stack."""

    def __init__(self, spec: StackSpec, layout: Layout, options: UpOptions, reporter: Reporter) -> None:
        self._spec = spec
        self._layout = layout
        self._options = options
        self._reporter = reporter
        self._stop = asyncio.Event()
        self._asked_at = 0.0
        self._began = time.monotonic()
        self._started_at = datetime.datetime.now(datetime.UTC)
        self._ready = False
        self._write_again: asyncio.TimerHandle | None = None
        self._supervisor = Supervisor(layout.logs, reporter, on_change=self._write_run)

    async def run(self) -> ExitCode:
        """Until a signal or a failure ends it."""
        self._listen()
        self._write_run()
        try:
            await self._until_stopped(self._supervisor.unless_failed(self._bring_up()), patience=10.0)
            if not self._stop.is_set():
                await self._until_stopped(self._welcome(), patience=1.0)
            await self._stop.wait()
        finally:
            await self._end()
        return ExitCode.OK

    async def _until_stopped(self, work: Coroutine[object, object, None], *, patience: float) -> None:
        """Does `work`, or gives it up as soon as somebody asks to stop.

        Args:
            work: raises why the stack cannot be.
            patience: seconds that it gets to clean up. It is cancelled again after them: the HTTP client loses a
                cancellation that meets the end of its own attempt to connect.
        """
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            while not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=patience)
        if not task.cancelled():
            await task

    async def _bring_up(self) -> None:
        spec, supervisor = self._spec, self._supervisor
        self._reporter.say(f"Starting Citewire; data in {short_path(self._layout.data_dir)}", event="starting")
        keys = asyncio.create_task(self._make_caller_keys())  # meanwhile: it needs no database
        try:
            await self._bring_up_database()
            await keys
        finally:
            keys.cancel()
            await asyncio.gather(keys, return_exceptions=True)
        supervisor.start(*(spec.service(name) for name in PROCESSES))
        await supervisor.ready(PROCESSES, seconds=READY_SECONDS)
        await self._all_ready()
        supervisor.settle()
        self._ready = True
        self._write_run()

    async def _bring_up_database(self) -> None:
        spec, supervisor, postgres = self._spec, self._supervisor, self._spec.postgres
        if await asyncio.to_thread(postgres.stop_leftover):
            self._reporter.say("Stopped a Postgres left over from an earlier run.")
        if not postgres.exists():
            await supervisor.run_once(spec.initdb(), what="The database cannot be created")
            postgres.finish_initdb()
        postgres.give_folders()
        supervisor.start(spec.postgres_child())
        await supervisor.ready(["postgres"], seconds=READY_SECONDS)
        await supervisor.run_once(spec.setup(), what="The database cannot be set up")
        await supervisor.run_once(spec.migrations(), what="The migrations failed")

    async def _make_caller_keys(self) -> None:
        if not self._spec.has_caller_keys():
            await self._supervisor.run_once(self._spec.caller_keys(), what="The keys of callers cannot be created")

    async def _all_ready(self) -> None:
        answer = ""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while True:
                    ready, answer = await self._spec.stack_ready()
                    if ready:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise StartError(f"The gateway isn't ready after {READY_SECONDS:g} s", f"/readyz says: {answer}") from None

    async def _welcome(self) -> None:
        """Reports that the stack is ready once the sample library can be searched, with suggestions."""
        sample_loaded = await self._offer_sample()
        seconds, url = time.monotonic() - self._began, self._spec.url
        text = f"Citewire is ready at {url} ({seconds:.1f} s)"
        self._reporter.say(text, event="ready", style="bold green", url=url, seconds=round(seconds, 3))
        self._reporter.show_all()
        environ = self._spec.child_environ()
        text, facts = welcome(url, environ, self._layout, sample_loaded=sample_loaded, sample=self._options.sample)
        self._reporter.say(text, event="welcome", **facts)

    async def _offer_sample(self) -> bool:
        """Fills an empty library if that is wanted; whether the sample library is there."""
        key = self._options.environ.get("CITEWIRE_API_KEY")
        if needs_keys(self._spec.child_environ()) and not key:
            return False  # whose library would it be?
        client = ClientSettings(self._spec.url, key, self._layout.data_dir)
        try:
            async with Api(client) as api:
                present = await sample.is_present(api)
                if present or not self._options.sample or not await sample.is_library_empty(api):
                    return present
                return await self._load_sample(api)
        except CliError as error:
            self._reporter.say(f"The sample library was not loaded: {error}", event="sample_failed", style="yellow")
            return False

    async def _load_sample(self, api: Api) -> bool:
        sources, reporter = sample.sample_sources(), self._reporter
        reporter.say(f"Loading the sample library ({len(sources)} documents) …", event="sample_loading")
        with IngestProgress(len(sources), wait=True, quiet=reporter.as_json, console=reporter.console) as progress:
            outcomes = await ingest(api, sources, Target(), progress, patience=SAMPLE_PATIENCE)
        for outcome in outcomes:
            if outcome.status != "ready":
                text = f"{outcome.source.name} was not loaded: {outcome.error or outcome.status}"
                reporter.say(text, event="sample_failed", style="yellow")
        ready = sum(outcome.status == "ready" for outcome in outcomes)
        reporter.say(f"The sample library is searchable ({ready} documents)", event="sample_ready", documents=ready)
        return ready > 0

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        now = time.monotonic()
        if not self._stop.is_set():
            self._asked_at = now
            self._stop.set()
            self._reporter.say("Stopping; Ctrl-C again to end at once.", event="stopping")
        elif now - self._asked_at > SAME_KEYSTROKE_SECONDS:
            self._supervisor.kill_all()

    async def _end(self) -> None:
        await self._supervisor.stop(STOP_ORDER, patience=self._options.grace if self._ready else 5.0)
        if self._write_again is not None:
            self._write_again.cancel()
        with suppress(FileNotFoundError):
            self._layout.run_file.unlink()
        self._reporter.say("Everything is stopped.", event="stopped")

    def _write_run(self) -> None:
        """Records the running processes, for `citewire status`, `citewire keys` and scripts.

        On a full disk that waits until there is room: what runs must be watched all the same.
        """
        if self._write_again is not None:
            self._write_again.cancel()
        try:
            self._layout.write_run(
                {
                    "pid": os.getpid(),
                    "version": version("citewire-cli"),
                    "url": self._spec.url,
                    "ready": self._ready,
                    "started_at": self._started_at.isoformat(timespec="seconds"),
                    "python": sys.executable,
                    "logs": os.fspath(self._layout.logs),
                    "environment": self._spec.command_environ(),
                    "processes": self._supervisor.snapshot(),
                }
            )
        except OSError:
            self._write_again = asyncio.get_running_loop().call_later(WRITE_AGAIN_SECONDS, self._write_run)
