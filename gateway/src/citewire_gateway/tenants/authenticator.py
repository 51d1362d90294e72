"""Who calls: from an Authorization header to a tenant."""

from datetime import UTC, datetime

from citewire_gateway.tenants.identity_store import IdentityStore
from citewire_gateway.tenants.keys import hash_key, is_key
from citewire_kit.errors import CitewireError, Unauthenticated
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import LOCAL_TENANT, Tenant

log = get_logger(__name__)

_MAX_NOTED = 10_000


class Authenticator:
    """Finds the tenant of a request.

    Every request looks its key up, so a revocation counts from the next request on, on every gateway. When a key was
    last used is noted in memory and written now and then by `flush`: a read doesn't become a write.
    """

    def __init__(self, store: IdentityStore, *, off: bool) -> None:
        self._store = store
        self._off = off
        self._used: dict[bytes, datetime] = {}

    async def tenant_of(self, authorization: str | None) -> Tenant:
        """Returns the caller; with auth off that is always the local tenant, whatever the header says.

        Raises:
            Unauthenticated: Reason `API_KEY_MISSING`, `API_KEY_INVALID` or `API_KEY_REVOKED`.
        """
        if self._off:
            return LOCAL_TENANT
        hashed = hash_key(_key_in(authorization))
        found = await self._store.find(hashed)
        if found is None:
            raise Unauthenticated("the API key is unknown", reason="API_KEY_INVALID")
        if found.revoked:
            raise Unauthenticated("the API key was revoked", reason="API_KEY_REVOKED")
        if len(self._used) < _MAX_NOTED or hashed in self._used:
            self._used[hashed] = datetime.now(UTC)
        return found.tenant

    async def flush(self) -> None:
        """Writes when keys were last used. What can't be written now is kept for the next time."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._store.touch(used)
        except CitewireError as exc:
            self._used = {**used, **self._used}
            log.warning("key_usage_not_written", keys=len(used), reason=exc.reason)


def _key_in(authorization: str | None) -> str:
    if not authorization:
        raise Unauthenticated(
            "this server needs an API key: send the header 'Authorization: Bearer cw_…'", reason="API_KEY_MISSING"
        )
    scheme, _, key = authorization.partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not is_key(key):
        raise Unauthenticated("the Authorization header holds no API key of the form 'Bearer cw_…'",
                              reason="API_KEY_INVALID")  # fmt: skip
    return key
