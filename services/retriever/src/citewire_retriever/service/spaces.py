"""An organisation's embedding spaces: listing them, preparing the next one, switching to it and back."""

from dataclasses import asdict

from citewire.retriever.v1.calibration_pb2 import Calibration, SpaceScale
from citewire.retriever.v1.corpus_pb2 import SpaceInfo

from citewire_kit.errors import FailedPrecondition, Internal, NotFound, PermissionDenied
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.calibrations import built_in_scale, effective
from citewire_retriever.model import Space, space_from_proto
from citewire_retriever.store.spaces import PostgresSpaces

log = get_logger(__name__)


class SpaceService:
    """See the module. Spaces are returned with the calibration that applies."""

    def __init__(self, store: PostgresSpaces) -> None:
        """Takes the store that it works on."""
        self._store = store

    async def spaces(self, tenant: Tenant) -> list[SpaceInfo]:
        """Returns the organisation's spaces, the live one first, with how far each is filled."""
        return [_calibrated(info) for info in await self._store.spaces(tenant)]

    async def prepare(self, tenant: Tenant, space: Space) -> SpaceInfo:
        """Prepares a space alongside the live one. Naming the live space ends any preparation.

        Raises:
            PermissionDenied: The caller isn't an owner or admin of the organisation: preparing costs, and affects all
                searches.
        """
        _check_role(tenant)
        info = await self._store.prepare(tenant, space)
        if info is None:
            raise Internal("the space that was prepared isn't there", reason="INTERNAL")
        log.info(
            "space_prepared",
            org_id=tenant.org_id,
            model=space.model,
            documents=info.documents,
            missing=info.documents - info.documents_filled,
        )
        return _calibrated(info)

    async def switch(self, tenant: Tenant, space: Space, *, force: bool) -> SpaceInfo:
        """Makes a space the live one; the former one keeps serving as the previous one.

        Raises:
            PermissionDenied: The caller isn't an owner or admin of the organisation.
            NotFound: It isn't one of the organisation's spaces, or there are no documents (reason `SPACE_NOT_FOUND`).
            FailedPrecondition: Documents lack vectors in it, and the switch isn't forced (reason `WRONG_STATE`). No
                worker has registered it yet: then force doesn't help.
        """
        _check_role(tenant)
        info, done = await self._store.switch(tenant, space, force=force)
        if info is None:
            raise _not_found()
        missing = info.documents - info.documents_filled
        if not done:
            raise FailedPrecondition(
                f"the space isn't filled: {missing} of {info.documents} documents lack vectors in it",
                reason="WRONG_STATE",
                metadata={"items": str(info.documents), "missing": str(missing)},
            )
        log.info("space_switched", org_id=tenant.org_id, model=space.model, missing=missing, force=force)
        return _calibrated(info)

    async def calibrate(self, tenant: Tenant, space: Space, calibration: Calibration | None) -> SpaceInfo:
        """Replaces a space's stored calibration; with None, the server's built-in one applies.

        Raises:
            PermissionDenied: The caller isn't an owner or admin of the organisation.
            NotFound: It isn't one of the organisation's spaces (reason `SPACE_NOT_FOUND`).
            FailedPrecondition: It is only prepared, and no worker has registered it yet (reason `WRONG_STATE`).
        """
        _check_role(tenant)
        info, done = await self._store.calibrate(tenant, space, calibration)
        if info is None:
            raise _not_found()
        if not done:
            raise FailedPrecondition(
                "no worker has registered the space yet: there is nothing to measure in it", reason="WRONG_STATE"
            )
        log.info("space_calibrated", org_id=tenant.org_id, model=space.model, removed=calibration is None)
        return _calibrated(info)


def _calibrated(info: SpaceInfo) -> SpaceInfo:
    """The space with the calibration that applies: the stored one, else the server's built-in one."""
    stored = info.calibration if info.HasField("calibration") else None
    calibration = effective(space_from_proto(info.space), stored, report=True)
    if calibration is not None:
        info.calibration.CopyFrom(calibration)
    scale = built_in_scale(space_from_proto(info.space))
    if scale is not None and not info.HasField("scale"):
        info.scale.CopyFrom(SpaceScale(**asdict(scale)))
    return info


def _not_found() -> NotFound:
    return NotFound(
        "the organisation has no such embedding space, or no documents yet: prepare it first",
        reason="SPACE_NOT_FOUND",
    )


def _check_role(tenant: Tenant) -> None:
    if not tenant.is_at_least("admin"):
        raise PermissionDenied("only an owner or admin may change the embedding space", reason="PERMISSION_DENIED")
