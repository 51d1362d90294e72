"""`citewire spaces`: the embedding spaces of the library, and the change from one to another."""

from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_objects, get_str
from citewire_cli.settings import load_client_settings

spaces_app = typer.Typer(
    help="List, prepare and switch the library's embedding spaces. To change the model: prepare its "
    "space, wait until no document is missing, switch.",
    no_args_is_help=True,
)

ModelArgument = Annotated[str, typer.Argument(help="The space's model.", show_default=False)]
RevisionOption = Annotated[
    str | None, typer.Option("--revision", help="Its revision, if there are several.", show_default=False)
]
DimensionsOption = Annotated[
    int | None, typer.Option("--dimensions", min=1, help="Its dimensions, if there are several.", show_default=False)
]


@spaces_app.command("list")
@output.async_command
async def list_spaces(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List spaces with their progress."""
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/spaces")
    if json:
        output.print_json(listing)
    elif spaces := get_objects(listing, "spaces"):
        _print(spaces)
    else:
        output.stdout().print("There are no spaces yet: the first document creates one.")
    return ExitCode.OK


@spaces_app.command("prepare")
@output.async_command
async def prepare_space(
    model: ModelArgument,
    revision: RevisionOption = None,
    dimensions: DimensionsOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Embed the library in another space, in the background. Searches stay in the live one."""
    space = await _post("/v1/spaces:prepare", {"space": _choice(model, revision, dimensions)}, url)
    if json:
        output.print_json(space)
    elif get_str(space, "role") == "live":
        output.stdout().print(f"{get_str(space, 'model')} is already live: nothing else is being prepared now.")
    else:
        _print([space])
        output.stdout().print("Searches stay in the live space. `citewire spaces list` shows how many are missing.")
    return ExitCode.OK


@spaces_app.command("switch")
@output.async_command
async def switch_space(
    model: ModelArgument,
    revision: RevisionOption = None,
    dimensions: DimensionsOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Switch even if documents are missing; searches don't find them until then.")
    ] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Make a space the live one. Fails (exit code 1) while documents are missing in it."""
    body: JsonObject = {"space": _choice(model, revision, dimensions), "force": force}
    space = await _post("/v1/spaces:switch", body, url)
    if json:
        output.print_json(space)
    else:
        _print([space])
    return ExitCode.OK


async def _post(path: str, body: JsonObject, url: str | None) -> JsonObject:
    async with Api(load_client_settings(url=url)) as api:
        return await api.call("POST", path, body=body)


def _choice(model: str, revision: str | None, dimensions: int | None) -> JsonObject:
    parts: JsonObject = {"model": model, "revision": revision, "dimensions": dimensions}
    return {name: value for name, value in parts.items() if value is not None}


def _print(spaces: list[JsonObject]) -> None:
    figures = ("dimensions", "items", "with_vectors", "missing", "given_up")
    rows = [
        (
            get_str(space, "role"),
            get_str(space, "model"),
            get_str(space, "revision"),
            *(str(get_int(space, name) or 0) for name in figures),
        )
        for space in spaces
    ]
    names = ("role", "model", "revision", "dimensions", "documents", "with vectors", "missing", "given up")
    output.print_table(names, rows)
