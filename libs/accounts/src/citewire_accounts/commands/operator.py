"""Shared by the operator's commands: the gateway's database, exit codes, and printing."""

import argparse
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from citewire_accounts.settings import DatabaseSettings
from citewire_kit.errors import CitewireError, NotFound, StartupError
from citewire_kit.postgres import Pool, open_pool
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import configure_logging

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # it has no public name

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 5


async def run_on_database(name: str, act: Callable[[Pool, bool], Awaitable[int]]) -> int:
    """Runs a command on the gateway's database, and says on stderr why it failed.

    Args:
        name: Of its connection.
        act: The command, given the database and whether it is its schema's owner; returns the exit code.

    Returns:
        The exit code.

    Raises:
        StartupError: No database is set.
    """
    configure_logging("gateway", level="ERROR", log_format="console")
    settings = load_settings(DatabaseSettings)
    dsn = settings.migrate_dsn or settings.dsn
    if dsn is None:
        raise StartupError(
            f"set {DatabaseSettings.env_name('migrate_dsn')} or {DatabaseSettings.env_name('dsn')} to the database"
        )
    async with AsyncExitStack() as stack:
        pool = await open_pool(dsn, max_size=1, name=name)
        stack.push_async_callback(pool.close)
        try:
            return await act(pool, settings.migrate_dsn is not None)
        except CitewireError as exc:
            sys.stderr.write(f"{exc.message}\n")
            return EXIT_NOT_FOUND if isinstance(exc, NotFound) else EXIT_FAILED


def second_text(moment: datetime) -> str:
    """Returns a moment as RFC 3339, in UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def print_line(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
