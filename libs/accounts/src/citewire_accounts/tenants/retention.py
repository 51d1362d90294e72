"""How long an organisation keeps its conversations, and the erasing of those that are over."""

import time
from dataclasses import dataclass, field
from typing import Final

from citewire_kit.audit import AuditTrail
from citewire_kit.audit_events import Action, own_event
from citewire_kit.errors import CitewireError
from citewire_kit.postgres import Pool, fetch_row, fetch_rows, load_queries, tenant_transaction, transaction
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

_SQL = load_queries("citewire_accounts.tenants", "retention.sql")
_BATCH: Final = 500
"""Conversations that one statement erases, so that nobody waits long for it."""
_STATEMENT_SECONDS: Final = 60.0

log = get_logger(__name__)


@dataclass(slots=True)
class Retention:
    """Keeps organisations' policies, and acts on them. Methods raise `Unavailable` if the database is away."""

    pool: Pool
    trail: AuditTrail
    seconds: float = 600.0
    """Pause between two rounds."""
    _next: float = field(default=float("-inf"), init=False)

    async def conversation_days(self, tenant: Tenant) -> int | None:
        """Returns for how many days after its last message a conversation is kept; None: until it is deleted."""
        async with tenant_transaction(self.pool, tenant) as connection:
            row = await fetch_row(connection, _SQL["get_retention"], {"org": tenant.org_id})
        return None if row is None else row["conversation_days"]

    async def set_conversation_days(self, tenant: Tenant, days: int | None) -> None:
        """Says for how many days conversations are kept; older ones go with the next round. None keeps them."""
        query = "drop_retention" if days is None else "set_retention"
        async with tenant_transaction(self.pool, tenant) as connection:
            await connection.execute(_SQL[query], {"org": tenant.org_id, "days": days})

    async def sweep(self) -> None:
        """One round over all organisations with a policy; one that fails hinders no other."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.seconds
        async with transaction(self.pool) as connection:
            policies = await fetch_rows(connection, _SQL["retention_policies"])
        failure: CitewireError | None = None
        for policy in policies:
            try:
                await self._erase(policy["org_id"], policy["conversation_days"])
            except CitewireError as exc:
                failure = exc
                log.warning("conversations_not_erased_yet", org_id=policy["org_id"], reason=exc.reason)
        if failure is not None:
            raise failure

    async def _erase(self, org_id: str, days: int) -> None:
        tenant, count, erased = Tenant(org_id, "-", "free"), 0, _BATCH
        values = {"days": days, "most": _BATCH}
        try:
            while erased == _BATCH:
                async with tenant_transaction(self.pool, tenant, statement_seconds=_STATEMENT_SECONDS) as connection:
                    row = await fetch_row(connection, _SQL["erase_old_conversations"], values)
                erased = 0 if row is None else int(row["erased"])
                count += erased
        finally:
            if count:
                self.trail.add(own_event(org_id, Action.CONVERSATION_EXPIRE, (f"conversations:{count}",)))
                log.info("conversations_expired", org_id=org_id, conversations=count)
