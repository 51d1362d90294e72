"""A connection that is never closed reports where it was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from databases import Database


def test_a_connection_that_is_left_open_reports_where_it_was_opened(database: Database) -> None:
    def forget() -> None:
        psycopg.connect(database.owner_dsn)

    with pytest.warns(ResourceWarning, match=r"left open(.|\n)*in forget"):
        forget()
    with psycopg.connect(database.owner_dsn) as closed:
        pass
    del closed  # no warning, as warnings are errors
