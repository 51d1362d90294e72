"""Connections on behalf of tenants: each is checked by the address that it is made to, after DNS.

`guarded_client` follows no redirect. Proxies of the environment are never used, as a proxy would hide where a
connection ends.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, cast
from zlib import crc32

import httpcore2
import httpx2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream
from yarl import URL

from citewire_egress.addresses import EgressPolicy, is_address
from citewire_egress.bodies import MAX_BODY, BoundedTransport
from citewire_kit.errors import CitewireError, InvalidArgument
from citewire_kit.telemetry import get_logger
from citewire_kit.turns import in_waiting_turn

log = get_logger(__name__)

RESOLVE_SECONDS: Final = 5.0
_LINES: Final = 4
"""Concurrent DNS look-ups per organisation."""
_MAX_CAUSES: Final = 16


def guarded_transport(policy: EgressPolicy) -> httpx2.AsyncHTTPTransport:
    """Returns a transport for httpx2, and therefore for the SDKs, that rejects addresses the policy doesn't allow.

    A rejected connection raises `InvalidArgument` (reason `PROVIDER_ADDRESS`). An SDK wraps it in its own connection
    error, in which `refusal_in` finds it.
    """
    return _GuardedTransport(policy)


def guarded_client(
    policy: EgressPolicy | None, *, timeout: httpx2.Timeout, most_bytes: int = MAX_BODY
) -> httpx2.AsyncClient:
    """Returns an httpx2 client with limited bodies that follows no redirects and uses no proxy.

    Args:
        policy: Which addresses it may connect to; None for all.
        timeout: Time limits.
        most_bytes: Maximum size of a response, both as sent and as decoded.
    """
    if policy is None:
        transport: httpx2.AsyncBaseTransport = httpx2.AsyncHTTPTransport(verify=_tls(), trust_env=False)
    else:
        transport = guarded_transport(policy)
    return httpx2.AsyncClient(
        transport=BoundedTransport(transport, most_bytes), timeout=timeout, follow_redirects=False, trust_env=False
    )


def refusal_in(error: BaseException) -> CitewireError | None:
    """Finds the refusal of an address among the causes of an SDK's error."""
    at: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if at is None:
            return None
        if isinstance(at, CitewireError) and at.reason == "PROVIDER_ADDRESS":
            return at
        at = at.__cause__ or at.__context__
    return None


async def check_base(policy: EgressPolicy, api_base: str) -> None:
    """Rejects a base URL without any allowed address; a name that can't be resolved now passes.

    It prevents a tenant from saving a provider that can never work. The real protection is the check per connection.

    Raises:
        InvalidArgument: Connecting to it isn't allowed (reason `PROVIDER_ADDRESS`).
    """
    url = URL(api_base)
    host, port = url.host or "", url.port or 443
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await permitted_addresses(policy, host, port)
    except (OSError, TimeoutError) as exc:
        log.info("provider_host_unresolved", error=type(exc).__name__)


async def permitted_addresses(policy: EgressPolicy, host: str, port: int) -> list[str]:
    """Resolves a host, and returns its allowed addresses: at least one."""
    addresses = [host]
    if not is_address(host):
        infos = await _look_up(host, port)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    permitted = policy.pick(host, port, addresses)
    if not permitted:
        raise refused(host, port, addresses)
    return permitted


async def _look_up(host: str, port: int) -> Sequence[tuple[object, object, object, object, tuple[object, ...]]]:
    """Looks up a name's addresses; the tenant's name server may take any time to respond."""
    line = str(crc32(host.encode(errors="replace")) % _LINES)
    try:
        return await in_waiting_turn(line, socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    except UnicodeError as exc:  # a label that is empty or too long
        raise OSError("it isn't a valid host name") from exc


def refused(host: str, port: int, addresses: Sequence[str]) -> InvalidArgument:
    """Returns the error for a disallowed address (reason `PROVIDER_ADDRESS`), and logs it."""
    log.warning("egress_refused", host=host[:253], port=port, addresses=list(addresses)[:8])
    # The tenant must not learn what a name resolves to inside the operator's network.
    return InvalidArgument(
        "this server may not connect to the provider's address: private, loopback, link-local and metadata "
        "addresses are refused unless the operator allows them",
        reason="PROVIDER_ADDRESS",
    )


@cache
def _tls() -> ssl.SSLContext:
    """Shared by all, because reading the certificates blocks for 50 ms."""
    return httpx2.create_ssl_context(trust_env=False)


class _GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport over checked connections."""

    def __init__(self, policy: EgressPolicy) -> None:
        super().__init__(verify=_tls(), trust_env=False)
        # httpx2 has no parameter for the network layer below its pool.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_tls(),
            max_connections=None,
            max_keepalive_connections=20,
            keepalive_expiry=15.0,
            network_backend=_GuardedBackend(policy),
        )


class _GuardedBackend(AsyncNetworkBackend):
    """Resolves names itself, and connects only to addresses that it has checked."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy
        # The package defines it only if anyio is installed, which httpx2 requires.
        self._network = cast("AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await permitted_addresses(self._policy, host, port)
        except TimeoutError as exc:
            raise httpcore2.ConnectTimeout("the name wasn't resolved in time") from exc
        except OSError as exc:
            raise httpcore2.ConnectError("the name can't be resolved") from exc
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None
    ) -> AsyncNetworkStream:
        raise refused("unix socket", 0, [])

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
