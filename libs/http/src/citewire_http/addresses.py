"""Addresses of clients: which proxies may name them, and what counts as one address."""

import ipaddress

from citewire_http.settings import Network


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` is believed.

    Args:
        networks: Their networks.
    """

    def __init__(self, networks: tuple[Network, ...]) -> None:
        self._networks = networks

    def __contains__(self, address: str) -> bool:
        """Whether an address is a trusted proxy's."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        plain = (ip.ipv4_mapped if ip.version == 6 else None) or ip
        return any(plain in network for network in self._networks)

    def forwarded_for(self, header: bytes) -> str:
        """Returns the client named by proxies: the last address that isn't a proxy itself; "" for none."""
        for part in reversed(header.decode("latin-1").split(",")):
            address = part.strip().removeprefix("[").partition("]")[0]
            if address.count(":") == 1:
                address = address.partition(":")[0]
            if not _is_address(address):
                return ""
            if address not in self:
                return address
        return ""


def site_of(address: str) -> str:
    """Returns the unit counted as one address: for IPv6 the /64 network, which belongs to one client."""
    if ":" not in address:
        return address
    ip = ipaddress.IPv6Address(address.partition("%")[0])
    return str(ip.ipv4_mapped or ipaddress.IPv6Network((ip, 64), strict=False))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
