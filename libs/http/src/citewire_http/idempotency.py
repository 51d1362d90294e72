"""Idempotency-Key: the same request sent twice is done once, and answered the same."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import BaseModel

from citewire_http.background import BackgroundTasks
from citewire_kit.errors import Aborted, AlreadyExists, CitewireError
from citewire_kit.ids import uuid7
from citewire_kit.postgres import Pool, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, current_request_id

_SQL = load_queries("citewire_http", "idempotency.sql")
_RACES = 3

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The response to an earlier request with the same key."""

    response: dict[str, Any]
    """The body; empty if the response is a chat run's events."""
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that this request holds until it is answered or released."""

    pool: Pool
    background: BackgroundTasks
    tenant: Tenant
    values: Mapping[str, Any]
    """Its columns, and how long a response is kept."""

    async def answer(self, response: dict[str, Any] | None = None, *, run_id: UUID | None = None) -> None:
        """Stores the response, a body or a chat run, which every further request with this key gets."""
        await self._write("answer_key", response=None if response is None else Jsonb(response), exchange=run_id)

    async def release(self) -> None:
        """Releases the key because nothing was done, so that the request may be sent again.

        This is written even if the caller is cancelled.
        """
        await self.background.finish(self._release(), request_id=current_request_id())

    async def _release(self) -> None:
        try:
            await self._write("release_key")
        except CitewireError as exc:
            # Its lease will expire; until then a repeated request gets the error that the first is still running.
            log.warning("idempotency_key_not_released", reason=exc.reason)

    async def _write(self, query: str, **values: object) -> None:
        async with tenant_transaction(self.pool, self.tenant) as connection:
            await connection.execute(_SQL[query], {**self.values, **values})


class IdempotencyStore:
    """Stores keys and responses, separately for each user."""

    def __init__(self, pool: Pool, background: BackgroundTasks, *, keep_seconds: float) -> None:
        self._pool = pool
        self._background = background
        self._keep_seconds = keep_seconds

    async def claim(
        self, tenant: Tenant, key: str, *, operation: str, request_hash: bytes, lease_seconds: float
    ) -> Claim | StoredAnswer:
        """Claims a key, or returns the response to an earlier request with it.

        Args:
            tenant: The key's owner.
            key: The key.
            operation: The route; a key belongs to one.
            request_hash: Digest of the request.
            lease_seconds: Time after which the claim of a crashed gateway may be taken over.

        Raises:
            AlreadyExists: The key was used for another request (`IDEMPOTENCY_CONFLICT`).
            Aborted: The first request is still running (`IDEMPOTENCY_IN_PROGRESS`).
        """
        names = {"org": tenant.org_id, "user": tenant.user_id, "key": key, "owner": uuid7()}
        values = names | {"operation": operation, "hash": request_hash, "lease": lease_seconds}
        for _ in range(_RACES):
            async with tenant_transaction(self._pool, tenant) as connection:
                if await (await connection.execute(_SQL["claim_key"], values)).fetchone() is not None:
                    return Claim(self._pool, self._background, tenant, names | {"lease": self._keep_seconds})
                row = await (await connection.execute(_SQL["read_key"], values)).fetchone()
            if row is None:
                continue  # released between the two queries
            if row[0] != operation or bytes(row[1]) != request_hash:
                raise AlreadyExists(
                    "this Idempotency-Key was used before with another request", reason="IDEMPOTENCY_CONFLICT"
                )
            if row[2] is not None or row[3] is not None:
                return StoredAnswer(row[2] or {}, row[3])
            break
        raise Aborted(
            "a request with this Idempotency-Key is still running", reason="IDEMPOTENCY_IN_PROGRESS", retry_after=1.0
        )

    async def forget(self, tenant: Tenant, key: str) -> None:
        """Deletes an answered key with its response."""
        async with tenant_transaction(self._pool, tenant) as connection:
            await connection.execute(_SQL["forget_key"], {"org": tenant.org_id, "user": tenant.user_id, "key": key})


def hash_body(body: BaseModel) -> bytes:
    """Returns a digest of the fields that a request's body contains.

    Defaults don't count: a request that is repeated after an upgrade is the same one, also if the body has new fields.
    """
    return hash_json(body.model_dump(mode="json", exclude_unset=True))


def hash_json(value: object) -> bytes:
    """Returns a digest of a JSON value, independent of the order of members and of white space."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()
