"""The bytes of originals that a tenant has stored, and its plan's limits.

All kept versions count, including superseded ones, for the document's owner and for the organisation.
"""

from typing import Any, Final

from citewire.retriever.v1.corpus_pb2 import GetStorageResponse

from citewire_kit.errors import ResourceExhausted
from citewire_kit.metrics import LIMITED
from citewire_kit.nodes import repeated
from citewire_kit.plan_limits import LimitScope, Measure, PlanLimits, ScopeLimits
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.store import rows

_SQL: Final = rows.queries("storage")
_MAX_ENTRIES: Final = 500
"""More entries are summed up by the next upload; reading this many takes some 0.1 ms."""
_WHOSE: Final = {LimitScope.USER: "the document's owner", LimitScope.ORG: "this organisation"}
_GIB: Final = 1024**3


class PostgresStorage:
    """Stored bytes and their limits.

    Args:
        pool: The pool of the application's role.
        plans: The limits; None for no limits.
    """

    def __init__(self, pool: Pool, plans: PlanLimits | None) -> None:
        self._pool = pool
        self._plans = plans

    @repeated
    async def used(self, tenant: Tenant) -> GetStorageResponse:
        """Returns the bytes stored by the user and the organisation, with their limits."""
        values = {"org_id": tenant.org_id, "user_id": tenant.user_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            row = await (await connection.execute(_SQL["stored_of_user"], values)).fetchone()
        user_bytes, org_bytes, _ = row or (0, 0, 0)
        limits = self._limits(tenant)
        return GetStorageResponse(
            user_bytes=user_bytes,
            org_bytes=org_bytes,
            user_limit_bytes=limits.get(LimitScope.USER),
            org_limit_bytes=limits.get(LimitScope.ORG),
        )

    async def check(self, connection: Connection, tenant: Tenant, document_id: int, size_bytes: int) -> None:
        """Refuses a version beyond the plan's limit, in the transaction that has just created its row.

        A preliminary check for large ones before their bytes are written: concurrent uploads may still come first.

        Raises:
            ResourceExhausted: Reason `STORAGE_FULL`.
        """
        await self._check(connection, tenant, document_id, size_bytes)

    async def settle(self, connection: Connection, tenant: Tenant, document_id: int, size_bytes: int) -> None:
        """Makes the final check as the transaction's last step, as the organisation's other uploads wait for its end.

        Raises:
            ResourceExhausted: Reason `STORAGE_FULL`.
        """
        await connection.execute(_SQL["take_turn"], {"org_id": tenant.org_id})
        if await self._check(connection, tenant, document_id, size_bytes) > _MAX_ENTRIES:
            key: dict[str, Any] = {"org_id": tenant.org_id}
            entries = await (await connection.execute(_SQL["take_entries"], key)).fetchall()
            users, sizes = ([entry[column] for entry in entries] for column in (0, 1))
            await connection.execute(_SQL["put_sums"], {**key, "users": users, "bytes": sizes})

    async def _check(self, connection: Connection, tenant: Tenant, document_id: int, size_bytes: int) -> int:
        values = {"org_id": tenant.org_id, "document_id": document_id}
        row = await (await connection.execute(_SQL["stored_of_owner"], values)).fetchone()
        user_bytes, org_bytes, entries = row or (0, 0, 0)
        stored = {LimitScope.USER: user_bytes, LimitScope.ORG: org_bytes}
        for scope, limit in self._limits(tenant).items():
            if stored[scope] > limit:
                raise _full(tenant, scope, limit, stored[scope] - size_bytes, size_bytes)
        return entries

    def _limits(self, tenant: Tenant) -> ScopeLimits:
        return {} if self._plans is None else self._plans[tenant.plan][Measure.STORED_BYTES]


def _full(tenant: Tenant, scope: LimitScope, limit: int, used: int, size_bytes: int) -> ResourceExhausted:
    LIMITED.labels(Measure.STORED_BYTES, scope, tenant.plan).inc()
    return ResourceExhausted(
        f"{_WHOSE[scope]} may store {_amount(limit)} on plan {tenant.plan}: {_amount(used)} are stored, and this takes "
        f"{_amount(size_bytes)}; delete documents to make room",
        reason="STORAGE_FULL",
        metadata={
            "limit": f"{Measure.STORED_BYTES}-{scope}",
            "quota": str(limit),
            "used": str(used),
            "size_bytes": str(size_bytes),
        },
    )


def _amount(count: int) -> str:
    return f"{count / _GIB:,.2f} GiB" if count >= _GIB / 100 else f"{count:,} bytes"
