"""Erases stored answers that were written from deleted documents.

The retriever notes each deletion in its own transaction. From there it is taken over here, in an order that a process
may die in: answers are erased first, and the note goes last, once no chat that had read the document can still be
writing its answer.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from citewire_gateway.chat.store import SQL
from citewire_gateway.clients.retriever import CorpusClient
from citewire_kit.errors import CitewireError, Unimplemented
from citewire_kit.postgres import Pool, tenant_transaction, transaction
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, use_tenant

ERASED: Final = "_This answer was erased with a document that it was written from._"
_AGAIN_SECONDS: Final = 60.0
"""Seconds until an organisation with deletions is checked again."""
_QUIET_SECONDS: Final = 3600.0
"""Seconds until one without is checked again; documents may be deleted in other ways than through this gateway."""
_ORGANISATIONS: Final = 20
"""Maximum number of organisations per round."""
_STATEMENT_SECONDS: Final = 60.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QuoteEraser:
    """See the module. Methods raise `Unavailable` if the database or the retriever can't be reached."""

    pool: Pool
    corpus: CorpusClient
    settle_seconds: float
    """How long after a deletion a chat may still store an answer written from the document."""

    async def announce(self, tenant: Tenant) -> None:
        """Records, before documents are deleted, that the organisation's answers have to be checked."""
        async with tenant_transaction(self.pool, tenant) as connection:
            await connection.execute(SQL["announce_erasure"], {"org": tenant.org_id})

    async def erase(self, tenant: Tenant, document_ids: list[int]) -> None:
        """Erases answers written from deleted documents. Idempotent."""
        async with tenant_transaction(self.pool, tenant, statement_seconds=_STATEMENT_SECONDS) as connection:
            values = {"documents": document_ids, "note": ERASED}
            row = await (await connection.execute(SQL["erase_documents"], values)).fetchone()
        if row is not None and any(row):
            log.info("answers_erased", org_id=tenant.org_id, answers=row[0], idempotency_keys=row[1])

    async def erase_now(self, tenant: Tenant, document_id: int) -> None:
        """Erases answers written from a document that was just deleted; a later round erases the rest."""
        try:
            await self.erase(tenant, [document_id])
        except CitewireError as exc:
            log.warning("answers_not_erased_yet", org_id=tenant.org_id, document_id=document_id, reason=exc.reason)

    async def erase_old(self, tenant: Tenant, days: int, *, expired: bool = False) -> tuple[int, bool]:
        """Deletes documents whose last version or expiry is older; a later round erases the answers written from them.

        Returns how many were deleted, and whether none is left.
        """
        await self.announce(tenant)
        return await self.corpus.erase_old(days, expired=expired)

    async def sweep(self) -> None:
        """One round: processes the deletions of organisations that are due. A failure doesn't affect the others."""
        async with transaction(self.pool) as connection:
            values = {"most": _ORGANISATIONS, "seconds": _AGAIN_SECONDS}
            rows = await (await connection.execute(SQL["claim_erasure_checks"], values)).fetchall()
        failure: CitewireError | None = None
        for (org_id,) in rows:
            try:
                # There is no caller: this runs as the organisation, and the retriever only allows it for admins.
                await self._take_over(Tenant(org_id, "citewire-gateway", "free", ("owner",)))
            except CitewireError as exc:  # only the node with its documents may be unreachable
                failure = exc
                log.warning("answers_not_erased_yet", org_id=org_id, reason=exc.reason)
        if failure is not None:
            raise failure

    async def _take_over(self, tenant: Tenant) -> None:
        after, settled, settling = 0, list[int](), False
        settle = timedelta(seconds=self.settle_seconds)
        with use_tenant(tenant):
            try:
                while page := await self.corpus.list_erased(after):
                    await self.erase(tenant, [document.document_id for document in page])
                    old = [each.document_id for each in page if each.age.ToTimedelta() > settle]
                    settled += old
                    settling = settling or len(old) < len(page)
                    after = page[-1].document_id
            except Unimplemented:
                return  # a retriever of the previous version, which records nothing
            await self.corpus.forget_erased(settled)
        if not settling:
            async with tenant_transaction(self.pool, tenant) as connection:
                await connection.execute(SQL["rest_erasures"], {"org": tenant.org_id, "seconds": _QUIET_SECONDS})
