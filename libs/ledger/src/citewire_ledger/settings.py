"""Settings shared by the processes that call providers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings

from citewire_kit.settings import settings_config
from citewire_kit.telemetry import get_logger
from citewire_ledger.ledger import Ledger, NoLedger
from citewire_ledger.postgres import LEASE_SECONDS, open_ledger

log = get_logger(__name__)


class LedgerSettings(BaseSettings):
    """Mixed into a process's settings."""

    model_config = settings_config("CITEWIRE_")

    ledger_dsn: SecretStr | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_LEDGER_DSN"))
    """Connection string of the role `citewire_ledger`. With it, a provider is called only if the call can be recorded.
    Unset, calls are counted in the metrics only, and no budget applies."""

    ledger_lease_seconds: float = Field(
        default=LEASE_SECONDS, ge=3, le=40, validation_alias=AliasChoices("CITEWIRE_LEDGER_LEASE_SECONDS")
    )
    """Seconds without a heartbeat after which a call counts as lost. In that time a process sends three heartbeats and
    looks for lost calls three times. At most 40, so that all are settled in a minute."""

    @asynccontextmanager
    async def ledger(self, process: str, *, calls_providers: bool) -> AsyncGenerator[Ledger]:
        """Opens the ledger that the settings name; logs a warning if providers are called without one.

        Raises:
            StartupError: The connection string is malformed.
        """
        if self.ledger_dsn is None:
            if calls_providers:
                log.warning("calls_unrecorded", advice="set CITEWIRE_LEDGER_DSN to record calls and enforce budgets")
            yield NoLedger()
            return
        dsn = self.ledger_dsn.get_secret_value()
        async with open_ledger(dsn, process=process, lease_seconds=self.ledger_lease_seconds) as ledger:
            yield ledger
