"""`citewire status`: whether everything works, and how much is in the library."""

from collections import Counter
from contextlib import aclosing

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, as_object, get_int, get_object, get_str
from citewire_cli.library import every_document
from citewire_cli.settings import ClientSettings, load_client_settings

_NOT_CHECKS = frozenset({"status", "type", "title", "detail", "reason", "errors", "request_id"})


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("status")(status)


def status(url: UrlOption = None, json: JsonOption = False) -> None:
    """Show the health of each process, counts and versions. Exits with 3 if something isn't ready."""

    async def work() -> ExitCode:
        settings = load_client_settings(url=url)
        async with Api(settings) as api:
            health = await api.health()
            version = get_str(get_object(await api.call("GET", "/openapi.json"), "info"), "version")
            documents = await _count(api)
        report: JsonObject = {
            "url": settings.url,
            "ready": health.ready,
            "version": version,
            "health": health.details,
            "documents": documents,
            "processes": _local_processes(settings),
        }
        if json:
            output.print_json(report)
        else:
            _print(report)
        return ExitCode.OK if health.ready else ExitCode.UNREACHABLE

    output.run(work, as_json=json)


async def _count(api: Api) -> JsonObject:
    """How many documents there are of each status, and their chunks; None where the library can't be read now."""
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
    """What `citewire up` of this folder says about its processes, if it is the stack that was asked."""
    try:
        from citewire_cli.stack.layout import Layout
    except ImportError:  # not a POSIX system: there is no local stack
        return {}
    state = Layout(settings.data_dir).read_run()
    if state is None or get_str(state, "url") != settings.url:
        return {}
    return get_object(state, "processes")


def _print(report: JsonObject) -> None:
    console = output.stdout()
    ready = "ready" if report["ready"] else "NOT READY"
    console.print(f"{report['url']}  {ready}  version {report['version'] or 'unknown'}")
    details = get_object(report, "health")
    rows = [(name, _words(value)) for name, value in details.items() if name not in _NOT_CHECKS]
    if not report["ready"]:
        console.print(output.clean(get_str(details, "detail")))
    if rows:
        console.print()
        output.print_table(("check", "result"), rows)
    processes = get_object(report, "processes")
    if processes:
        console.print()
        lines = [(name, as_object(value) or {}) for name, value in processes.items()]
        fields = ("state", "pid", "port", "metrics_port", "restarts")
        output.print_table(("process", *fields), ((name, *(get_str(p, f, "–") for f in fields)) for name, p in lines))
    documents = get_object(report, "documents")
    console.print()
    console.print("Documents: " + ", ".join(f"{name} {value}" for name, value in documents.items()))


def _words(value: object) -> str:
    """A check's result on one line: nested members as `name: value`."""
    members = as_object(value)
    if members is None:
        return str(value)
    return ", ".join(f"{name}: {_words(member)}" for name, member in members.items())
