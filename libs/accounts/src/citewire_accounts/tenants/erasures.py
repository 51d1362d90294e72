"""Erases users and organisations in the background, restarting from the beginning until everything is erased."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from citewire_accounts.tenants.accounts import AccountStore
from citewire_kit.errors import CitewireError, FailedPrecondition, NotFound, PermissionDenied
from citewire_kit.ids import uuid7
from citewire_kit.postgres import Pool, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, use_tenant

_SQL = load_queries("citewire_accounts.tenants", "erasures.sql")
_AGAIN_SECONDS: Final = 60.0
_STATEMENT_SECONDS: Final = 60.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Erasure:
    """A requested erasure."""

    erasure_id: UUID
    subject_kind: Literal["user", "organisation"]
    subject: str
    """The user; "" for the organisation, and once it is done."""
    successor: str
    """The replacement for the user in accounts, and the owner of kept documents."""
    documents: Literal["delete", "keep"]
    state: Literal["running", "done"]
    erased: int
    """Documents so far."""
    created_at: datetime
    finished_at: datetime | None


class EraseDocuments(Protocol):
    """Erases documents: the retriever does that."""

    async def __call__(self, user_id: str, successor: str, *, keep: bool) -> tuple[int, bool]:
        """Erases part of the data of a user (with "" of the organisation); with `keep` transfers it to the successor.

        Returns how many documents that were, and whether nothing is left.
        """
        ...


@dataclass(frozen=True, slots=True)
class Erasures:
    """See the module. Methods raise `Unavailable` if the database or the retriever can't be reached."""

    pool: Pool
    erase_documents: EraseDocuments
    accounts: AccountStore
    settle_seconds: float
    """Seconds for which a request of the erased user may still write."""

    async def ask(self, tenant: Tenant, user_id: str, documents: Literal["delete", "keep"]) -> Erasure:
        """Requests the erasure of a user; with "" of the organisation.

        Raises:
            PermissionDenied: An owner, or the organisation, is erased by owners only.
            FailedPrecondition: The user is its only owner (reason `WRONG_STATE`).
            NotFound: There is no such user (reason `USER_NOT_FOUND`).
        """
        number = uuid7()
        values = {"org": tenant.org_id, "erasure": number, "user": user_id, "documents": documents}
        values |= {"successor": f"erased:{number.hex[-12:]}", "by": tenant.user_id}
        async with tenant_transaction(self.pool, tenant) as connection:
            rows = await (await connection.execute(_SQL["users_and_roles"], values)).fetchall()
            roles: dict[str, list[str]] = dict(rows)
            if user_id and user_id not in roles:
                raise NotFound(f"there is no user {user_id}", reason="USER_NOT_FOUND", metadata={"user": user_id})
            owners = [name for name, has in roles.items() if "owner" in has]
            if (not user_id or user_id in owners) and not tenant.is_at_least("owner"):
                raise PermissionDenied("only owners of the organisation may do this", reason="PERMISSION_DENIED")
            if owners == [user_id]:
                raise FailedPrecondition(
                    f"{user_id} is the only owner: make somebody else an owner, or erase the organisation",
                    reason="WRONG_STATE",
                )
            await connection.execute(_SQL["add_erasure"], values)
        return await self.get(tenant, number)

    async def get(self, tenant: Tenant, erasure_id: UUID) -> Erasure:
        """Returns an erasure. Raises `NotFound`."""
        for erasure in await self.page(tenant, erasure_id):
            return erasure
        raise NotFound(f"there is no erasure {erasure_id}", reason="ERASURE_NOT_FOUND")

    async def page(self, tenant: Tenant, erasure_id: UUID | None = None) -> list[Erasure]:
        """Returns the latest hundred erasures, latest first; or one."""
        values = {"org": tenant.org_id, "erasure": erasure_id}
        async with tenant_transaction(self.pool, tenant) as connection:
            rows = await (await connection.execute(_SQL["list_erasures"], values)).fetchall()
        return [Erasure(*row) for row in rows]

    async def sweep(self) -> None:
        """One round over due erasures. Failed ones are retried later, without blocking others."""
        async with transaction(self.pool) as connection:
            rows = await (await connection.execute(_SQL["claim_erasures"], {"seconds": _AGAIN_SECONDS})).fetchall()
        for org_id, erasure_id in rows:
            tenant = Tenant(org_id, "citewire-gateway", "free", ("owner",))
            try:
                with use_tenant(tenant):
                    await self._work_on(tenant, await self.get(tenant, erasure_id))
            except CitewireError as exc:
                log.warning("not_erased_yet", org_id=org_id, erasure_id=str(erasure_id), reason=exc.reason)

    async def _work_on(self, tenant: Tenant, erasure: Erasure) -> None:
        """One pass over everything. The last one begins when nothing that had begun before can still be written."""
        values: dict[str, Any] = {"org": tenant.org_id, "erasure": erasure.erasure_id, "settle": self.settle_seconds}
        values |= {"user": erasure.subject, "successor": erasure.successor}
        last = await self._write(tenant, "is_last_pass", values)
        await self._write(tenant, "erase_account", values)  # first, so that the erased user can't call any more
        keep, done = erasure.documents == "keep", False
        while not done:
            count, done = await self.erase_documents(erasure.subject, erasure.successor, keep=keep)
            await self._write(tenant, "note_erased", values | {"count": count})
        await self._forget_users(tenant, erasure)
        if last is None:
            await self._write(tenant, "await_last_pass", values)
        else:
            organisation = erasure.subject_kind == "organisation"
            await self._write(tenant, "drop_erasures" if organisation else "finish_erasure", values)
            log.info("erased", org_id=tenant.org_id, erasure_id=str(erasure.erasure_id), kind=erasure.subject_kind)

    async def _forget_users(self, tenant: Tenant, erasure: Erasure) -> None:
        try:
            await self.accounts.forget_users(tenant, erasure.subject, erasure.successor)
        except FailedPrecondition:
            log.info("no_ledger", org_id=tenant.org_id)  # then nothing is kept there

    async def _write(self, tenant: Tenant, query: str, values: dict[str, Any]) -> object:
        async with tenant_transaction(self.pool, tenant, statement_seconds=_STATEMENT_SECONDS) as connection:
            cursor = await connection.execute(_SQL[query], values)
            return await cursor.fetchone() if cursor.description else None
