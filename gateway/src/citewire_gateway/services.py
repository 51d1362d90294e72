"""What the routes work with; built once by `app`."""

from dataclasses import dataclass

from citewire_gateway.accounts.store import AccountStore
from citewire_gateway.chat_store import ChatStore
from citewire_gateway.drain import Drain
from citewire_gateway.grpc_clients.corpus import CorpusClient
from citewire_gateway.health import Health
from citewire_gateway.idempotency import IdempotencyStore
from citewire_gateway.identity.authenticator import Authenticator
from citewire_gateway.own_profiles.finding import Profiles
from citewire_gateway.own_providers.keeping import OwnProviders
from citewire_gateway.own_providers.resolve import ProviderResolver
from citewire_gateway.pipeline import ChatPipeline
from citewire_gateway.ports import Embedder, Retriever
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.web.streams import StreamRules
from citewire_gateway.web.uploads import UploadSlots


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a request may need."""

    settings: GatewaySettings
    authenticator: Authenticator
    chats: ChatStore
    accounts: AccountStore
    idempotency: IdempotencyStore
    providers: ProviderResolver
    own_providers: OwnProviders
    profiles: Profiles
    pipeline: ChatPipeline
    embedder: Embedder
    retriever: Retriever
    corpus: CorpusClient
    health: Health
    drain: Drain
    stream_rules: StreamRules
    uploads: UploadSlots
