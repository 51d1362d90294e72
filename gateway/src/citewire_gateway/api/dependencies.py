"""The services, as routes depend on them."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

from fastapi import Depends, Request

from citewire_accounts.api.dependencies import AccountServices, TenantDep
from citewire_dialects.events import Event
from citewire_gateway.chat.erasing import QuoteEraser
from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.reading import ConversationReader
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.generator import Generator
from citewire_gateway.clients.retriever import CorpusClient, Retriever
from citewire_gateway.profiles.store import Profiles
from citewire_gateway.settings import GatewaySettings
from citewire_http.api.parameters import IdempotencyDep
from citewire_http.api.schemas import MAX_ID
from citewire_http.idempotency import IdempotencyStore
from citewire_http.runs.live import LiveRuns
from citewire_http.runs.reading import RunReader
from citewire_http.runs.store import RunStore
from citewire_http.server import Drain
from citewire_http.upload_slots import UploadSlots
from citewire_kit.audit import AuditTrail
from citewire_kit.errors import NotFound
from citewire_kit.service_health import Health
from citewire_kit.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Services(AccountServices):
    """Everything a request may need; built once by `app`."""

    settings: GatewaySettings
    trail: AuditTrail
    chats: ChatStore
    reader: ConversationReader
    run_store: RunStore
    runs: RunReader[Event]
    live_runs: LiveRuns[Event]
    eraser: QuoteEraser
    idempotency: IdempotencyStore
    profiles: Profiles
    pipeline: ChatPipeline
    embedder: Embedder
    retriever: Retriever
    generator: Generator
    corpus: CorpusClient
    health: Health
    drain: Drain
    uploads: UploadSlots


async def get_services(request: Request) -> Services:
    """Returns what `app` built."""
    state: Any = request.app.state
    services = state.services
    if not isinstance(services, Services):
        raise TypeError("the application has no services")
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is performed once: its sender, its route and its Idempotency-Key."""

    request: Request
    tenant: Tenant
    services: Services
    key: str | None = None

    @classmethod
    async def of(cls, request: Request, tenant: TenantDep, key: IdempotencyDep = None) -> Self:
        """Returns the call of a request; a coroutine, because FastAPI runs plain functions and classes in a thread."""
        return cls(request, tenant, await get_services(request), key)


def read_id(text: str) -> int | None:
    """Reads the id of a document or chunk; None if it is invalid."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 16 else 0
    return number if 1 <= number <= MAX_ID else None


def document_number(text: str) -> int:
    """Reads a document's id; an invalid one is treated as not existing."""
    number = read_id(text)
    if number is None:
        raise no_document(text)
    return number


def no_document(text: str) -> NotFound:
    """Returns the error for a document that doesn't exist."""
    return NotFound(
        f"there is no document {text[:64]}", reason="DOCUMENT_NOT_FOUND", metadata={"document_ids": text[:64]}
    )
