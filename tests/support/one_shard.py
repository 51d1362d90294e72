"""A database of a cluster in which a statement of the services that asks more than one shard fails."""

from __future__ import annotations

from dataclasses import dataclass

from databases import Database

ONE_SHARD = "&options=-c%20citus.multi_task_query_log_level%3Derror"
"""In a connection string: a statement that asks more than one shard fails."""


@dataclass(frozen=True, slots=True)
class OneShard:
    """Such a database, by its connection strings."""

    database: Database

    def dsn(self, role: str) -> str:
        """Connection string of a role; the owner may ask all."""
        return self.database.dsn(role) + ("" if role == "postgres" else ONE_SHARD)
