"""The command `migrate` of every process that owns a schema."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings

from citewire_kit import telemetry
from citewire_kit.errors import StartupError
from citewire_kit.migrate import Phase, migrate
from citewire_kit.settings import load_settings

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # it has no public name

_PHASES: dict[str, Phase] = {"pre": "pre", "post": "post", "all": "all"}


class MigrateSettings(BaseSettings):
    """What `migrate` can be told; an owner's subclass says under which prefix."""

    migrate_dsn: SecretStr
    """Connection string of the role that owns the schema and may make roles."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", validation_alias=AliasChoices("CITEWIRE_LOG_LEVEL")
    )
    """Least level that is logged."""

    log_format: Literal["json", "console"] = Field(default="json", validation_alias=AliasChoices("CITEWIRE_LOG_FORMAT"))
    """`json` for machines, `console` for people."""


def add_migrate(commands: "Commands", schema: str) -> None:
    """Adds the command to a parser's; its phase is then in `phase`."""
    migrating = commands.add_parser("migrate", help=f"bring the schema `{schema}` up to date, as its owner")
    migrating.add_argument("--phase", choices=sorted(_PHASES), default="all", help="before or after a rollout")


def run_migrate(phase: str, settings: type[MigrateSettings], *, schema: str, package: str) -> None:
    """Applies what `schema` lacks of the migrations of `package`.

    Raises:
        SystemExit: It can't be done; the log says why.
    """
    given = load_settings(settings)
    telemetry.configure_logging(f"{schema}-migrate", level=given.log_level, log_format=given.log_format)
    dsn = given.migrate_dsn.get_secret_value()
    try:
        asyncio.run(migrate(dsn, schema=schema, package=package, phase=_PHASES[phase]))
    except StartupError as exc:
        telemetry.get_logger(__name__).error("cannot_migrate", error=str(exc))
        raise SystemExit(1) from None
