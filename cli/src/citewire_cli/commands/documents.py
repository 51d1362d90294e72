"""`citewire documents`: lists and manages documents."""

import json as jsonlib
import sys
from contextlib import aclosing
from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import CollectionOption, JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_str
from citewire_cli.library import EVER, every_document
from citewire_cli.settings import load_client_settings

documents_app = typer.Typer(help="List, show and delete documents.", invoke_without_command=True, no_args_is_help=False)


@documents_app.callback()
def documents(context: typer.Context, url: UrlOption = None, json: JsonOption = False) -> None:
    """List, show and delete documents; without a sub-command, list them all."""
    if context.invoked_subcommand is None:
        list_documents(url=url, json=json)


@documents_app.command("list")
@output.async_command
async def list_documents(
    collection: CollectionOption = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only documents that are pending, processing, ready or failed.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--type", help="Only file, article, repository or capture.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only documents with this tag.")] = None,
    any_validity: Annotated[
        bool, typer.Option("--any-validity", help="Include expired and not yet valid documents.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number.")] = 1000,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """List documents, newest first."""
    filters = {"collection": collection, "status": status, "type": kind, "tag": tag}
    params = {key: value for key, value in filters.items() if value is not None} | (EVER if any_validity else {})
    listing: list[JsonObject] = []
    async with Api(load_client_settings(url=url)) as api:
        async with aclosing(every_document(api, params)) as matches:
            async for document in matches:
                listing.append(document)
                if len(listing) == limit:
                    break
    if json:
        output.print_json({"documents": listing})
    elif listing:
        output.print_table(("id", "status", "type", "chunks", "name", "collection"), (_row(d) for d in listing))
    else:
        output.stdout().print("No documents. Add some with `citewire ingest PATH`.")
    return ExitCode.OK


@documents_app.command("show")
@output.async_command
async def show(
    document_id: Annotated[int, typer.Argument(metavar="ID", help="The document's id.", show_default=False)],
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Show one document. Exits with 5 if it doesn't exist."""
    async with Api(load_client_settings(url=url)) as api:
        document = await api.call("GET", f"/v1/documents/{document_id}")
    if json:
        output.print_json(document)
    else:
        output.print_table(("field", "value"), ((key, _cell(value)) for key, value in document.items()))
    return ExitCode.OK


@documents_app.command("delete")
@output.async_command
async def delete(
    document_ids: Annotated[list[int], typer.Argument(metavar="ID…", help="Their ids.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Delete documents. Asks for confirmation in a terminal; scripts pass --yes. Exits with 5 if one doesn't exist."""
    if not yes:
        _confirm(document_ids)
    missing: list[int] = []
    async with Api(load_client_settings(url=url)) as api:
        for document_id in document_ids:
            try:
                await api.call("DELETE", f"/v1/documents/{document_id}")
            except CliError as error:
                if error.code is not ExitCode.NOT_FOUND:
                    raise
                missing.append(document_id)
    deleted = [document_id for document_id in document_ids if document_id not in missing]
    if json:
        output.print_json({"deleted": deleted, "not_found": missing})
    else:
        for document_id in deleted:
            output.stdout().print(f"Deleted {document_id}.")
        for document_id in missing:
            output.stderr().print(f"No document {document_id}.")
    return ExitCode.NOT_FOUND if missing else ExitCode.OK


def _confirm(document_ids: list[int]) -> None:
    if not sys.stdin.isatty():
        raise CliError("Not deleted", "Pass --yes to delete without being asked.", ExitCode.USAGE)
    many = len(document_ids)
    what = f"document {document_ids[0]}" if many == 1 else f"{many} documents"
    if not typer.confirm(f"Delete {what}?", err=True):
        raise CliError("Not deleted", "", ExitCode.INTERRUPTED)


def _row(document: JsonObject) -> tuple[str, ...]:
    name = get_str(document, "file_name") or get_str(document, "title")
    status = get_str(document, "status")
    return (
        get_str(document, "id"),
        status,
        get_str(document, "type"),
        get_str(document, "chunks"),
        output.one_line(name, 80),
        get_str(document, "collection"),
    )


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return jsonlib.dumps(value, ensure_ascii=False)
    return str(value)
