"""`citewire mcp` and its options. Dependencies are imported only when it runs: every `citewire` loads this module."""

from typing import Annotated

import typer

from citewire_cli.commands.options import UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.output import async_command
from citewire_cli.settings import load_client_settings

_HTTP = typer.Option("--http", help="Serve HTTP (streamable, at /mcp) instead of standard input and output.")
_HOST = typer.Option("--host", help="With --http: the address to listen on.")
_PORT = typer.Option("--port", min=0, max=65535, help="With --http: the port.")
_PUBLIC_URL = typer.Option(
    "--public-url", help="With --http: this server's public URL, such as https://mcp.acme.com/mcp."
)
_ISSUER = typer.Option(
    "--issuer", help="With --http: the issuer of the clients' tokens (OpenID Connect); requires --public-url."
)


@async_command
async def mcp_command(
    url: UrlOption = None,
    http: Annotated[bool, _HTTP] = False,
    host: Annotated[str, _HOST] = "127.0.0.1",
    port: Annotated[int, _PORT] = 8090,
    public_url: Annotated[str | None, _PUBLIC_URL] = None,
    issuer: Annotated[str | None, _ISSUER] = None,
) -> ExitCode:
    """Serve the documents to models over the Model Context Protocol.

    Over standard input and output, calls have the rights of CITEWIRE_API_KEY. Over HTTP, each call has the rights of
    its bearer token, and CITEWIRE_API_KEY isn't used.
    """
    from citewire_mcp.serving import serve_http, serve_stdio

    settings = load_client_settings(url=url)
    if http:
        await serve_http(settings, host=host, port=port, public_url=public_url, issuer=issuer)
    else:
        await serve_stdio(settings)
    return ExitCode.OK
