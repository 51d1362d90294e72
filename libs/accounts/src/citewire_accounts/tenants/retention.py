"""How long an organisation keeps conversations and documents, and the erasing of those that are over."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from citewire_kit.audit import AuditTrail
from citewire_kit.audit_events import Action, own_event
from citewire_kit.errors import CitewireError
from citewire_kit.postgres import Pool, tenant_transaction, transaction
from citewire_kit.queries import fetch_row, fetch_rows, load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, use_tenant

_SQL = load_queries("citewire_accounts.tenants", "retention.sql")
_BATCH: Final = 500
"""Conversations that one statement erases, so that nobody waits long for it."""
_STATEMENT_SECONDS: Final = 60.0


class EraseDocuments(Protocol):
    """Erases some of an organisation's documents."""

    async def __call__(self, tenant: Tenant, days: int, *, expired: bool = False) -> tuple[int, bool]:
        """Erases some that are so many days old, or expired as long ago; returns how many, and whether that was all."""
        ...


_Erase = Callable[[Tenant, int], Awaitable[tuple[int, bool]]]

log = get_logger(__name__)


class RetentionDays(NamedTuple):
    """For how many days an organisation keeps what. None: until it is deleted."""

    conversation_days: int | None
    """After its last message."""
    document_days: int | None
    """After its last version was stored."""
    expired_document_days: int | None
    """After its validity ended."""


_FOR_GOOD: Final = RetentionDays(None, None, None)


@dataclass(slots=True)
class Retention:
    """Keeps organisations' policies, and acts on them. Methods raise `Unavailable` if the database is away."""

    pool: Pool
    trail: AuditTrail
    erase_documents: EraseDocuments
    seconds: float = 600.0
    """Pause between two rounds."""
    _next: float = field(default=float("-inf"), init=False)

    async def days(self, tenant: Tenant) -> RetentionDays:
        """Returns the organisation's policy."""
        async with tenant_transaction(self.pool, tenant) as connection:
            row = await fetch_row(connection, _SQL["get_retention"], {"org": tenant.org_id})
        return _FOR_GOOD if row is None else RetentionDays(**row)

    async def set_days(self, tenant: Tenant, days: Mapping[str, int | None]) -> RetentionDays:
        """Changes the policy, by names of `RetentionDays`; what is older goes with the next round. Returns it."""
        values: dict[str, Any] = {"org": tenant.org_id, **_FOR_GOOD._asdict(), **days, "names": [*days]}
        async with tenant_transaction(self.pool, tenant) as connection:
            row = await fetch_row(connection, _SQL["set_retention"], values)
        return RetentionDays(**(row or {}))

    async def sweep(self) -> None:
        """One round over all organisations with a policy; one that fails hinders no other."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.seconds
        async with transaction(self.pool) as connection:
            policies = await fetch_rows(connection, _SQL["retention_days"])
        failure: CitewireError | None = None
        erase_expired = partial(self.erase_documents, expired=True)
        for policy in policies:
            tenant = Tenant(policy["org_id"], "citewire-gateway", "free", ("owner",))
            for days, erase, action, what in (
                (policy["conversation_days"], self._erase_conversations, Action.CONVERSATION_EXPIRE, "conversations"),
                (policy["document_days"], self.erase_documents, Action.DOCUMENT_EXPIRE, "documents"),
                (policy["expired_document_days"], erase_expired, Action.DOCUMENT_EXPIRE, "documents"),
            ):
                try:
                    if days is not None:
                        await self._erase(tenant, days, erase, action, what)
                except CitewireError as exc:
                    failure = exc
                    log.warning("not_expired_yet", org_id=tenant.org_id, what=what, reason=exc.reason)
        if failure is not None:
            raise failure

    async def _erase(self, tenant: Tenant, days: int, erase: _Erase, action: Action, what: str) -> None:
        count, done = 0, False
        try:
            with use_tenant(tenant):
                while not done:
                    erased, done = await erase(tenant, days)
                    count += erased
        finally:
            if count:
                self.trail.add(own_event(tenant.org_id, action, (f"{what}:{count}",)))
                log.info("expired", org_id=tenant.org_id, what=what, count=count)

    async def _erase_conversations(self, tenant: Tenant, days: int) -> tuple[int, bool]:
        values = {"days": days, "most": _BATCH}
        async with tenant_transaction(self.pool, tenant, statement_seconds=_STATEMENT_SECONDS) as connection:
            row = await fetch_row(connection, _SQL["erase_old_conversations"], values)
        erased = 0 if row is None else int(row["erased"])
        return erased, erased < _BATCH
