"""Addresses that a server may connect to on a tenant's behalf."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv4: everything that isn't an ordinary address of the public internet. Python's own `is_global` changed between
# versions, so we have our own list.
_REFUSED_V4: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's platform address
        "169.254.0.0/16",  # link-local, and the clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, and a cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
# IPv6: exceptions within global unicast, which lead somewhere else. Everything outside of 2000::/3 is rejected:
# loopback, unique-local, link-local, multicast, IPv4-mapped and -compatible, NAT64.
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
    )
)
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


class EgressPolicy:
    """Allows public addresses, and those that the operator adds.

    Args:
        hosts: Names, each with its port or None for all ports. Whatever they resolve to is allowed.
        networks: Addresses and ranges, likewise.
    """

    def __init__(
        self, hosts: Iterable[tuple[str, int | None]] = (), networks: Iterable[tuple[Network, int | None]] = ()
    ) -> None:
        self._hosts = frozenset((_plain(host), port) for host, port in hosts)
        self._networks = tuple(networks)

    @classmethod
    def parse(cls, text: str) -> "EgressPolicy":
        """Reads the operator's allow-list: hosts, `host:port`, addresses, `[address]:port` and CIDR ranges.

        Raises:
            ValueError: An entry is none of these.
        """
        hosts: list[tuple[str, int | None]] = []
        networks: list[tuple[Network, int | None]] = []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, port = _split_port(entry)
            network = _network(name)
            if network is not None:
                networks.append((network, port))
            elif _HOST.fullmatch(name.rstrip(".")):
                hosts.append((name, port))
            else:
                raise ValueError(f"{entry!r} is neither a host, host:port, an address nor a CIDR range")
        return cls(hosts, networks)

    def allows_host(self, host: str, port: int) -> bool:
        """Whether the operator allows a name, whatever it resolves to."""
        name = _plain(host)
        return (name, port) in self._hosts or (name, None) in self._hosts

    def allows_address(self, address: str, port: int) -> bool:
        """Whether connections to an address are allowed."""
        try:
            ip = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        # An IPv6 address may be a spelling of an IPv4 address.
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return is_public(ip) or any(
            allowed in (None, port) and (ip in network or (mapped is not None and mapped in network))
            for network, allowed in self._networks
        )

    def pick(self, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        """Returns the allowed ones of a host's addresses."""
        if self.allows_host(host, port):
            return list(addresses)
        return [address for address in addresses if self.allows_address(address, port)]


def is_address(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(ip: Address) -> bool:
    """Whether an address is an ordinary one of the public internet."""
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _REFUSED_V4)
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _split_port(entry: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", entry)
    if bracketed is None:
        bracketed = re.fullmatch(r"([^:]+)(?::(\d{1,5}))?", entry)
    if bracketed is None:
        return entry, None  # an IPv6 address or range without brackets
    port = None if bracketed[2] is None else int(bracketed[2])
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"{entry!r} has no valid port")
    return bracketed[1], port


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
