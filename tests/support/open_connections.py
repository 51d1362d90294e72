"""Reports where an unclosed connection to Postgres was opened.

Python finds it at garbage collection, maybe many tests later: its warning then names an unrelated test,
and no line.
"""

from __future__ import annotations

import traceback
import warnings
from typing import TYPE_CHECKING, Any

from psycopg._connection_base import BaseConnection

if TYPE_CHECKING:
    import pytest

_FRAMES = 14
_OPENED = "opened_at"


def trace_connections(patch: pytest.MonkeyPatch) -> None:
    """Adds the place of opening to the warning for connections that are collected open."""
    set_up = BaseConnection.__init__

    def init(connection: BaseConnection[Any], *args: Any) -> None:  # noqa: ANN401 # whatever psycopg gives
        set_up(connection, *args)
        frames = traceback.walk_stack(None)
        vars(connection)[_OPENED] = traceback.StackSummary.extract(frames, limit=_FRAMES, lookup_lines=False)

    def collected(connection: BaseConnection[Any]) -> None:
        # Like psycopg's own warning: none for a pool's connections.
        if hasattr(connection, "pgconn") and not connection.closed and not hasattr(connection, "_pool"):
            lines = "".join(vars(connection)[_OPENED].format())
            text = f"a connection was left open; it was opened here, innermost first:\n{lines}"
            warnings.warn(text, ResourceWarning, stacklevel=2)

    patch.setattr(BaseConnection, "__init__", init)
    patch.setattr(BaseConnection, "__del__", collected)
