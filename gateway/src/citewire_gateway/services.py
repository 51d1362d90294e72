"""What the routes work with; built once by `app`."""

from dataclasses import dataclass

from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.generator import Generator
from citewire_gateway.clients.health import Health
from citewire_gateway.clients.retriever import CorpusClient, Retriever
from citewire_gateway.http.idempotency import IdempotencyStore
from citewire_gateway.http.multipart import UploadSlots
from citewire_gateway.http.server import Drain, StreamRules
from citewire_gateway.profiles.store import Profiles
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.tenants.accounts import AccountStore
from citewire_gateway.tenants.identity import Authenticator
from citewire_gateway.tenants.provider_service import TenantProviders


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a request may need."""

    settings: GatewaySettings
    authenticator: Authenticator
    chats: ChatStore
    accounts: AccountStore
    idempotency: IdempotencyStore
    providers: TenantProviders
    profiles: Profiles
    pipeline: ChatPipeline
    embedder: Embedder
    retriever: Retriever
    generator: Generator
    corpus: CorpusClient
    health: Health
    drain: Drain
    stream_rules: StreamRules
    uploads: UploadSlots
