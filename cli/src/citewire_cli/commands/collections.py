"""`citewire collections`: named groups of documents, whether those are enriched, and who may do what with them."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_objects, get_str
from citewire_cli.settings import load_client_settings

collections_app = typer.Typer(
    help="List, create and change collections. With --enrich, missing summaries, kinds, categories and tags are added "
    "in the background: by a language model if there is one, which costs money.",
    no_args_is_help=True,
)

SubjectArgument = Annotated[
    str, typer.Argument(help="user:ID, group:NAME or everyone.", metavar="SUBJECT", show_default=False)
]
NameArgument = Annotated[str, typer.Argument(help="The collection's name.", show_default=False)]


@collections_app.command("list")
@output.async_command
async def list_collections(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List collections by name."""
    collections: list[JsonObject] = []
    params = {"page_size": "1000"}
    async with Api(load_client_settings(url=url)) as api:
        while True:
            page = await api.call("GET", "/v1/collections", params=params)
            collections += get_objects(page, "collections")
            if not (token := get_str(page, "next_page_token")):
                break
            params["page_token"] = token
    if json:
        output.print_json({"collections": collections})
    else:
        _print(collections)
    return ExitCode.OK


@collections_app.command("create")
@output.async_command
async def create_collection(
    name: NameArgument,
    enrich: Annotated[bool, typer.Option("--enrich", help="Enrich its documents.")] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Create an empty collection. Exits with 1 if the name is taken."""
    async with Api(load_client_settings(url=url)) as api:
        collection = await api.call("POST", "/v1/collections", body={"name": name, "enrich": enrich})
    _show(collection, json=json)
    return ExitCode.OK


@collections_app.command("update")
@output.async_command
async def update_collection(
    name: NameArgument,
    new_name: Annotated[str | None, typer.Option("--name", help="Its new name.", show_default=False)] = None,
    enrich: Annotated[
        bool | None,
        typer.Option("--enrich/--no-enrich", help="Enrich its documents, including existing ones.", show_default=False),
    ] = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Rename a collection, or change whether its documents are enriched. Exits with 5 if it doesn't exist."""
    changes: JsonObject = {"name": new_name, "enrich": enrich}
    body: JsonObject = {key: value for key, value in changes.items() if value is not None}
    if not body:
        raise CliError("Nothing to change", "Give --name, --enrich or --no-enrich.", code=ExitCode.USAGE)
    async with Api(load_client_settings(url=url)) as api:
        collection = await api.call("PATCH", f"/v1/collections/{quote(name, safe='')}", body=body)
    _show(collection, json=json)
    return ExitCode.OK


@collections_app.command("grants")
@output.async_command
async def list_grants(name: NameArgument, url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List a collection's grants. Without any, it is open to everybody."""
    async with Api(load_client_settings(url=url)) as api:
        grants = await api.call("GET", _grants_path(name))
    _show_grants(grants, json=json)
    return ExitCode.OK


@collections_app.command("grant")
@output.async_command
async def grant(
    name: NameArgument,
    subject: SubjectArgument,
    access: Annotated[
        Literal["read", "write", "manage"],
        typer.Option("--access", help="Access; each level includes the previous ones."),
    ] = "read",
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Grant a subject access to a collection. The first grant closes it to everybody else."""
    async with Api(load_client_settings(url=url)) as api:
        grants = await _granted(api, name)
        grants[subject] = access
        _show_grants(await _grant_all(api, name, grants), json=json)
    return ExitCode.OK


@collections_app.command("revoke")
@output.async_command
async def revoke(
    name: NameArgument, subject: SubjectArgument, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """Revoke a subject's grant. Without any, the collection is open to everybody again."""
    async with Api(load_client_settings(url=url)) as api:
        grants = await _granted(api, name)
        if grants.pop(subject, None) is None:
            raise CliError(f"{subject} has no grant", "`citewire collections grants` lists those that exist.")
        _show_grants(await _grant_all(api, name, grants), json=json)
    return ExitCode.OK


async def _granted(api: Api, name: str) -> dict[str, str]:
    grants = get_objects(await api.call("GET", _grants_path(name)), "grants")
    return {get_str(grant, "subject"): get_str(grant, "access") for grant in grants}


async def _grant_all(api: Api, name: str, grants: Mapping[str, str]) -> JsonObject:
    listed = [{"subject": subject, "access": access} for subject, access in grants.items()]
    return await api.call("PUT", _grants_path(name), body={"grants": listed})


def _grants_path(name: str) -> str:
    return f"/v1/collections/{quote(name, safe='')}/grants"


def _show_grants(grants: JsonObject, *, json: bool) -> None:
    if json:
        output.print_json(grants)
        return
    rows = [(get_str(grant, "subject"), get_str(grant, "access")) for grant in get_objects(grants, "grants")]
    output.print_table(("subject", "access"), rows)


def _show(collection: JsonObject, *, json: bool) -> None:
    if json:
        output.print_json(collection)
    else:
        _print([collection])


def _print(collections: list[JsonObject]) -> None:
    rows = [
        (get_str(each, "name"), str(get_int(each, "documents") or 0), "yes" if each.get("enrich") is True else "no")
        for each in collections
    ]
    output.print_table(("name", "documents", "enriched"), rows)
