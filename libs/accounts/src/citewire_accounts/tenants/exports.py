"""Exports all rows that name a user, except secrets, as lines of JSON."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from citewire_kit.postgres import Pool
from citewire_kit.tenant import Tenant
from citewire_kit.user_rows import UserRow, UserTables, user_rows

_OWN_KEYS: Final = "SELECT k.key_id FROM chat.api_keys k WHERE k.org_id = %(org)s AND k.user_id = %(user)s"
_CHAT: Final = UserTables(
    schema="chat",
    columns=("user_id", "created_by", "updated_by", "requested_by"),
    conditions={
        "erasures": "t.subject_kind = 'user' AND t.subject = %(user)s",
        "limits": f"t.scope = 'key' AND t.subject IN ({_OWN_KEYS})",
        "conversation_shares": "t.reader_kind = 'user' AND t.reader = %(user)s OR EXISTS ("
        "SELECT FROM chat.conversations c"
        " WHERE c.org_id = %(org)s AND c.conversation_id = t.conversation_id AND c.user_id = %(user)s)",
        # What others did with the user, its keys, budgets, limits and memberships.
        "audit_events": "t.objects && ARRAY(SELECT 'key:' || k.key_id FROM chat.api_keys k"
        " WHERE k.org_id = %(org)s AND k.user_id = %(user)s"
        " UNION ALL SELECT unnest(ARRAY['user:', 'budget:user ']) || %(user)s"
        " UNION ALL SELECT 'budget:user ' || %(user)s || unnest(ARRAY['/day', '/month']))"
        " OR EXISTS (SELECT FROM unnest(t.objects) name WHERE right(name, length(%(user)s) + 1) = '/' || %(user)s"
        " AND (starts_with(name, 'group:') OR starts_with(name, 'limit:')))",
    },
    left_out=frozenset(
        {
            # Messages come from the conversations, without answers whose documents the caller may not see; answers
            # that are kept for repeated requests are the same.
            "messages",
            "idempotency_keys.response",
            # Answers again, for the minutes in which a reader may come back for them.
            "run_events",
        }
    ),
)
_LEDGER: Final = UserTables(
    schema="ledger",
    columns=("user_id", "updated_by"),
    conditions={"budgets": f"t.key_id IN ({_OWN_KEYS})"},
    left_out=frozenset(),
)
_ORIGIN: Final = ("key_id", "issuer", "address", "agent", "request_id")

Rows = AsyncGenerator[UserRow, None]


@dataclass(frozen=True, slots=True)
class UserExports:
    """See the module. Application data is read through given functions."""

    pool: Pool
    messages: Callable[[Tenant, str], Rows]
    """Yields a user's messages as the caller may see them, as `chat.messages`."""
    documents: Callable[[str], Rows]
    """Yields what the retriever holds about a user, as the running call's caller may see it."""

    async def open(self, tenant: Tenant, user_id: str) -> AsyncGenerator[bytes, None]:
        """Returns lines of JSON, `{"kind", "record"}` each: first whose and when, last how many stand between them.

        An export without its last line isn't whole. The caller has checked that the tenant may: a user of itself, an
        admin of anybody. What can't be begun raises here, before a line is sent.

        Raises:
            Unavailable, DeadlineExceeded: The database or the retriever can't be reached; the lines may raise it, too.
        """
        rows = self._rows(tenant, user_id)
        return _lines(tenant, user_id, await anext(rows, None), rows)

    async def _rows(self, tenant: Tenant, user_id: str) -> Rows:
        for source in (
            self.documents(user_id),
            user_rows(self.pool, tenant, _CHAT, user_id),
            self.messages(tenant, user_id),
            user_rows(self.pool, tenant, _LEDGER, user_id),
        ):
            async with aclosing(source) as rows:
                async for row in rows:
                    yield _without_origin(row, user_id)


def _without_origin(row: UserRow, user_id: str) -> UserRow:
    """Removes the origin from other users' events: it is their personal data."""
    if row.kind != "chat.audit_events" or row.record["user_id"] == user_id:
        return row
    return row._replace(record={name: value for name, value in row.record.items() if name not in _ORIGIN})


async def _lines(tenant: Tenant, user_id: str, first: UserRow | None, rows: Rows) -> AsyncGenerator[bytes, None]:
    count = 0
    async with aclosing(rows):
        yield _line("export", {"organisation": tenant.org_id, "user": user_id, "at": datetime.now(UTC).isoformat()})
        row = first
        while row is not None:
            yield _line(*row)
            count += 1
            row = await anext(rows, None)
    yield _line("end", {"records": count})


def _line(kind: str, record: dict[str, Any]) -> bytes:
    return json.dumps({"kind": kind, "record": record}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
