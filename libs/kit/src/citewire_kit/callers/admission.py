"""Authentication of a service's callers: by a signed token, or as its settings allow."""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

from collections.abc import Sequence
from typing import Any, TypeAlias

import grpc

from citewire_kit import metrics
from citewire_kit.audit_rpcs import UNSIGNED, vouch
from citewire_kit.callers.token import CALLER_KEY, names_of, refused, thumbprint
from citewire_kit.callers.verifier import Peer, Verifier
from citewire_kit.errors import StartupError, Unauthenticated
from citewire_kit.settings import ServiceSettings
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import LOCAL_TENANT, Tenant, from_metadata

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

log = get_logger(__name__)


class Admission:
    """Identifies a service's callers.

    Args:
        settings: The service's settings.
        service: Its name, as in `telemetry.setup`.

    Raises:
        StartupError: The file of issuers can't be read, or is missing while auth is on.
    """

    def __init__(self, settings: ServiceSettings, service: str) -> None:
        self._tls = settings.tls() is not None
        path = settings.caller_issuers
        self._verifier = None if path is None else Verifier(service, path, tls=self._tls)
        self._plain = settings.unsigned_callers == "accepted"
        self._local = settings.auth == "off" and path is None
        if settings.auth == "keys" and path is None and not self._plain:
            raise StartupError(
                "CITEWIRE_CALLER_ISSUERS is required while CITEWIRE_AUTH is keys: "
                "otherwise it can't identify its callers (docs/how-to/callers.md)"
            )
        metrics.UNSIGNED_ACCEPTED.set(self._plain)
        if self._plain:
            log.warning("unsigned_callers_accepted", advice="set CITEWIRE_UNSIGNED_CALLERS=refused after the upgrade")

    async def tenant_of(self, metadata: Sequence[tuple[str, str | bytes]], path: str, context: Context) -> Tenant:
        """Returns the tenant of a call.

        Args:
            metadata: The call's metadata.
            path: The method that is called: `/package.Service/Method`.
            context: The call's context, for its certificate.

        Raises:
            Unauthenticated: The call carries no token (reason `TENANT_MISSING`), or one that proves nothing.
            PermissionDenied: The token's issuer may not do this.
            InvalidArgument: The metadata of an unsigned call is malformed.
        """
        tokens = [value for key, value in metadata if key == CALLER_KEY]
        if len(tokens) > 1:
            raise refused("it is given more than once")
        if tokens and self._verifier is not None:
            return await self._verifier.verify(str(tokens[0]), path, _peer(context) if self._tls else None)
        if self._plain:
            tenant = from_metadata(metadata)
            if tenant is not None:
                metrics.UNSIGNED_CALLS.inc()
                vouch(UNSIGNED)
                return tenant
        if tokens:
            raise refused("this service trusts no issuer; set CITEWIRE_CALLER_ISSUERS")
        if self._local:
            return LOCAL_TENANT
        raise Unauthenticated(
            "the call doesn't identify its caller: it needs the metadata cw-caller", reason="TENANT_MISSING"
        )


def _peer(context: Context) -> Peer | None:
    """Reads the certificate of a call's connection; None if it has none."""
    properties = context.auth_context()
    certificate = next(iter(properties.get("x509_pem_cert", ())), None)
    if certificate is None:
        return None
    return Peer(thumbprint(certificate), names_of(properties.get("x509_subject_alternative_name", ())))
