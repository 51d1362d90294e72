"""Embedding spaces: which ones an organisation has, preparing the next one, switching to it and back."""

from dataclasses import replace
from typing import Final

from citewire_kit.errors import FailedPrecondition, Internal, NotFound, PermissionDenied
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.calibrations import effective
from citewire_retriever.model import Calibration, Space, SpaceFill
from citewire_retriever.store.base import SpaceStore

log = get_logger(__name__)

_MANAGERS: Final = frozenset({"owner", "admin"})


class SpaceService:
    """See the module."""

    def __init__(self, store: SpaceStore) -> None:
        """Takes the store that it works on."""
        self._store = store

    async def fills(self, tenant: Tenant) -> list[SpaceFill]:
        """Returns the organisation's spaces, the live one first, and how far each is filled."""
        return [_calibrated(fill) for fill in await self._store.fills(tenant)]

    async def prepare(self, tenant: Tenant, space: Space) -> SpaceFill:
        """Has a space filled beside the live one. The live space itself ends any preparation.

        Raises:
            PermissionDenied: The caller is no owner or admin of the organisation: it costs, and changes all searches.
        """
        _check_role(tenant)
        fill = await self._store.prepare(tenant, space)
        if fill is None:
            raise Internal("the space that was prepared isn't there", reason="INTERNAL")
        log.info(
            "space_prepared", org_id=tenant.org_id, model=space.model, documents=fill.documents, missing=fill.missing
        )
        return _calibrated(fill)

    async def switch(self, tenant: Tenant, space: Space, *, force: bool) -> SpaceFill:
        """Makes a space the live one; the one that was goes on serving as the previous one.

        Raises:
            PermissionDenied: The caller is no owner or admin of the organisation.
            NotFound: It is none of the organisation's spaces, or there are no documents yet (reason `SPACE_NOT_FOUND`).
            FailedPrecondition: Documents lack vectors in it, and the switch isn't forced (reason `WRONG_STATE`). No
                worker has registered it yet: then force doesn't help.
        """
        _check_role(tenant)
        switched = await self._store.switch(tenant, space, force=force)
        if switched.fill is None:
            raise _not_found()
        if not switched.done:
            fill = switched.fill
            raise FailedPrecondition(
                f"the space isn't filled: {fill.missing} of {fill.documents} documents lack vectors in it",
                reason="WRONG_STATE",
                metadata={"items": str(fill.documents), "missing": str(fill.missing)},
            )
        log.info("space_switched", org_id=tenant.org_id, model=space.model, missing=switched.fill.missing, force=force)
        return _calibrated(switched.fill)

    async def calibrate(self, tenant: Tenant, space: Space, calibration: Calibration | None) -> SpaceFill:
        """Stores what a space's scores mean, in place of what was stored; None: what comes with the server counts.

        Raises:
            PermissionDenied: The caller is no owner or admin of the organisation.
            NotFound: It is none of the organisation's spaces (reason `SPACE_NOT_FOUND`).
            FailedPrecondition: It is only prepared, and no worker has registered it yet (reason `WRONG_STATE`).
        """
        _check_role(tenant)
        calibrated = await self._store.calibrate(tenant, space, calibration)
        if calibrated.fill is None:
            raise _not_found()
        if not calibrated.done:
            raise FailedPrecondition(
                "no worker has registered the space yet: there is nothing to measure in it", reason="WRONG_STATE"
            )
        log.info("space_calibrated", org_id=tenant.org_id, model=space.model, removed=calibration is None)
        return _calibrated(calibrated.fill)


def _calibrated(fill: SpaceFill) -> SpaceFill:
    """The space with what counts: what is stored, or else what comes with the server."""
    return replace(fill, calibration=effective(fill.space, fill.calibration))


def _not_found() -> NotFound:
    return NotFound(
        "the organisation has no such embedding space, or no documents yet: prepare it first",
        reason="SPACE_NOT_FOUND",
    )


def _check_role(tenant: Tenant) -> None:
    if not _MANAGERS & set(tenant.roles):
        raise PermissionDenied("only an owner or admin may change the embedding space", reason="PERMISSION_DENIED")
