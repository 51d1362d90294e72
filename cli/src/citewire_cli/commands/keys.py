"""`citewire keys`: API keys. They live in the gateway's database, so the gateway's own command does the work."""

from typing import Annotated, Literal

import typer

from citewire_cli.commands.options import JsonOption
from citewire_cli.gateway_command import run_gateway

keys_app = typer.Typer(
    help="Create, list, rotate and revoke API keys. Uses the gateway's database: "
    "CITEWIRE_GATEWAY_DSN, or that of the local stack at CITEWIRE_URL or on CITEWIRE_DATA_DIR.",
    no_args_is_help=True,
)


ExpiresOption = Annotated[
    str | None, typer.Option("--expires", help="When it stops working: 90d from now, or 2027-06-30.")
]


@keys_app.command("create")
def create(
    org: Annotated[
        str, typer.Option("--org", help="The organisation; created if it doesn't exist.", show_default=False)
    ],
    user: Annotated[str, typer.Option("--user", help="The user; created if it doesn't exist.", show_default=False)],
    plan: Annotated[
        Literal["free", "basic", "pro"] | None, typer.Option("--plan", help="The organisation's plan.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What the key is for.")] = None,
    scopes: Annotated[
        str | None, typer.Option("--scopes", help="What it may be used for: one or more of read,chat,write,admin.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", help="A group that it acts for; may be repeated. Default: its user's local groups."),
    ] = None,
    expires: ExpiresOption = None,
    json: JsonOption = False,
) -> None:
    """Create a key and print it; it is shown only once."""
    arguments = ["create", "--org", org, "--user", user]
    arguments += ["--plan", plan] if plan else []
    arguments += ["--name", name] if name else []
    arguments += ["--scopes", scopes] if scopes else []
    arguments += [argument for group in groups or () for argument in ("--group", group)]
    arguments += ["--expires", expires] if expires else []
    run_gateway("keys", *arguments, json=json)


@keys_app.command("list")
def list_keys(
    org: Annotated[str | None, typer.Option("--org", help="Only this organisation's.")] = None,
    json: JsonOption = False,
) -> None:
    """List keys, without the secrets."""
    run_gateway("keys", "list", *(["--org", org] if org else []), json=json)


@keys_app.command("rotate")
def rotate(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.", show_default=False)],
    overlap: Annotated[str, typer.Option("--overlap", help="How long the previous secret still works.")] = "24h",
    expires: ExpiresOption = None,
    json: JsonOption = False,
) -> None:
    """Replace a key's secret and print it once; id, scopes and budgets stay. Exits with 5 if there is no such key."""
    run_gateway("keys", "rotate", key_id, "--overlap", overlap, *(["--expires", expires] if expires else []), json=json)


@keys_app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Revoke a key; it stops working at once. Exits with 5 if there is none."""
    run_gateway("keys", "revoke", key_id, json=json)
