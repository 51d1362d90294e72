"""Settings that the processes which call providers share, and those of the migrations."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings

from citewire_kit import migrate_command
from citewire_kit.settings import settings_config
from citewire_kit.telemetry import get_logger
from citewire_ledger.ledger import Ledger
from citewire_ledger.memory import NoLedger
from citewire_ledger.postgres import LEASE_SECONDS, open_ledger

log = get_logger(__name__)


class LedgerSettings(BaseSettings):
    """Mixed into a process's settings."""

    model_config = settings_config("CITEWIRE_")

    ledger_dsn: SecretStr | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_LEDGER_DSN"))
    """Connection string of the role `citewire_ledger`. With it, no provider is called whose call can't be written down.
    Unset, calls are counted in the metrics only, and budgets bind nobody."""

    ledger_lease_seconds: float = Field(
        default=LEASE_SECONDS, ge=3, le=40, validation_alias=AliasChoices("CITEWIRE_LEDGER_LEASE_SECONDS")
    )
    """After which a call counts as lost that its process hasn't prolonged; it does so, and looks for lost ones, three
    times in that. At most 40, so that all are settled in a minute."""

    @asynccontextmanager
    async def ledger(self, process: str, *, calls_providers: bool) -> AsyncGenerator[Ledger]:
        """Opens the ledger that the settings name, and says so if there is none although providers are called.

        Raises:
            StartupError: The connection string is malformed.
        """
        if self.ledger_dsn is None:
            if calls_providers:
                log.warning("calls_unrecorded", advice="with CITEWIRE_LEDGER_DSN, accounts are kept and budgets bind")
            yield NoLedger()
            return
        dsn = self.ledger_dsn.get_secret_value()
        async with open_ledger(dsn, process=process, lease_seconds=self.ledger_lease_seconds) as ledger:
            yield ledger


class MigrateSettings(migrate_command.MigrateSettings):
    """What `migrate` can be told."""

    model_config = settings_config("CITEWIRE_LEDGER_")
