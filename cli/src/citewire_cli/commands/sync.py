"""`citewire sync`: a collection that follows a folder."""

from pathlib import Path
from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.ingest import IngestProgress
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.ingest import Target
from citewire_cli.settings import load_client_settings
from citewire_cli.sync import report
from citewire_cli.sync.engine import Sync
from citewire_cli.sync.folder import Folder
from citewire_cli.sync.library import SyncedDocuments
from citewire_cli.sync.watch import follow


@output.async_command
async def sync_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to follow.", show_default=False)],
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection that follows it.")],
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Give new documents this tag.")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The source's name in the library; by default made of this machine and the folder's path."),
    ] = None,
    url_prefix: Annotated[
        str, typer.Option(help="What stands before a file's path in its address, such as https://wiki.example.org/.")
    ] = "",
    permissions: Annotated[
        bool, typer.Option("--permissions", help="Only whom the file system lets read a file may read its document.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and follow each change within seconds.")] = False,
    poll: Annotated[bool, typer.Option("--poll", help="Watch a network share, which tells of no changes.")] = False,
    allow_deletions: Annotated[
        bool, typer.Option("--allow-deletions", help="Also if most of the source's documents would be deleted.")
    ] = False,
    patience: Annotated[
        float, typer.Option("--patience", min=1, help="Seconds without progress before waiting ends.")
    ] = 600.0,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Make a collection hold what a folder holds, and only that of what came from there before.

    A file's path in the folder is its document's name. New files are uploaded, changed ones become new versions, moved
    ones keep their document, and documents whose file is gone are deleted; other documents of the collection stay. Run
    it again at any time, also after Ctrl-C. What `.citewireignore` names, in the syntax of .gitignore, is kept out.

    Exits with 1 if something failed; all else is done.
    """
    source = Folder(folder, url_prefix=url_prefix, permissions=permissions)
    async with Api(load_client_settings(url=url)) as api:
        documents = SyncedDocuments(api, name or source.default_name, collection)
        target = Target(collection, tuple(tag or ()), update=True)
        sync = Sync(api, source, documents, target, allow_deletions=allow_deletions)
        plan, listing = await sync.plan()
        if dry_run:
            report.print_plan(plan, listing, as_json=json)
            return ExitCode.OK
        if not json:
            report.print_left_out(listing)
        sync.check(plan)
        uploads = sync.uploads(plan)
        with IngestProgress(len(uploads), wait=True, quiet=json or not uploads) as progress:
            done = await sync.apply(plan, uploads, progress, patience=patience)
        report.print_report(plan, done, listing, as_json=json)
        if watch:
            await follow(sync, polling=poll, patience=patience, tell=report.Teller(as_json=json))
    return ExitCode.FAILED if done.failures else ExitCode.OK
