"""What the pipeline needs from other processes, as abstract classes; `grpc_clients/` fulfils them."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from uuid import UUID

from citewire_gateway.clients.domain import (
    Chunk,
    Hit,
    LongContext,
    Plan,
    RerankScore,
    Scope,
    SearchQuery,
    Space,
    Strategy,
    Vector,
    Vectors,
)
from citewire_gateway.clients.generation import (
    Assessment,
    Decision,
    GenerateEvent,
    GenerateQuery,
    Message,
    RewriteKind,
    Rewritten,
    Suggestions,
)
from citewire_gateway.tenants.providers import Chosen, ProviderRef, ProviderSpec, Sealed
from citewire_kit.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Cost:
    """What a chat's calls to providers have cost so far.

    Attributes:
        calls: How many have been settled.
        nano: Nano-USD, by the catalogue; None if a call's price isn't known.
    """

    calls: int
    nano: int | None


class Costs(ABC):
    """Knows what chats cost."""

    @abstractmethod
    async def cost_of(self, tenant: Tenant, exchange_id: UUID) -> Cost:
        """Returns what a chat has cost so far. Raises `CitewireError`."""


class Embedder(ABC):
    """Text to vectors. All methods raise `CitewireError`."""

    @abstractmethod
    async def embed_question(
        self, question: str, space: Space | None = None, provider: ProviderRef | None = None, model: str = ""
    ) -> Vector:
        """Embeds a question in `space`, or with `model`, or the default one. What passes its window is left out.

        With `provider` the tenant's own embeds it, in its own space.
        """

    @abstractmethod
    async def embed_texts(
        self,
        texts: Sequence[str],
        *,
        query: bool,
        model: str = "",
        dimensions: int | None = None,
        provider: ProviderRef | None = None,
    ) -> Vectors:
        """Embeds texts: questions if `query`, else passages.

        Raises:
            InvalidArgument: A text is longer than the model reads; nothing is left out silently.
        """

    @abstractmethod
    async def rerank(
        self,
        question: str,
        texts: Sequence[str],
        top_n: int,
        provider: ProviderRef | None = None,
        first_scores: Sequence[float] = (),
        headings: Sequence[str] = (),
        *,
        dispensable: bool = False,
    ) -> Sequence[RerankScore]:
        """Scores texts by their relevance to the question, best first.

        `first_scores` are the texts' in a first ranking, if there was one; the embedder's own model weighs them too.
        `headings` are what stands above each text, and is read before it. What is `dispensable` gets less time: its
        caller goes on without.
        """


class Retriever(ABC):
    """Finds chunks. All methods raise `CitewireError`."""

    @abstractmethod
    async def plan(self, scope: Scope, strategy: Strategy, max_tokens: int | None = None) -> Plan:
        """Decides which context path a question takes over `scope`; `max_tokens` bounds long context."""

    @abstractmethod
    async def search(self, query: SearchQuery) -> Sequence[Hit]:
        """Searches, best first.

        Raises:
            FailedPrecondition: The vector's space isn't served (reason `SPACE_MISMATCH`, the current one in metadata).
            NotFound: `document_ids` holds ids outside the caller's scope; they are named.
        """

    @abstractmethod
    async def get_context(self, scope: Scope, max_tokens: int) -> LongContext:
        """Gets whole items as long context, latest first, as many as fit `max_tokens`."""

    @abstractmethod
    async def get_chunks(self, chunk_ids: Sequence[int]) -> Sequence[Chunk]:
        """Gets chunks by id, in the order asked."""


class Generator(ABC):
    """Writes answers. All methods raise `CitewireError`."""

    @abstractmethod
    def generate(self, query: GenerateQuery, own: Chosen) -> AsyncGenerator[GenerateEvent, None]:
        """Streams an answer: `Started` first, `Completed` last, or it raises. Closing it stops the model."""

    @abstractmethod
    async def suggest_questions(
        self, question: str, passages: Sequence[Hit], count: int, language: str, own: Chosen
    ) -> Suggestions:
        """Suggests questions that the passages answer."""

    @abstractmethod
    async def decide(self, question: str, model: str, own: Chosen) -> Decision:
        """Decides whether a question needs retrieval."""

    @abstractmethod
    async def assess(self, question: str, answer: str, passages: Sequence[Hit], model: str, own: Chosen) -> Assessment:
        """Assesses an answer against the passages that it was written from."""

    @abstractmethod
    async def rewrite(
        self, kind: RewriteKind, question: str, history: Sequence[Message], model: str, own: Chosen
    ) -> Rewritten:
        """Rewrites a question."""


class Sealer(ABC):
    """Seals tenants' providers: the one that will make the calls does. All methods raise `CitewireError`."""

    @abstractmethod
    async def seal(self, spec: ProviderSpec) -> Sealed:
        """Tries a provider out, unless told not to, and seals its key and address.

        Raises:
            InvalidArgument: A field is wrong, or the address may not be connected to (`PROVIDER_ADDRESS`).
        """

    @abstractmethod
    async def rewrap(self, ref: ProviderRef) -> ProviderRef | None:
        """Seals the same under the newest master key; None if it already was."""
