"""Idempotency-Key: the same request sent twice is done once, and answered the same."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from citewire_gateway.background import BackgroundTasks
from citewire_kit.errors import Aborted, AlreadyExists, CitewireError
from citewire_kit.ids import uuid7
from citewire_kit.postgres import Pool, load_queries, tenant_transaction
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, current_request_id

_SQL = load_queries("citewire_gateway.chat", "chats.sql")
_RACES = 3

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to an earlier request with the same key."""

    response: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that this request holds until it is answered or released."""

    store: "IdempotencyStore"
    tenant: Tenant
    key: str
    owner: UUID

    async def answer(self, response: dict[str, Any]) -> None:
        """Keeps the answer: from now on it is given to every request with this key."""
        await self.store.answer(self, response)

    async def release(self) -> None:
        """Gives the key back, because nothing was done: the request may be sent again."""
        await self.store.release(self)


class IdempotencyStore:
    """Keeps keys and answers, each user's apart."""

    def __init__(self, pool: Pool, background: BackgroundTasks, *, keep_seconds: float) -> None:
        self._pool = pool
        self._background = background
        self._keep_seconds = keep_seconds

    async def claim(
        self, tenant: Tenant, key: str, *, operation: str, request_hash: bytes, lease_seconds: float
    ) -> Claim | StoredAnswer:
        """Takes a key, or returns what an earlier request with it was answered.

        Args:
            tenant: Whose key.
            key: The key.
            operation: Which route; a key belongs to one.
            request_hash: Digest of what is asked.
            lease_seconds: After which the claim of a gateway that died may be taken over.

        Raises:
            AlreadyExists: The key was used for another request (`IDEMPOTENCY_CONFLICT`).
            Aborted: The first request is still running (`IDEMPOTENCY_IN_PROGRESS`).
        """
        claim = Claim(self, tenant, key, uuid7())
        values = self._values(claim) | {"operation": operation, "hash": request_hash, "lease": lease_seconds}
        for _ in range(_RACES):
            async with tenant_transaction(self._pool, tenant) as connection:
                if await (await connection.execute(_SQL["claim_key"], values)).fetchone() is not None:
                    return claim
                row = await (await connection.execute(_SQL["read_key"], values)).fetchone()
            if row is None:
                continue  # released between the two queries
            if row[0] != operation or bytes(row[1]) != request_hash:
                raise AlreadyExists(
                    "this Idempotency-Key was used before with another request", reason="IDEMPOTENCY_CONFLICT"
                )
            if row[2] is not None:
                return StoredAnswer(row[2])
            break
        raise Aborted(
            "a request with this Idempotency-Key is still running", reason="IDEMPOTENCY_IN_PROGRESS", retry_after=1.0
        )

    async def answer(self, claim: Claim, response: dict[str, Any]) -> None:
        """See `Claim.answer`."""
        values = self._values(claim) | {"response": Jsonb(response), "lease": self._keep_seconds}
        async with tenant_transaction(self._pool, claim.tenant) as connection:
            await connection.execute(_SQL["answer_key"], values)

    async def release(self, claim: Claim) -> None:
        """See `Claim.release`. It is written even if who waits for it is cancelled."""
        await self._background.finish(self._release(claim), request_id=current_request_id())

    async def _release(self, claim: Claim) -> None:
        try:
            async with tenant_transaction(self._pool, claim.tenant) as connection:
                await connection.execute(_SQL["release_key"], self._values(claim))
        except CitewireError as exc:
            # Its lease will pass; until then a repetition hears that the request is still running.
            log.warning("idempotency_key_not_released", reason=exc.reason)

    def _values(self, claim: Claim) -> dict[str, Any]:
        tenant = claim.tenant
        return {"org": tenant.org_id, "user": tenant.user_id, "key": claim.key, "owner": claim.owner}


def hash_json(value: object) -> bytes:
    """Digest of a JSON value; the order of members and white space don't matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()
