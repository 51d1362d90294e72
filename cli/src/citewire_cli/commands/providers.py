"""`citewire providers`: the model providers that an organisation or a user brought."""

from typing import Annotated, Literal
from urllib.parse import quote

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject, get_object, get_objects, get_str
from citewire_cli.settings import load_client_settings

providers_app = typer.Typer(
    help="List, save, activate and delete your model providers, or as owner or admin your organisation's. "
    "Several may be saved for a type; one of them is active.",
    no_args_is_help=True,
)

TypeArgument = Annotated[Literal["chat", "embedding", "rerank"], typer.Argument(help="The type of provider.")]
NameArgument = Annotated[str, typer.Argument(help="The saved name.", show_default=False)]
OrgOption = Annotated[bool, typer.Option("--org", help="The organisation's providers instead of your own.")]


@providers_app.command("list")
@output.async_command
async def list_providers(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List saved providers, without keys and addresses."""
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/providers")
    if json:
        output.print_json(listing)
    elif providers := get_objects(listing, "providers"):
        _print(providers)
    else:
        output.stdout().print("You have none: the server's are used.")
    return ExitCode.OK


@providers_app.command("save")
@output.async_command
async def save_provider(
    type_: TypeArgument,
    name: NameArgument,
    provider: Annotated[str, typer.Argument(help="openai, anthropic, ollama, openai-compatible…", show_default=False)],
    model: Annotated[str | None, typer.Option("--model", help="The model.", show_default=False)] = None,
    api_base: Annotated[str | None, typer.Option("--api-base", help="The base URL.", show_default=False)] = None,
    api_key_file: Annotated[
        typer.FileText | None,
        typer.Option("--api-key-file", help="A file with the API key; - reads standard input.", show_default=False),
    ] = None,
    activate: Annotated[bool, typer.Option("--activate", help="Also activate it.")] = False,
    org: OrgOption = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Test a provider and save it under a name, replacing any provider with that name."""
    body: JsonObject = {"provider": provider}
    body |= {"model": model} if model else {}
    body |= {"api_base": api_base} if api_base else {}
    if api_key_file is not None:
        body["api_key"] = api_key_file.read().strip()
    params = _params(org=org) | {"activate": "true" if activate else "false"}
    async with Api(load_client_settings(url=url)) as api:
        saved = await api.call("PUT", _path(type_, name), body=body, params=params)
    _show(saved, json=json)
    return ExitCode.OK


@providers_app.command("activate")
@output.async_command
async def activate_provider(
    type_: TypeArgument, name: NameArgument, org: OrgOption = False, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """Activate a saved provider, effective from the next request. Exits with 5 if there is none of that name."""
    async with Api(load_client_settings(url=url)) as api:
        active = await api.call("POST", f"{_path(type_, name)}:activate", params=_params(org=org))
    _show(active, json=json)
    return ExitCode.OK


@providers_app.command("test")
@output.async_command
async def try_provider(
    type_: TypeArgument, name: NameArgument, org: OrgOption = False, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """Test a saved provider with a small call. Exits with 1 if it fails, with 5 if there is none of that name."""
    async with Api(load_client_settings(url=url)) as api:
        tested = await api.call("POST", f"{_path(type_, name)}:test", params=_params(org=org))
    _show(tested, json=json)
    test = get_object(tested, "test")
    if not json:
        output.stdout().print(get_str(test, "text"))
    return ExitCode.OK if test.get("ok") else ExitCode.FAILED


@providers_app.command("deactivate")
@output.async_command
async def deactivate_provider(
    type_: TypeArgument, org: OrgOption = False, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """Return to the organisation's or the server's provider; the active one stays saved. Exits with 5 if none is."""
    async with Api(load_client_settings(url=url)) as api:
        saved = await api.call("POST", f"/v1/providers/{type_}:deactivate", params=_params(org=org))
    _show(saved, json=json)
    return ExitCode.OK


@providers_app.command("delete")
@output.async_command
async def delete_provider(
    type_: TypeArgument, name: NameArgument, org: OrgOption = False, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """Delete a provider with its key; no other becomes active. Exits with 5 if there is none of that name."""
    async with Api(load_client_settings(url=url)) as api:
        await api.call("DELETE", _path(type_, name), params=_params(org=org))
    if json:
        output.print_json({"deleted": {"type": type_, "name": name, **_params(org=org)}})
    else:
        output.stdout().print("Deleted.")
    return ExitCode.OK


def _path(type_: str, name: str) -> str:
    return f"/v1/providers/{type_}/{quote(name, safe='')}"


def _params(*, org: bool) -> dict[str, str | int]:
    return {"scope": "org" if org else "user"}


def _show(provider: JsonObject, *, json: bool) -> None:
    if json:
        output.print_json(provider)
    else:
        _print([provider])


def _print(providers: list[JsonObject]) -> None:
    rows = [
        (
            get_str(provider, "type"),
            get_str(provider, "scope"),
            get_str(provider, "name"),
            "active" if provider.get("active") else "-",
            get_str(provider, "provider"),
            get_str(provider, "model"),
        )
        for provider in providers
    ]
    output.print_table(("type", "whose", "name", "", "provider", "model"), rows)
