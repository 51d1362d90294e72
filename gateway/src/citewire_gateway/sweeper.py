"""What runs beside the requests: closing what dead gateways left open, and writing when keys were last used."""

import asyncio
import random

from citewire_gateway.chat.store import ChatStore
from citewire_gateway.tenants.identity import Authenticator, IdentityStore
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import LOCAL_TENANT

log = get_logger(__name__)

_RETRY_SECONDS = 1.0


async def run_sweeper(
    chats: ChatStore, authenticator: Authenticator, identity: IdentityStore, *, seconds: float, local: bool
) -> None:
    """Sweeps until cancelled.

    Args:
        chats: Whose exchanges are swept.
        authenticator: Whose notes are written.
        identity: Where organisations are made.
        seconds: Pause between two rounds, on average: several gateways shall not all come at the same moment.
        local: Whether auth is off: the local organisation is then made, on plan pro.
    """
    while local:
        try:
            await identity.ensure_user(LOCAL_TENANT.org_id, LOCAL_TENANT.user_id, LOCAL_TENANT.plan)
            break
        except CitewireError as exc:
            log.warning("local_organisation_not_made", reason=exc.reason)
            await asyncio.sleep(_RETRY_SECONDS)
    while True:
        await authenticator.flush()
        try:
            exchanges, keys = await chats.sweep()
            if exchanges or keys:
                log.info("swept", exchanges=exchanges, idempotency_keys=keys)
        except CitewireError as exc:
            log.warning("not_swept", reason=exc.reason)
        await asyncio.sleep(seconds * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
