"""The composition root of accounts: builds the services for their routes, with dependencies from the application."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from citewire.retriever.v1.corpus_pb2 import GetStorageResponse

from citewire_accounts.api.dependencies import AccountServices
from citewire_accounts.people.authenticator import Authenticator
from citewire_accounts.people.provider import Provider, open_http
from citewire_accounts.people.sealer import Sealer
from citewire_accounts.people.sessions import SessionStore
from citewire_accounts.people.sign_in import SignIn
from citewire_accounts.settings import AccountSettings
from citewire_accounts.tenants.accounts import AccountStore
from citewire_accounts.tenants.audit import AuditReader, AuditRetention
from citewire_accounts.tenants.erasures import EraseDocuments, Erasures
from citewire_accounts.tenants.exports import Rows, UserExports
from citewire_accounts.tenants.feedback import FeedbackStore
from citewire_accounts.tenants.groups import GroupStore
from citewire_accounts.tenants.identity import IdentityStore
from citewire_accounts.tenants.limits import LimitSettingStore
from citewire_accounts.tenants.members import MemberStore
from citewire_accounts.tenants.operators import OperatorStore
from citewire_accounts.tenants.provider_service import LiveSpace, ProviderSealer, TenantProviders
from citewire_accounts.tenants.providers import ProviderStore
from citewire_accounts.tenants.retention import EraseDocuments as EraseOldDocuments
from citewire_accounts.tenants.retention import Retention
from citewire_http.supervision import StreamRules
from citewire_kit.audit import AuditTrail
from citewire_kit.limit_store import LimitStore
from citewire_kit.limiter import Limiter
from citewire_kit.postgres import Pool
from citewire_kit.tenant import LOCAL_TENANT, Tenant

Round = Callable[[], Awaitable[object]]
"""One round of a sweeper."""


@dataclass(frozen=True, slots=True)
class Application:
    """Dependencies from the application: access to services and content."""

    stream_rules: StreamRules
    limit_store: LimitStore
    sealer: ProviderSealer
    live_space: LiveSpace
    erase_documents: EraseDocuments
    erase_old_documents: EraseOldDocuments
    export_messages: Callable[[Tenant, str], Rows]
    """See `UserExports.messages`."""
    export_documents: Callable[[str], Rows]
    stored_bytes: Callable[[], Awaitable[GetStorageResponse]]
    settle_seconds: float
    """See `Erasures.settle_seconds`."""
    other_origins: Collection[str]
    """Other origins that may use a session."""


async def build_accounts(
    settings: AccountSettings, pool: Pool, trail: AuditTrail, application: Application, stack: AsyncExitStack
) -> tuple[AccountServices, Mapping[str, Round]]:
    """Builds everything; the stack closes it. Returns it with the rounds of its sweepers, by name."""
    local = settings.auth == "off"
    identity, sessions, accounts = IdentityStore(pool), SessionStore(pool), AccountStore(pool)
    operators, plan_limits = OperatorStore(pool), settings.limits_by_plan()
    identity_providers = await _open_identity_providers(settings, stack)
    sign_in = _sign_in(settings, identity_providers, sessions)
    authenticator = Authenticator(
        identity, operators, off=local, sessions=sessions, sign_in=sign_in, providers=identity_providers.values()
    )
    stack.push_async_callback(authenticator.flush)
    own_limits = LimitSettingStore(pool)
    services = AccountServices(
        audit=AuditReader(pool),
        authenticator=authenticator,
        identity=identity,
        members=MemberStore(pool),
        operators=operators,
        groups=GroupStore(pool),
        sign_in=sign_in,
        other_origins=application.other_origins,
        limiter=Limiter(application.limit_store, None if local else plan_limits, own_limits.of),
        own_limits=own_limits,
        plan_limits=plan_limits,
        erasures=Erasures(pool, application.erase_documents, accounts, application.settle_seconds),
        exports=UserExports(pool, application.export_messages, application.export_documents),
        feedback=FeedbackStore(pool),
        retention=Retention(pool, trail, application.erase_old_documents),
        accounts=accounts,
        providers=TenantProviders(
            ProviderStore(pool), application.sealer, application.live_space, settings.offered_types()
        ),
        stream_rules=application.stream_rules,
        stored_bytes=application.stored_bytes,
    )
    rounds: dict[str, Round] = {
        "keys": authenticator.flush,
        "sessions": sessions.sweep,
        "erasures": services.erasures.sweep,
        "retention": services.retention.sweep,
    }
    if settings.audit != "off":
        rounds["audit"] = AuditRetention(pool, trail, settings.audit_days).cut
    return services, rounds


def make_local_tenant(identity: IdentityStore) -> Round:
    """Returns the factory of the local tenant, used by everybody without authentication."""
    return partial(identity.ensure_user, LOCAL_TENANT.org_id, LOCAL_TENANT.user_id, LOCAL_TENANT.plan)


async def _open_identity_providers(settings: AccountSettings, stack: AsyncExitStack) -> dict[str, Provider]:
    """The identity providers by name, with one pool of connections for all."""
    issuers = settings.issuers()
    if not issuers:
        return {}
    http = await stack.enter_async_context(open_http())
    return {issuer.name: Provider(issuer, http) for issuer in issuers}


def _sign_in(settings: AccountSettings, providers: dict[str, Provider], sessions: SessionStore) -> SignIn | None:
    if not settings.signs_in():
        return None
    return SignIn(
        providers,
        sessions,
        Sealer(settings.sealing_secrets()),
        public_url=settings.public_url,
        lifetime=timedelta(hours=settings.session_hours),
    )
