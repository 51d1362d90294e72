"""`citewire status`: whether everything works, and the figures that the dashboards show."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, as_object, get_int, get_object, get_str
from citewire_cli.library import every_document
from citewire_cli.monitor.figures import process_figures, stack_figures
from citewire_cli.monitor.samples import Samples
from citewire_cli.monitor.scrape import Scrape, metrics_addresses, scrape_all
from citewire_cli.monitor.screen import print_report
from citewire_cli.settings import ClientSettings, load_client_settings

_RECOUNTED = 1000
"""Libraries up to this size are counted at each refresh; larger ones once, as that reads all their pages."""

_CLEAR = "\x1b[2J\x1b[H"

MetricsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics", help="Address of a process's metrics: gateway=HOST:PORT; may be repeated.", show_default=False
    ),
]
WatchOption = Annotated[
    float | None,
    typer.Option(
        "--watch",
        min=0.1,
        help="Refresh every N seconds; rates and times cover that interval.",
        show_default=False,
    ),
]


@output.async_command
async def status(
    url: UrlOption = None, metrics: MetricsOption = None, watch: WatchOption = None, json: JsonOption = False
) -> ExitCode:
    """Show the health and the main metrics of each process.

    Exits with 3 if the gateway can't be reached or something isn't ready, with 1 if a process's metrics can't be read.
    """
    reader = _StatusReader(load_client_settings(url=url), metrics or [], os.environ)
    if watch is None:
        report, code = await reader.report()
        _show(report, as_json=json)
        return code
    while True:
        report, _ = await reader.report()
        if not json and output.stdout().is_terminal:
            output.stdout().print(_CLEAR, end="")
        _show(report, as_json=json)
        await asyncio.sleep(watch)


def _show(report: JsonObject, *, as_json: bool) -> None:
    if as_json:
        output.print_json(report)
    else:
        print_report(report)


class _StatusReader:
    """Reads one stack repeatedly; from the second time on, figures cover the interval."""

    def __init__(self, settings: ClientSettings, metrics: list[str], environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._environ = environ
        self._before: dict[str, Samples] = {}
        self._documents: JsonObject = {}

    async def report(self) -> tuple[JsonObject, ExitCode]:
        """Returns the report and its exit code."""
        settings = self._settings
        local = _local_processes(settings)
        addresses = metrics_addresses(settings, self._environ, local, self._metrics)
        scraping = asyncio.create_task(scrape_all(addresses))
        try:
            answered = await self._ask()
        except CliError:
            await scraping  # cancelling it while it connects would leave sockets open
            raise
        scrapes = await scraping
        now = {name: scrape.samples for name, scrape in scrapes.items() if scrape.samples is not None}
        since = {
            name: samples.since(self._before[name]) if name in self._before else samples
            for name, samples in now.items()
        }
        processes: JsonObject = {
            name: self._process(as_object(local.get(name)) or {}, scrapes.get(name), name, since)
            for name in (*local, *(name for name in addresses if name not in local))
        }
        span = "since the last refresh" if self._before else "since each process started"
        self._before = now
        report: JsonObject = {
            "url": settings.url,
            **answered,
            "span": span,
            "processes": processes,
            "figures": stack_figures(since),
        }
        if not report["ready"]:
            return report, ExitCode.UNREACHABLE
        complete = all(scrape.samples is not None for scrape in scrapes.values())
        return report, ExitCode.OK if complete else ExitCode.FAILED

    def _process(self, state: JsonObject, scrape: Scrape | None, name: str, since: Mapping[str, Samples]) -> JsonObject:
        if scrape is None:
            return state
        described: JsonObject = {**state, "metrics": scrape.url, "up": scrape.samples is not None}
        if scrape.samples is None:
            return {**described, "problem": scrape.problem}
        before = self._before.get(name)
        start = scrape.samples.sum("process_start_time_seconds")
        if before is not None and before.sum("process_start_time_seconds") == start:
            start = before.time
        return described | process_figures(name, since[name], scrape.samples.time - start)

    async def _ask(self) -> JsonObject:
        """The gateway's state; being unreachable is a result as well."""
        async with Api(self._settings) as api:
            try:
                ready, health = await api.health()
                version = get_str(get_object(await api.call("GET", "/openapi.json"), "info"), "version")
            except CliError as error:
                if error.code is not ExitCode.UNREACHABLE:
                    raise
                unreached: JsonObject = {"detail": str(error)}
                return {"ready": False, "version": "", "health": unreached, "documents": {}, "usage": {}}
            if (get_int(self._documents, "total") or 0) <= _RECOUNTED:
                self._documents = await _count(api)
            return {
                "ready": ready,
                "version": version,
                "health": health,
                "documents": self._documents,
                "usage": await _usage(api) if ready else {},
            }


async def _usage(api: Api) -> JsonObject:
    """The cost of the last 30 days; empty if currently unavailable."""
    try:
        report = await api.call("GET", "/v1/usage", params={"group_by": "", "format": "json"})
    except CliError as error:
        if error.code is ExitCode.UNAUTHORISED:
            raise
        return {}
    return {"scope": get_str(report, "scope"), **get_object(report, "total")}


async def _count(api: Api) -> JsonObject:
    """Documents by status, and their chunks; the error if the library can't be read now."""
    statuses: Counter[str] = Counter()
    chunks = 0
    try:
        async with aclosing(every_document(api, {})) as documents:
            async for document in documents:
                statuses[get_str(document, "status")] += 1
                chunks += get_int(document, "chunks") or 0
    except CliError as error:
        if error.code is ExitCode.UNAUTHORISED:
            raise
        return {"error": str(error)}
    return {"total": statuses.total(), **statuses, "chunks": chunks}


def _local_processes(settings: ClientSettings) -> JsonObject:
    """The processes from `citewire up`'s run file; empty if this isn't a local stack of ours."""
    try:
        from citewire_cli.stack.running import running_stack
    except ImportError:  # not a POSIX system: there is no local stack
        return {}
    return get_object(running_stack(settings) or {}, "processes")
