"""A cluster's database in which statements of the services fail if they involve more than one shard."""

from __future__ import annotations

from dataclasses import dataclass

from databases import Database

ONE_SHARD = "&options=-c%20citus.multi_task_query_log_level%3Derror"
"""Option in a connection string: statements that involve more than one shard fail."""


@dataclass(frozen=True, slots=True)
class OneShard:
    """Such a database, by its connection strings."""

    database: Database

    def dsn(self, role: str) -> str:
        """Connection string of a role; the owner may query all shards."""
        return self.database.dsn(role) + ("" if role == "postgres" else ONE_SHARD)
