"""Embedding spaces of an organisation, in Postgres."""

from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from citewire.retriever.v1.calibration_pb2 import Calibration, SpaceScale
from citewire.retriever.v1.corpus_pb2 import SPACE_ROLE_LIVE, SpaceInfo, SpaceRole
from google.protobuf.json_format import MessageToDict
from psycopg import sql
from psycopg.types.json import Jsonb

from citewire_kit.nodes import repeated
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.queries import fetch_row, fetch_rows
from citewire_kit.tenant import Tenant
from citewire_retriever.model import CALIBRATED_SHARES, Space, space_to_proto
from citewire_retriever.store import rows
from citewire_retriever.store.jobs import check_backfill

_SQL: Final = rows.queries("spaces")
_SCALE: Final = rows.queries("topics")["scale"]
_SECONDS: Final = 60.0
"""Seconds for counting, which reads an index entry per vector of the organisation."""


@dataclass(frozen=True, slots=True)
class _OrgSpace:
    """A space of the organisation; it has no id and table until registered."""

    space: Space
    role: SpaceRole
    space_id: int | None
    table_name: str | None


class PostgresSpaces:
    """Embedding spaces of an organisation. A `SpaceInfo` has the stored calibration, if any."""

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the application's role."""
        self._pool = pool

    @repeated
    async def spaces(self, tenant: Tenant) -> list[SpaceInfo]:
        """Returns the organisation's spaces, the live one first, with how far each is filled."""
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            return [await _info(connection, tenant, space) for space in await _spaces(connection, tenant)]

    @repeated
    async def prepare(self, tenant: Tenant, space: Space) -> SpaceInfo | None:
        """Prepares a space alongside the live one, replacing any other prepared one.

        Naming the live space ends the preparation. Workers register the space once a model serves it.
        """
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            live = _live(await _spaces(connection, tenant))
            if live is not None and live.space == space:
                await connection.execute(_SQL["forget_next"], {"org_id": tenant.org_id})
            else:
                await connection.execute(_SQL["prepare_space"], _key(tenant, space))
                await check_backfill(connection, tenant.org_id)
            prepared = _find(await _spaces(connection, tenant), space)
            return None if prepared is None else await _info(connection, tenant, prepared)

    @repeated
    async def switch(self, tenant: Tenant, space: Space, *, force: bool) -> tuple[SpaceInfo | None, bool]:
        """Makes a space the live one if it is filled, or if forced; the live one becomes the previous one.

        Returns:
            The space, as the live one if the switch was made, and whether it was. None: it isn't one of the
            organisation's, or there is no live one yet.
        """
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            await connection.execute(_SQL["hold_pointer"], {"org_id": tenant.org_id})
            spaces = await _spaces(connection, tenant)
            target = _find(spaces, space)
            if _live(spaces) is None or target is None:
                return None, False
            info = await _info(connection, tenant, target)
            is_filled = info.documents_filled == info.documents
            if target.space_id is None or not (is_filled or force or info.live):
                return info, False
            key = {"org_id": tenant.org_id, "space_id": target.space_id}
            if (await connection.execute(_SQL["switch_space"], key)).rowcount == 1:
                await check_backfill(connection, tenant.org_id)
            await connection.execute(_SQL["forget_reached"], _key(tenant, space))
            live = _live(await _spaces(connection, tenant))
            return info if live is None else await _info(connection, tenant, live), True

    @repeated
    async def calibrate(
        self, tenant: Tenant, space: Space, calibration: Calibration | None
    ) -> tuple[SpaceInfo | None, bool]:
        """Replaces a space's stored calibration; None removes it.

        Returns:
            The space, None if it isn't one of the organisation's; and whether the calibration was stored, which needs a
            registered space.
        """
        async with tenant_transaction(self._pool, tenant, statement_seconds=_SECONDS) as connection:
            target = _find(await _spaces(connection, tenant), space)
            if target is None:
                return None, False
            if target.space_id is None:
                return await _info(connection, tenant, target), False
            key = {"org_id": tenant.org_id, "space_id": target.space_id}
            if calibration is None:
                await connection.execute(_SQL["forget_calibration"], key)
            else:
                await connection.execute(_SQL["calibrate_space"], key | _values(calibration))
            return await _info(connection, tenant, target), True


async def _spaces(connection: Connection, tenant: Tenant) -> list[_OrgSpace]:
    return [
        _OrgSpace(
            Space(row["model"], row["revision"], row["dimensions"]), row["role"], row["space_id"], row["table_name"]
        )
        for row in await fetch_rows(connection, _SQL["spaces_of"], {"org_id": tenant.org_id})
    ]


def _values(calibration: Calibration) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(CALIBRATED_SHARES)
    values |= {field.name: value for field, value in calibration.ListFields() if field.name in values}
    values["measured_at"] = calibration.measured_at.ToDatetime(UTC) if calibration.HasField("measured_at") else None
    values["report"] = Jsonb(MessageToDict(calibration.report))
    return values


async def _info(connection: Connection, tenant: Tenant, space: _OrgSpace) -> SpaceInfo:
    filled: sql.Composable = sql.SQL(_SQL["filled_nothing"])
    if space.table_name is not None:
        filled = sql.SQL(_SQL["filled"]).format(vectors=sql.Identifier("corpus", space.table_name))
    values: dict[str, Any] = {"org_id": tenant.org_id, "space_id": space.space_id}
    counts = await fetch_row(connection, sql.SQL(_SQL["fill"]).format(filled=filled), values)
    failed = await fetch_row(connection, _SQL["failed"], values)
    calibration = await fetch_row(connection, _SQL["calibration"], values)
    scale = await fetch_row(connection, _SCALE, values)
    return SpaceInfo(
        space=space_to_proto(space.space),
        role=space.role,
        live=space.role == SPACE_ROLE_LIVE,
        calibration=None if calibration is None else Calibration(**calibration),
        scale=None if scale is None else SpaceScale(**scale),
        **(counts or {}),
        **(failed or {}),
    )


def _live(spaces: list[_OrgSpace]) -> _OrgSpace | None:
    return next((space for space in spaces if space.role == SPACE_ROLE_LIVE), None)


def _find(spaces: list[_OrgSpace], space: Space) -> _OrgSpace | None:
    return next((each for each in spaces if each.space == space), None)


def _key(tenant: Tenant, space: Space) -> dict[str, Any]:
    return {
        "org_id": tenant.org_id,
        "model": space.model,
        "revision": space.revision,
        "dimensions": space.dimensions,
    }
