"""The database of docs/how-to/deploy.md: an administrator creates extension and roles, the owner is unprivileged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

if TYPE_CHECKING:
    from databases import Database

OWNER = "owner_without_powers"
APPLICATION = ("citewire_corpus", "citewire_worker", "citewire_chat", "citewire_ledger")
MIGRATIONS = {  # in the order of the Jobs in deploy/k8s/base/migrate.yaml
    "citewire_retriever": "CITEWIRE_RETRIEVER_MIGRATE_DSN",
    "citewire_gateway": "CITEWIRE_GATEWAY_MIGRATE_DSN",
    "citewire_ledger": "CITEWIRE_LEDGER_MIGRATE_DSN",
}


@pytest.fixture
def deployed_database(empty_database: Database) -> Iterator[Database]:
    """A database that the owner has migrated, both phases."""
    with psycopg.connect(empty_database.owner_dsn, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
        for role in (OWNER, *APPLICATION):
            if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                powerless = "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB NOBYPASSRLS"
                admin.execute(sql.SQL(powerless).format(sql.Identifier(role)))
        owned = sql.SQL("ALTER DATABASE {} OWNER TO {}")
        admin.execute(owned.format(sql.Identifier(empty_database.name), sql.Identifier(OWNER)))
    for phase in ("pre", "post"):
        for package, variable in MIGRATIONS.items():
            done = subprocess.run(
                [sys.executable, "-m", package, "migrate", "--phase", phase],
                env={**os.environ, variable: empty_database.dsn(OWNER)},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{package} {phase}: {done.stdout}{done.stderr}"
    yield empty_database
    with psycopg.connect(empty_database.owner_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO postgres").format(sql.Identifier(empty_database.name)))


def test_the_owner_needs_no_privileges_and_the_roles_work(deployed_database: Database) -> None:
    with psycopg.connect(deployed_database.dsn("citewire_worker")) as worker:
        space = worker.execute("SELECT corpus.ensure_space('model', 'revision', 3)").fetchone()
        assert space is not None
    with psycopg.connect(deployed_database.dsn("citewire_corpus")) as corpus:
        corpus.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        corpus.execute("INSERT INTO corpus.collections (org_id, name) VALUES ('acme', 'default')")
        corpus.commit()
        assert corpus.execute("SELECT count(*) FROM corpus.collections").fetchone() == (0,)  # no tenant is set
    for role in APPLICATION:
        with psycopg.connect(deployed_database.dsn(role), autocommit=True) as connection:
            for schema in ("corpus", "chat", "ledger", "public"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(sql.SQL("CREATE TABLE {}.mine (a int)").format(sql.Identifier(schema)))
    with psycopg.connect(deployed_database.owner_dsn) as admin:
        owners = admin.execute(
            "SELECT DISTINCT pg_get_userbyid(c.relowner) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname IN ('corpus', 'chat', 'ledger')"
        ).fetchall()
    assert owners == [(OWNER,)]
