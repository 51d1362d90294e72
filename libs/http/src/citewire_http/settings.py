"""Settings of a process that serves HTTP."""

import ipaddress
import re
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from citewire_kit.settings import ProcessSettings, settings_config

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::\d{1,5})?")


class HttpSettings(ProcessSettings):
    """Mixed into the settings of processes that serve HTTP."""

    model_config = settings_config("CITEWIRE_")

    max_header_bytes: int = Field(default=32 * 1024, ge=1024)
    """Largest head of a request, in bytes: its address and all headers. Larger ones are a 431."""

    max_headers: int = Field(default=100, ge=16)
    """Most headers of a request; more are a 431."""

    max_url_bytes: int = Field(default=16 * 1024, ge=256)
    """Longest address of a request, its query included; a longer one is a 414."""

    header_seconds: float = Field(default=10.0, gt=0)
    """Longest time for a request's head to arrive, from the connection or the head's first byte."""

    keep_alive_seconds: int = Field(default=75, ge=1, le=3600)
    """How long a connection may be idle between two requests: longer than clients and balancers keep theirs (httpx 5 s,
    nginx and AWS 60 s, Google 600 s), as a request that is sent just when it is closed fails. Idle ones give way to
    new ones."""

    body_idle_seconds: float = Field(default=20.0, gt=0)
    """Longest pause in a request's body, while the gateway reads it."""

    body_seconds: float = Field(default=30.0, gt=0)
    """Time that each body has to arrive, beyond what `body_bytes_per_second` gives it; a slower one is a 408."""

    body_bytes_per_second: int = Field(default=1024, ge=1)
    """Slowest rate of a body that takes longer than `body_seconds`, of whatever kind: it protects the connection. An
    application may ask more of some, such as uploads that hold one of few places."""

    max_connections: int = Field(default=2000, ge=16)
    """Most connections. Above it, one without a request makes room; without any, only probes are answered."""

    max_connections_per_address: int = Field(default=500, ge=1)
    """Most connections from one address (IPv6: one /64), or requests at once of one client of a trusted proxy."""

    trusted_proxies: str = ""
    """Addresses and networks of proxies, divided by commas. Their connections aren't limited by address, and their
    `X-Forwarded-For` names the client."""

    cors_origins: str = ""
    """Origins whose pages may call the API from a browser, divided by commas: `https://app.example.org`. `*` is every
    origin; empty is none but the server's own."""

    cors_credentials: bool = False
    """Whether those pages may send cookies, for a proxy that authenticates by them. API keys need no cookies."""

    cors_seconds: int = Field(default=600, ge=0, le=86_400)
    """How long a browser may keep the answer to a preflight request."""

    @model_validator(mode="after")
    def _origins_are_origins(self) -> Self:
        origins = self.allowed_origins()
        if "*" in origins and (len(origins) > 1 or self.cors_credentials):
            raise ValueError(
                f"{self.env_name('cors_origins')}: `*` stands alone, and without {self.env_name('cors_credentials')}: "
                "any page could act with a visitor's cookies"
            )
        wrong = [origin for origin in origins if origin != "*" and not ORIGIN.fullmatch(origin)]
        if wrong:
            raise ValueError(
                f"{self.env_name('cors_origins')}: {wrong[0]!r} is no origin: it must be a scheme, a host and a port "
                "where that isn't the scheme's own, in lower case and without a path, such as https://app.example.org"
            )
        return self

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        _networks_in(value)
        return value

    def trusted_networks(self) -> tuple[Network, ...]:
        """Returns the networks of the trusted proxies."""
        return _networks_in(self.trusted_proxies)

    def allowed_origins(self) -> tuple[str, ...]:
        """Returns the origins whose pages may call the API."""
        return tuple(origin.strip() for origin in self.cors_origins.split(",") if origin.strip())


def _networks_in(value: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part.strip()) for part in value.split(",") if part.strip())
