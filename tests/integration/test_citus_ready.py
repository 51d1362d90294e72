"""Everything can be distributed by organisation: org_id leads every key, reference, policy and join.

Exceptions are listed here with their reasons. A table without org_id would be a reference table, copied to every node.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from citewire_kit.queries import load_queries

if TYPE_CHECKING:
    from databases import Database

REFERENCE_TABLES = {
    "corpus.spaces": "which embedding spaces there are; a few rows, the same for all",
    "corpus.schema_migrations": "what was applied to the schema",
    "chat.audit_blocks": "hashes of the audit trail, by process and second; they stay on one node with the events",
    "chat.operator_keys": "keys of who runs the installation; a few rows, of no organisation",
    "chat.schema_migrations": "what was applied to the schema",
    "ledger.schema_migrations": "what was applied to the schema",
}
UNIQUE_WITHOUT = {
    "chat.api_keys_hash": "a key is looked up before its organisation is known: a lookup table of hash and organisation"
    " would replace it",
    "chat.api_keys_previous_hash": "the same, for the text that a key had before",
    "chat.sessions_hash": "the same, for the cookie of a session",
    "chat.sessions_previous_hash": "the same, for the cookie that it had before",
}
POLICIES_WITHOUT = {
    # For functions that run as the owner, each for one purpose; no service connects as the owner.
    "chat.api_keys owner_touches_all": "notes a key's use",
    "chat.api_keys owner_reads_all": "finds a key by its hash",
    "chat.audit_blocks owner_appends_all": "adds a block to a process's chain",
    "chat.audit_blocks owner_reads_all": "checks the chains",
    "chat.audit_events owner_appends_all": "adds a block's events, of several organisations",
    "chat.audit_events owner_cuts_all": "removes events whose time is over; compares org_id itself",
    "chat.audit_events owner_reads_all": "checks the chains",
    "chat.audit_policies owner_reads_all": "how long each organisation's events are kept",
    "chat.erasure_checks owner_claims_all": "the sweeper takes organisations that are due",
    "chat.erasures owner_claims_all": "the sweeper takes erasures that are due",
    "chat.messages owner_erases_all": "erases what answers say of deleted documents; compares org_id itself",
    "chat.exchanges owner_closes_all": "the sweeper closes exchanges that a killed process left open",
    "chat.exchanges owner_reads_all": "the same",
    "chat.group_members owner_reads_all": "a key's groups",
    "chat.idempotency_keys owner_sweeps_all": "the sweeper forgets old keys",
    "chat.operator_keys owner_keeps_all": "operators' keys, which nobody else sees",
    "chat.orgs owner_reads_all": "organisations, for operators",
    "chat.plans owner_reads_all": "a key's plan",
    "chat.providers owner_reads_all": "counts providers by the key that sealed them",
    "chat.retention_policies owner_reads_all": "how long each organisation keeps conversations",
    "chat.run_events owner_sweeps_all": "the sweeper removes events whose time is over",
    "chat.saved_providers owner_reads_all": "counts providers by the key that sealed them",
    "chat.sessions owner_sees_all": "finds a session by its cookie's hash, and forgets those that are over",
    "chat.users owner_reads_all": "a key's user",
    "corpus.lexical owner_reads_all": "lexical search, which compares org_id itself",
    "ledger.budgets owner_reads_all": "the ledger's functions, which take the organisation",
    "ledger.budgets owner_charges_all": "the same",
    "ledger.calls owner_reads_all": "the same",
    "ledger.calls owner_settles_all": "the same",
    # For the worker's queries over all organisations: these tables would be on one node, or be queried on each.
    "corpus.backfill_checks worker_reads_all": "which organisation is due",
    "corpus.backfill_checks worker_takes_all": "takes it",
    "corpus.ingest_shares worker_reads_all": "whose turn it is",
    "corpus.ingest_shares worker_adds_all": "an organisation's first job, and the present",
    "corpus.ingest_shares worker_charges_all": "what was done for whom",
    "corpus.ingest_jobs worker_reads_all": "which job is next",
    "corpus.ingest_jobs worker_claims_all": "takes it",
}
QUERY_FILES = (
    ("citewire_retriever.store", "sql/collections.sql"),
    ("citewire_retriever.store", "sql/content.sql"),
    ("citewire_retriever.store", "sql/documents.sql"),
    ("citewire_retriever.store", "sql/jobs.sql"),
    ("citewire_retriever.store", "sql/lexical.sql"),
    ("citewire_retriever.store", "sql/recall.sql"),
    ("citewire_retriever.store", "sql/search.sql"),
    ("citewire_retriever.store", "sql/spaces.sql"),
    ("citewire_retriever.store", "sql/storage.sql"),
    ("citewire_retriever.store", "sql/topics.sql"),
    ("citewire_retriever.ingest", "queries.sql"),
    ("citewire_retriever.ingest.backfill", "queries.sql"),
    ("citewire_retriever.ingest.enrichment", "queries.sql"),
    ("citewire_gateway.chat", "chats.sql"),
    ("citewire_http", "idempotency.sql"),
    ("citewire_http.runs", "runs.sql"),
    ("citewire_accounts.tenants", "accounts.sql"),
    ("citewire_accounts.tenants", "audit.sql"),
    ("citewire_accounts.tenants", "erasures.sql"),
    ("citewire_accounts.tenants", "feedback.sql"),
    ("citewire_accounts.tenants", "groups.sql"),
    ("citewire_accounts.tenants", "identity.sql"),
    ("citewire_accounts.tenants", "limits.sql"),
    ("citewire_accounts.tenants", "members.sql"),
    ("citewire_accounts.tenants", "operators.sql"),
    ("citewire_accounts.people", "sessions.sql"),
    ("citewire_gateway.profiles", "profiles.sql"),
    ("citewire_accounts.tenants", "providers.sql"),
    ("citewire_accounts.tenants", "retention.sql"),
    ("citewire_ledger", "queries.sql"),
)
QUERIES_WITHOUT = {
    "citewire_accounts.tenants add_operator_key": "operators are of no organisation",
    "citewire_retriever.ingest release_all": "a worker that ends gives back all that it holds, whoever's it is",
    "citewire_retriever.ingest queue_state": "the gauge of what waits, for all",
}

_TABLE = r"(corpus\.\w+|chat\.\w+|ledger\.\w+|\{vectors\})"
_NO_ALIAS = "SET|WHERE|ON|USING|JOIN|LEFT|CROSS|INNER|ORDER|GROUP|LIMIT|VALUES|SELECT|FOR|UNION|RETURNING"
_READ = re.compile(
    rf"(?<!INSERT )\b(?:FROM|JOIN|UPDATE|USING)\s+{_TABLE}\b(?!\s*\()(?:\s+(?:AS\s+)?(?!(?:{_NO_ALIAS})\b)(\w+))?",
    re.IGNORECASE,
)
_READ_VECTORS = re.compile(rf"\b(?:FROM|JOIN)\s+(\{{vectors\}})\s+(?!(?:{_NO_ALIAS})\b)(\w+)")
_INSERTED = re.compile(rf"\bINSERT INTO\s+{_TABLE}(?:\s+AS\s+\w+)?\s*\(([^)]*)\)", re.IGNORECASE)


def ask(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT corpus.ensure_space('model', 'revision', 3)")
        ours = "n.nspname IN ('corpus', 'chat', 'ledger') AND NOT c.relispartition"
        return connection.execute(query.replace("{ours}", ours).encode()).fetchall()


def test_every_table_is_a_tenants_or_a_known_reference(database: Database) -> None:
    without = ask(
        database.owner_dsn,
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE {ours} AND c.relkind IN ('r', 'p') AND NOT EXISTS"
        " (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'org_id' AND a.attnotnull)",
    )
    assert {row[0] for row in without} == set(REFERENCE_TABLES)


def test_org_id_leads_every_unique_index(database: Database) -> None:
    """Primary keys and unique constraints are unique indexes too."""
    indexes = ask(
        database.owner_dsn,
        "SELECT n.nspname || '.' || c.relname, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid, 1, false)"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE {ours} AND i.indisunique",
    )
    assert len(indexes) > 30
    led_by_others = {row[1] for row in indexes if row[2] != "org_id" and row[0] not in REFERENCE_TABLES}
    assert led_by_others == set(UNIQUE_WITHOUT)


def test_org_id_leads_both_sides_of_every_reference(database: Database) -> None:
    references = ask(
        database.owner_dsn,
        "SELECT k.conrelid::regclass::text || ' ' || k.conname, k.confrelid::regclass::text, own.attname, other.attname"
        " FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_attribute own ON own.attrelid = k.conrelid AND own.attnum = k.conkey[1]"
        " JOIN pg_attribute other ON other.attrelid = k.confrelid AND other.attnum = k.confkey[1]"
        " WHERE {ours} AND k.contype = 'f'",
    )
    assert len(references) > 10
    assert [
        row for row in references if row[1] not in REFERENCE_TABLES and (row[2], row[3]) != ("org_id", "org_id")
    ] == []


def test_every_policy_compares_org_id(database: Database) -> None:
    policies = ask(
        database.owner_dsn,
        "SELECT p.schemaname || '.' || p.tablename, p.policyname,"
        " coalesce(p.qual, p.with_check) LIKE '%org_id = current_setting(''citewire.org_id''%'"
        " AND coalesce(p.with_check, p.qual) LIKE '%org_id = current_setting(''citewire.org_id''%'"
        " FROM pg_policies p JOIN pg_namespace n ON n.nspname = p.schemaname"
        " JOIN pg_class c ON c.relname = p.tablename AND c.relnamespace = n.oid"
        " WHERE {ours} AND p.permissive = 'PERMISSIVE'",  # restrictive ones only narrow these
    )
    without = {f"{table} {policy}" for table, policy, compares in policies if not compares}
    assert without == set(POLICIES_WITHOUT)
    # And every tenant's table has such a policy.
    tables = ask(
        database.owner_dsn,
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE {ours} AND c.relkind IN ('r', 'p')",
    )
    compared = {table for table, _, compares in policies if compares}
    assert {row[0] for row in tables} - set(REFERENCE_TABLES) == compared


def named_queries() -> dict[str, str]:
    return {
        f"{package} {name}": re.sub(r"--.*$", "", text, flags=re.MULTILINE)
        for package, file in QUERY_FILES
        for name, text in load_queries(package, file).items()
    }


def unbound_tables(text: str) -> set[str]:
    """Returns tenants' tables in a query without a comparison of their org_id, by their name in the query."""
    unbound = {table for table, columns in _INSERTED.findall(text) if "org_id" not in re.split(r"[\s,]+", columns)}
    for table, alias in (*_READ.findall(text), *_READ_VECTORS.findall(text)):
        # A table without an alias may use the bare column.
        bound = rf"\b{alias}\.org_id\b" if alias else r"(?<!\.)\borg_id\b"
        if table not in REFERENCE_TABLES and not re.search(bound, text):
            unbound.add(alias or table)
    return unbound


