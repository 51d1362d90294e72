"""Serves the protocol over standard input and output, or over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl, TypeAdapter, ValidationError

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.settings import ClientSettings
from citewire_client.connection import trust
from citewire_mcp.server import CitewireServer, Gateway


async def serve_stdio(settings: ClientSettings) -> None:
    """Serves the process's standard input and output, with the rights of its API key, until the input ends."""
    async with _http_client(settings) as pool:
        await CitewireServer(Gateway(settings.url, pool, settings.api_key or "")).run_stdio_async()


async def serve_http(
    settings: ClientSettings, *, host: str, port: int, public_url: str | None, issuer: str | None
) -> None:
    """Serves streamable HTTP at /mcp until a signal ends the process.

    Args:
        settings: The connection to the gateway.
        host: The address to listen on.
        port: The port.
        public_url: This server's address for clients; None: the address that it listens on.
        issuer: The issuer of clients' tokens; None: not announced.

    Raises:
        CliError: An address is invalid.
    """
    auth = _auth(public_url, issuer)
    async with _http_client(settings) as pool:
        server = CitewireServer(Gateway(settings.url, pool, None), auth=auth)
        app = server.streamable_http_app(
            stateless_http=True, host=host, transport_security=_transport_security(public_url, host)
        )
        await uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning")).serve()


def _auth(public_url: str | None, issuer: str | None) -> AuthSettings | None:
    """Raises CliError if an address is invalid."""
    if issuer is None:
        return None
    if public_url is None:
        raise CliError("--issuer requires --public-url", "Clients ask for tokens for that address.", ExitCode.USAGE)
    _address("--issuer", issuer)
    _address("--public-url", public_url)
    # Built from texts, as clients compare issuers character by character. The gateway checks a token's audience.
    return AuthSettings.model_validate(
        {"issuer_url": issuer, "resource_server_url": public_url, "validate_token_resource": False}
    )


def _address(option: str, value: str) -> AnyHttpUrl:
    try:
        return TypeAdapter(AnyHttpUrl).validate_python(value)
    except ValidationError:
        raise CliError(
            f"{option} isn't an address", f"{value!r} should look like https://acme.com.", ExitCode.USAGE
        ) from None


def _transport_security(public_url: str | None, host: str) -> TransportSecuritySettings | None:
    """The Host headers to accept, so that no web page can reach this server under a host name of its own."""
    if public_url is None:
        return None  # the SDK protects loopback itself
    name = _address("--public-url", public_url)
    port = "" if name.port in {None, 80, 443} else f":{name.port}"
    return TransportSecuritySettings(
        allowed_hosts=[f"{name.host}{port}", f"{host}:*"], allowed_origins=[f"{name.scheme}://{name.host}{port}"]
    )


@asynccontextmanager
async def _http_client(settings: ClientSettings) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=not settings.loopback, verify=trust(settings.url)) as client:
        yield client
