"""`citewire sync`: a collection that follows a folder, a repository, a web site or a store of files."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.ingest import IngestProgress
from citewire_cli.commands.options import ImagesOption, JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.ingest import Target
from citewire_cli.settings import load_client_settings
from citewire_cli.sync import git, report, stores
from citewire_cli.sync.engine import Failure, Sync
from citewire_cli.sync.folder import Folder
from citewire_cli.sync.library import SyncedDocuments
from citewire_cli.sync.sitemap import Sitemap
from citewire_cli.sync.watch import follow


@output.async_command
async def sync_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The source: a folder, git+https://HOST/REPOSITORY@REF#FOLDER (also git+ssh, git+file), the "
            "https:// address of a sitemap, or s3://BUCKET/FOLDER, webdav+https://HOST/FOLDER, sftp://USER@HOST/FOLDER.",
            show_default=False,
        ),
    ],
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection to keep in step.")],
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Give new documents this tag.")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The source's name in the library; default: from this machine's name and the folder's path."),
    ] = None,
    url_prefix: Annotated[
        str, typer.Option(help="Prefix of each document's URL, such as https://wiki.example.org/.")
    ] = "",
    permissions: Annotated[
        bool, typer.Option("--permissions", help="Restrict each document to those who may read its file.")
    ] = False,
    images: ImagesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done without doing it.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and follow each change within seconds.")] = False,
    poll: Annotated[bool, typer.Option("--poll", help="Poll, for a network share that reports no changes.")] = False,
    allow_deletions: Annotated[
        bool, typer.Option("--allow-deletions", help="Proceed even if most of the source's documents would be deleted.")
    ] = False,
    cache: Annotated[
        Path, typer.Option(help="Folder for fetched files, so that the next run fetches only changes.")
    ] = Path("~/.cache/citewire/sync"),
    patience: Annotated[
        float, typer.Option("--patience", min=1, help="Seconds without progress before giving up.")
    ] = 600.0,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Keep a collection in step with a source.

    A file's path in the source is its document's name. New files are uploaded, changed ones become new versions, moved
    ones keep their document, and documents whose file is gone are deleted; other documents of the collection stay. Run
    it again at any time, also after Ctrl-C. What `.citewireignore` names, in the syntax of .gitignore, is kept out.

    Exits with 1 if something failed; all else is done.
    """
    with closing(_open(source, cache, url_prefix=url_prefix, permissions=permissions, watch=watch or poll)) as folder:
        folder.images = images
        async with Api(load_client_settings(url=url)) as api:
            documents = SyncedDocuments(api, name or folder.default_name, collection)
            target = Target(collection, tuple(tag or ()), update=True)
            sync = Sync(api, folder, documents, target, allow_deletions=allow_deletions)
            plan, listing = await sync.plan()
            unfetched = [Failure("fetch", path, error) for path, error in listing.failures.items()]
            if dry_run:
                report.print_plan(plan, unfetched, listing, as_json=json)
                sync.check(plan)
                return ExitCode.FAILED if unfetched else ExitCode.OK
            if not json:
                report.print_left_out(listing)
            sync.check(plan)
            uploads = sync.uploads(plan)
            with IngestProgress(len(uploads), wait=True, quiet=json or not uploads) as progress:
                done = await sync.apply(plan, uploads, progress, patience=patience)
            done.failures += unfetched
            report.print_report(plan, done, listing, as_json=json)
            if watch:
                await follow(sync, polling=poll, patience=patience, tell=report.Teller(as_json=json))
    return ExitCode.FAILED if done.failures else ExitCode.OK


def _open(source: str, cache: Path, *, url_prefix: str, permissions: bool, watch: bool) -> Folder:
    scheme, separator, _ = source.partition("://")
    if not separator:
        return Folder(Path(source), url_prefix=url_prefix, permissions=permissions)
    if watch or permissions:
        name = "--watch and --poll follow" if watch else "--permissions reads those of"
        raise CliError("Only folders support this option", f"{name} a folder.", ExitCode.USAGE)
    if scheme in git.SCHEMES:
        return git.GitRepository(source, cache.expanduser(), url_prefix=url_prefix)
    if scheme in stores.SCHEMES:
        return stores.open_store(source, cache.expanduser(), url_prefix=url_prefix)
    if scheme in ("http", "https") and not url_prefix:
        return Sitemap(source, cache.expanduser())
    others = ", ".join(f"{name}://" for name in (*git.SCHEMES, *stores.SCHEMES))
    kinds = f"a folder, {others}, or a sitemap's https:// (without --url-prefix)"
    raise CliError("This is not a source", f"{scheme}: it must be {kinds}.", ExitCode.USAGE)