def test_every_query_binds_org_id_of_every_table() -> None:
    queries = named_queries()
    assert len(queries) > 100
    unbound = {name: tables for name, text in queries.items() if (tables := unbound_tables(text))}
    assert {name for name in unbound if name not in QUERIES_WITHOUT} == set(), unbound
    assert set(unbound) == set(QUERIES_WITHOUT)


def test_no_query_file_is_forgotten() -> None:
    packages = ("citewire_retriever", "citewire_gateway", "citewire_accounts", "citewire_http", "citewire_ledger")
    result: set[str] = set()
    for package in packages:
        root = resources.files(package)
        pending = [(package, root)]
        while pending:
            name, folder = pending.pop()
            for entry in folder.iterdir():
                if entry.is_dir() and entry.name not in ("migrations", "citus", "__pycache__"):
                    pending.append((f"{name}/{entry.name}", entry))
                elif entry.name.endswith(".sql"):
                    result.add(f"{name}/{entry.name}")
    assert result == {f"{package.replace('.', '/')}/{file}" for package, file in QUERY_FILES}


@pytest.mark.parametrize(
    ("text", "unbound"),
    [
        ("SELECT 1 FROM corpus.documents d JOIN corpus.chunks c ON c.org_id = d.org_id", set[str]()),
        ("SELECT 1 FROM corpus.documents d JOIN corpus.chunks c USING (document_id) WHERE d.org_id = 'x'", {"c"}),
        ("SELECT 1 FROM corpus.documents WHERE document_id = 1", {"corpus.documents"}),
        ("INSERT INTO corpus.documents (document_id) VALUES (1)", {"corpus.documents"}),
        ("SELECT 1 FROM corpus.lexical_matches(1)", set[str]()),
        ("SELECT 1 FROM corpus.spaces", set[str]()),
    ],
)
def test_unbound_tables_are_found(text: str, unbound: set[str]) -> None:
    assert unbound_tables(text) == unbound
