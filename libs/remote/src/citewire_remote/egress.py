"""Connections of aiohttp on behalf of tenants, by the rules of `citewire_egress`.

Redirects are left to the caller: calls must pass `allow_redirects=False`.
"""

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from citewire_egress.addresses import EgressPolicy
from citewire_egress.connections import permitted_addresses, refused

AddressInfo = tuple[int, int, int, str, tuple[str | int, ...]]


def guarded_connector(policy: EgressPolicy, *, limit: int = 0) -> aiohttp.TCPConnector:
    """Returns a connector for aiohttp that refuses addresses which the policy doesn't allow.

    A refused connection raises `InvalidArgument` (reason `PROVIDER_ADDRESS`), which handlers of network errors don't
    catch.
    """
    resolver = _GuardedResolver(policy)

    def make_socket(info: AddressInfo) -> socket.socket:
        family, kind, proto, _, address = info
        resolver.check(str(address[0]), int(address[1]))
        return socket.socket(family, kind, proto)

    return aiohttp.TCPConnector(
        limit=limit,
        resolver=resolver,
        ttl_dns_cache=10,
        happy_eyeballs_delay=None,  # addresses one by one, so that a refusal is raised in the caller's task
        socket_factory=make_socket,
    )


class _GuardedResolver(AbstractResolver):
    """Resolves names to allowed addresses, and remembers the addresses of names that the operator allows."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy
        self._granted: set[tuple[str, int]] = set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        permitted = await permitted_addresses(self._policy, host, port)
        if self._policy.allows_host(host, port):
            self._granted = {(name, other) for name, other in self._granted if other != port} | {
                (address, port) for address in permitted
            }
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in permitted
        ]

    async def close(self) -> None:
        self._granted.clear()

    def check(self, address: str, port: int) -> None:
        """Checks the address of a connection right before it is made; a literal address was never resolved."""
        if (address, port) in self._granted or self._policy.allows_host(address, port):
            return
        if not self._policy.allows_address(address, port):
            raise refused(address, port, [address])
