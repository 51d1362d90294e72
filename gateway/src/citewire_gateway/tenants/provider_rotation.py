"""Rotation of master keys: every sealed row is wrapped again under the newest one, while everything runs.

The secrets themselves aren't opened for it, and nobody here could: embedder and generator do the wrapping.
"""

from dataclasses import dataclass

from citewire_gateway.clients.ports import Sealer
from citewire_gateway.tenants.provider_store import Place, ProviderStore, tenant_of
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import use_tenant

log = get_logger(__name__)


@dataclass(slots=True)
class Rotation:
    """What a rotation did, in rows.

    Attributes:
        wrapped: Wrapped again under the newest key.
        current: They already were, or were saved anew meanwhile.
        gone: Deleted meanwhile.
        failed: They couldn't be: an older master key may not be taken away yet.
    """

    wrapped: int = 0
    current: int = 0
    gone: int = 0
    failed: int = 0


async def rotate(store: ProviderStore, sealer: Sealer) -> Rotation:
    """Wraps everything again. A row that fails is logged and counted; the others go on."""
    done = Rotation()
    for place in await store.places():
        try:
            await _rotate_one(store, sealer, place, done)
        except CitewireError as exc:
            done.failed += 1
            log.error(  # noqa: TRY400 - the reason says it all
                "provider_not_rewrapped", org=place.org_id, user=place.user_id, type=place.type, reason=exc.reason
            )
    return done


async def _rotate_one(store: ProviderStore, sealer: Sealer, place: Place, done: Rotation) -> None:
    old = await store.get(place)
    if old is None:
        done.gone += 1
        return
    with use_tenant(tenant_of(place)):
        new = await sealer.rewrap(old)
    if new is not None and await store.swap(place, old, new):
        done.wrapped += 1
    else:
        done.current += 1
