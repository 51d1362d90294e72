"""Limits by plan for those that call a service without the gateway: requests, running streams and tokens.

Calls of the gateway, which has counted them, and of the ingest worker, whose work is bounded where it is uploaded, come
with a certificate that names them, and aren't counted again.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import grpc
from pydantic import model_validator

from citewire_kit import metrics
from citewire_kit.callers.token import names_of
from citewire_kit.interceptors import Call
from citewire_kit.limit_store import LimitStoreSettings, open_limit_store
from citewire_kit.limiter import Limiter
from citewire_kit.plan_limits import Measure
from citewire_kit.settings import ServiceSettings, settings_config
from citewire_kit.spending import note_spending
from citewire_kit.tenant import current_tenant

_EVERYONE: Final = "*"
_LONGEST_SECONDS: Final = 300.0
"""How long a stream without a deadline is counted in a shared store."""


class CallerLimitSettings(ServiceSettings, LimitStoreSettings):
    """Settings of a service that may be called without the gateway."""

    model_config = settings_config("CITEWIRE_")

    unlimited_callers: str = _EVERYONE
    """Names (SAN) of the certificates whose calls aren't limited here, separated by commas: the gateway, which limits
    its own callers, and the ingest worker. `*`: no calls are limited, if only these call. Other names need TLS."""

    @model_validator(mode="after")
    def _names_need_certificates(self) -> "CallerLimitSettings":
        if not self.unlimited_names() - {_EVERYONE}:
            return self
        if self.tls() is None:
            raise ValueError(f"{self.env_name('unlimited_callers')} names certificates, but TLS is off")
        return self

    def unlimited_names(self) -> frozenset[str]:
        """Returns the names of certificates."""
        return frozenset(name.strip() for name in self.unlimited_callers.split(",") if name.strip())


class CallerLimits:
    """Counts the calls of a server.

    Args:
        limiter: Does the counting.
        unlimited: Names of certificates whose calls aren't counted.
        spends: Whether calls of this server spend tokens, so that they are rejected while the caller has none left.
    """

    def __init__(self, limiter: Limiter, unlimited: frozenset[str], *, spends: bool) -> None:
        self._limiter = limiter
        self._unlimited = unlimited
        self._spends = spends

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncGenerator[None]:
        """Counts a call of the current tenant during the block.

        Raises:
            ResourceExhausted: It has no request, stream or token left (`RATE_LIMITED`).
        """
        if self._unlimited and not self._unlimited.isdisjoint(_names(call.context)):
            yield
            return
        limits = self._limiter.call(
            current_tenant(),
            streams=call.shape in ("server_stream", "bidi_stream"),
            spends=self._spends,
            seconds=call.seconds or _LONGEST_SECONDS,
        )
        async with limits as spending:
            with note_spending(spending):
                yield


def open_caller_limits(stack: AsyncExitStack, settings: CallerLimitSettings, *, spends: bool) -> CallerLimits | None:
    """Returns the limits of a server's callers; None if nobody is limited."""
    unlimited = settings.unlimited_names()
    if settings.auth == "off" or _EVERYONE in unlimited:
        return None
    metrics.init_limits(Measure.REQUESTS, Measure.STREAMS, *((Measure.TOKENS,) if spends else ()))
    limiter = Limiter(open_limit_store(stack, settings), settings.limits_by_plan())
    return CallerLimits(limiter, unlimited, spends=spends)


def _names(context: "grpc.aio.ServicerContext[Any, Any]") -> frozenset[str]:
    return names_of(tuple(context.auth_context().get("x509_subject_alternative_name", ())))
