"""Filters in Postgres against a second implementation in Python; no filter may cause an error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from psycopg import sql

from citewire_retriever.filters import Filter
from citewire_retriever.store.filter_sql import Parameters, filter_condition
from corpus_rows import CorpusRows, NewDocument, set_tenant
from filter_oracle import SUBJECTS_METADATA, Subject, any_filter, comparisons, holds

if TYPE_CHECKING:
    from databases import Database


def make_subject(number: int, title: str, moment: str, **fields: str) -> Subject:
    values = {"file_name": "", "type": "file", "url": "", "collection": "", "owner": "b", **fields}
    return Subject(
        title=title,
        tags=TAGS[number - 1],
        metadata=SUBJECTS_METADATA[number - 1],
        created_at=datetime.fromisoformat(moment),
        id=number,
        **values,
    )


TAGS: tuple[tuple[str, ...], ...] = ((), ("a", "é"), ("2024",), ("", "a"), ("%",))
SUBJECTS = (
    make_subject(1, "a", "2024-01-01T00:00:00Z"),
    make_subject(
        2, "A", "2024-05-01T12:00:00Z", file_name="ab", type="article", url="http://24", collection="a", owner="a"
    ),
    make_subject(
        3, "é", "2024-05-01T12:00:00.5Z", file_name="%", type="capture", url="http://'", collection="ab", owner="%s"
    ),
    make_subject(4, "{}", "2031-01-01T00:00:00Z", file_name="a", type="repository", url="https://a"),
    make_subject(5, "2024", "1999-01-01T00:00:00Z", file_name='"', url="HTTPS://\\", collection="é", owner="null"),
)
SELECT = sql.SQL("SELECT d.document_id, {} FROM corpus.documents d WHERE d.org_id = %(org_id)s ORDER BY 1")


@pytest.fixture(scope="module")
def connection(shared_database: Database) -> Iterator[psycopg.Connection]:
    """A connection to a database with the subjects, shared by all examples."""
    with CorpusRows(shared_database.owner_dsn, dimensions=2) as rows:
        # The subjects' ids must be known beforehand.
        rows.run("ALTER TABLE corpus.documents ALTER COLUMN document_id SET DEFAULT nextval('corpus.document_ids')")
        for subject in SUBJECTS:
            document = NewDocument(
                "acme",
                np.ones((1, 2), np.float32),
                title=subject.title,
                file_name=subject.file_name,
                type=subject.type,
                url=subject.url,
                collection=subject.collection,
                owner=subject.owner,
                tags=subject.tags,
                metadata=subject.metadata,
                created_at=subject.created_at,
            )
            assert rows.add(document)[0] == subject.id
    with psycopg.connect(shared_database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, "acme")  # for the one transaction of all examples
        yield connection


def test_every_comparison_means_what_the_grammar_says(connection: psycopg.Connection) -> None:
    leaves = comparisons()
    assert len(leaves) > 3000
    for batch in (leaves[start : start + 100] for start in range(0, len(leaves), 100)):
        parameters = Parameters()
        columns = sql.SQL(", ").join([filter_condition(leaf, parameters) for leaf in batch])
        rows = connection.execute(SELECT.format(columns), {"org_id": "acme", **parameters.values}).fetchall()
        for (document_id, *answers), subject in zip(rows, SUBJECTS, strict=True):
            assert document_id == subject.id
            wrong = [leaf for leaf, answer in zip(batch, answers, strict=True) if answer is not holds(leaf, subject)]
            assert wrong == [], subject


@settings(max_examples=150, deadline=None)
@given(node=any_filter())
def test_conditions_combine(connection: psycopg.Connection, node: Filter) -> None:
    parameters = Parameters()
    statement = SELECT.format(filter_condition(node, parameters))
    result = connection.execute(statement, {"org_id": "acme", **parameters.values}).fetchall()
    assert result == [(subject.id, holds(node, subject)) for subject in SUBJECTS]
