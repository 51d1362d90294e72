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
    """Maximum size of a request's head in bytes: its URL and all headers. Larger ones get a 431."""

    max_headers: int = Field(default=100, ge=16)
    """Maximum number of headers; more get a 431."""

    max_url_bytes: int = Field(default=16 * 1024, ge=256)
    """Maximum length of a URL, including its query; longer ones get a 414."""

    header_seconds: float = Field(default=10.0, gt=0)
    """Maximum time for a request's head to arrive, from the connection or the head's first byte."""

    keep_alive_seconds: int = Field(default=75, ge=1, le=3600)
    """How long a connection may be idle between requests: longer than clients and balancers keep theirs (httpx 5 s,
    nginx and AWS 60 s, Google 600 s), because a request sent just as the connection is closed fails. Idle connections
    make room for new ones."""

    body_idle_seconds: float = Field(default=20.0, gt=0)
    """Maximum pause in a request's body while the gateway reads it."""

    body_seconds: float = Field(default=30.0, gt=0)
    """Time for each body to arrive, in addition to that from `body_bytes_per_second`; slower ones get a 408."""

    body_bytes_per_second: int = Field(default=1024, ge=1)
    """Minimum rate of any body that takes longer than `body_seconds`, to protect the connection. An application may
    require more of some, such as uploads that hold one of few slots."""

    max_connections: int = Field(default=2000, ge=16)
    """Maximum connections. Above it, one without a request is closed; if all have one, only probes are served."""

    max_connections_per_address: int = Field(default=500, ge=1)
    """Maximum connections from one address (IPv6: one /64), or concurrent requests of one client of a trusted proxy."""

    trusted_proxies: str = ""
    """Addresses and networks of proxies, separated by commas. Their connections aren't limited by address, and their
    `X-Forwarded-For` names the client."""

    cors_origins: str = ""
    """Origins whose pages may call the API from a browser, separated by commas: `https://app.example.org`. `*` means
    every origin; empty means only the server's own."""

    cors_credentials: bool = False
    """Whether those pages may send cookies, for a proxy that authenticates with them. API keys need no cookies."""

    cors_seconds: int = Field(default=600, ge=0, le=86_400)
    """How long a browser may cache the response to a preflight request."""

    @model_validator(mode="after")
    def _origins_are_origins(self) -> Self:
        origins = self.allowed_origins()
        if "*" in origins and (len(origins) > 1 or self.cors_credentials):
            raise ValueError(
                f"{self.env_name('cors_origins')}: `*` must be alone, and without {self.env_name('cors_credentials')}: "
                "any page could act with a visitor's cookies"
            )
        wrong = [origin for origin in origins if origin != "*" and not ORIGIN.fullmatch(origin)]
        if wrong:
            raise ValueError(
                f"{self.env_name('cors_origins')}: {wrong[0]!r} isn't an origin: it must be a scheme, host and port "
                "(unless it is the default), in lower case and without a path, such as https://app.example.org"
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
