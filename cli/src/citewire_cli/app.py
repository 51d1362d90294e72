"""The `citewire` command: its sub-commands and its help."""

from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from citewire_cli.commands import (
    ask,
    audit,
    budgets,
    collections,
    completion,
    documents,
    erasures,
    ingest,
    keys,
    limits,
    members,
    operator,
    providers,
    retention,
    search,
    spaces,
    status,
    sync,
    table,
    up,
    usage,
)
from citewire_cli.commands.missing import explain_eval, explain_mcp
from citewire_cli.errors import EXIT_CODE_HELP

app = typer.Typer(
    name="citewire",
    help="Cited answers over your own documents: the local stack, and a client of its HTTP API.",
    epilog=f"{EXIT_CODE_HELP} Settings: CITEWIRE_URL, CITEWIRE_API_KEY, CITEWIRE_DATA_DIR.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up")(up.up_command)
app.command("ingest")(ingest.ingest_command)
app.command("sync")(sync.sync_command)
app.command("ask")(ask.ask)
app.command("search")(search.search)
app.add_typer(documents.documents_app, name="documents")
app.add_typer(collections.collections_app, name="collections")
app.add_typer(table.table_app, name="table")
app.command("status")(status.status)
app.add_typer(keys.keys_app, name="keys")
app.add_typer(members.orgs_app, name="orgs")
app.add_typer(members.users_app, name="users")
app.add_typer(members.groups_app, name="groups")
app.add_typer(operator.operator_app, name="operator")
app.add_typer(audit.audit_app, name="audit")
app.command("usage")(usage.usage)
app.add_typer(budgets.budgets_app, name="budgets")
app.add_typer(erasures.erasures_app, name="erasures")
app.add_typer(retention.retention_app, name="retention")
app.add_typer(limits.limits_app, name="limits")
app.add_typer(spaces.spaces_app, name="spaces")
app.add_typer(providers.providers_app, name="providers")
app.command("completion")(completion.completion)
installed = {point.name: point for point in entry_points(group="citewire.commands")}
for name, explain in (("eval", explain_eval), ("mcp", explain_mcp)):
    if name in installed:
        app.command(name)(installed[name].load())
    else:
        app.command(name, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(explain)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"citewire {version('citewire-cli')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cited answers over your own documents."""
