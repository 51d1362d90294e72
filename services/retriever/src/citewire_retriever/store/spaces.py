"""Embedding spaces of an organisation, in Postgres."""

from dataclasses import dataclass, replace
from typing import Any, Final

from psycopg import sql
from psycopg.types.json import Jsonb

from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.model import Calibration, Space, SpaceFill, SpaceRole
from citewire_retriever.store import rows
from citewire_retriever.store.base import Calibrated, SpaceStore, Switched

_SQL: Final = rows.queries("spaces")
_ROLES: Final[tuple[SpaceRole, ...]] = ("live", "next", "previous", "further")
_SECONDS: Final = 60.0
"""Counting reads an index entry per vector of the organisation."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A space of the organisation; it may not be registered yet."""

    space: Space
    role: SpaceRole
    space_id: int | None
    table: str | None
    calibration: Calibration | None = None


class PostgresSpaces(SpaceStore):
    """See `SpaceStore`."""

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the application's role."""
        self._pool = pool

    async def fills(self, tenant: Tenant) -> list[SpaceFill]:  # noqa: D102 # documented by the base class
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            return [await _fill(connection, tenant, known) for known in await _spaces(connection, tenant)]

    async def prepare(self, tenant: Tenant, space: Space) -> SpaceFill | None:  # noqa: D102 # documented by the base class
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            live = _live(await _spaces(connection, tenant))
            if live is not None and live.space == space:
                await connection.execute(_SQL["forget_next"], {"org_id": tenant.org_id})
            else:
                await connection.execute(_SQL["prepare_space"], _key(tenant, space))
            known = _find(await _spaces(connection, tenant), space)
            return None if known is None else await _fill(connection, tenant, known)

    async def switch(self, tenant: Tenant, space: Space, *, force: bool) -> Switched:  # noqa: D102 # documented by the base class
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            await connection.execute(_SQL["hold_pointer"], {"org_id": tenant.org_id})
            known = await _spaces(connection, tenant)
            target = _find(known, space)
            if _live(known) is None or target is None:
                return Switched(None, done=False)
            fill = await _fill(connection, tenant, target)
            if target.space_id is None or (fill.missing and not force and target.role != "live"):
                return Switched(fill, done=False)
            await connection.execute(_SQL["switch_space"], {"org_id": tenant.org_id, "space_id": target.space_id})
            await connection.execute(_SQL["forget_reached"], _key(tenant, space))
            now = _live(await _spaces(connection, tenant))
            return Switched(fill if now is None else await _fill(connection, tenant, now), done=True)

    async def calibrate(  # noqa: D102 # documented by the base class
        self, tenant: Tenant, space: Space, calibration: Calibration | None
    ) -> Calibrated:
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            known = _find(await _spaces(connection, tenant), space)
            if known is None:
                return Calibrated(None, done=False)
            if known.space_id is None:
                return Calibrated(await _fill(connection, tenant, known), done=False)
            key = {"org_id": tenant.org_id, "space_id": known.space_id}
            if calibration is None:
                await connection.execute(_SQL["forget_calibration"], key)
            else:
                await connection.execute(_SQL["calibrate_space"], key | _values(calibration))
            stored = (await _calibrations(connection, tenant)).get(known.space_id)
            return Calibrated(await _fill(connection, tenant, replace(known, calibration=stored)), done=True)


async def _spaces(connection: Connection, tenant: Tenant) -> list[_Known]:
    found = await (await connection.execute(_SQL["spaces_of"], {"org_id": tenant.org_id})).fetchall()
    stored = await _calibrations(connection, tenant)
    known: list[_Known] = []
    for row in found:
        role: int = row[3]
        known.append(_Known(Space(row[0], row[1], row[2]), _ROLES[role - 1], row[4], row[5], stored.get(row[4])))
    return known


async def _calibrations(connection: Connection, tenant: Tenant) -> dict[int, Calibration]:
    """What is stored, by the space's id."""
    found = await (await connection.execute(_SQL["calibrations"], {"org_id": tenant.org_id})).fetchall()
    return {row[0]: Calibration(row[1], row[2], row[3], rows.utc(row[4]), row[5]) for row in found}


def _values(calibration: Calibration) -> dict[str, Any]:
    return {
        "relevance_threshold": calibration.relevance_threshold,
        "answerable_threshold": calibration.answerable_threshold,
        "dense_weight": calibration.dense_weight,
        "measured_at": calibration.measured_at,
        "report": Jsonb(calibration.report),
    }


async def _fill(connection: Connection, tenant: Tenant, known: _Known) -> SpaceFill:
    values = {"org_id": tenant.org_id}
    filled: sql.Composable = sql.SQL(_SQL["filled_nothing"])
    if known.table is not None:
        filled = sql.SQL(_SQL["filled"]).format(vectors=sql.Identifier("corpus", known.table))
    cursor = await connection.execute(sql.SQL(_SQL["fill"]).format(filled=filled), values)
    documents, documents_filled, chunks, chunks_filled = (await cursor.fetchall())[0]
    (failed,) = (await (await connection.execute(_SQL["given_up"], values)).fetchall())[0]
    return SpaceFill(
        known.space,
        known.role,
        documents,
        documents_filled,
        int(chunks),
        int(chunks_filled),
        failed,
        known.calibration,
    )


def _live(spaces: list[_Known]) -> _Known | None:
    return next((known for known in spaces if known.role == "live"), None)


def _find(spaces: list[_Known], space: Space) -> _Known | None:
    return next((known for known in spaces if known.space == space), None)


def _key(tenant: Tenant, space: Space) -> dict[str, Any]:
    return {
        "org_id": tenant.org_id,
        "model": space.model,
        "revision": space.revision,
        "dimensions": space.dimensions,
    }
