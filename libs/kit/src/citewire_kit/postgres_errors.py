"""The errors of the Postgres driver, as ours."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg

from citewire_kit.errors import DeadlineExceeded, Unavailable
from citewire_kit.nodes import ShardsChanged, is_lost_node, met_change
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

RETRY_SECONDS: Final = 1.0


@contextmanager
def translated() -> Generator[None]:
    """Translates the driver's errors into ours; their texts only go to the log."""
    try:
        yield
    except psycopg.errors.QueryCanceled as exc:
        log.warning("statement_timed_out", error=str(exc))
        raise DeadlineExceeded("the database took longer than allowed", reason="DEADLINE_EXCEEDED") from exc
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as exc:
        log.warning("transaction_lost", error=str(exc))
        raise _unavailable("another transaction got in the way", exc) from exc
    except psycopg.errors.ReadOnlySqlTransaction as exc:
        log.warning("database_read_only", error=str(exc))
        raise _unavailable("the database is read-only, because another one is taking over", exc) from exc
    except (psycopg.OperationalError, psycopg.InternalError) as exc:
        if isinstance(exc, psycopg.InternalError) and not is_lost_node(exc):
            raise
        log.warning("database_unavailable", error=str(exc), error_type=type(exc).__name__)
        raise _unavailable("the database can't be reached", exc) from exc


def _unavailable(message: str, error: psycopg.Error) -> Unavailable:
    kind = ShardsChanged if met_change(error) else Unavailable
    return kind(message, reason="DATABASE_UNAVAILABLE", retry_after=RETRY_SECONDS)
