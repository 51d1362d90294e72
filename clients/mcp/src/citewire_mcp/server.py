"""The server: each tool and resource is a call to the gateway with the caller's own rights."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Final

import httpx
from mcp import MCPError
from mcp.server import MCPServer, ServerRequestContext
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.types import INTERNAL_ERROR, ListResourcesResult, PaginatedRequestParams, Resource, ToolAnnotations
from pydantic import Field

from citewire_client import NOT_GIVEN, ApiError, AsyncCitewire, CitewireError, NotFoundError
from citewire_client.models import Document
from citewire_mcp.results import Answer, DocumentPage, Passage, Passages, document_info, read_answer, uri_of
from citewire_mcp.tokens import GatewayTokenVerifier

INSTRUCTIONS: Final = (
    "Documents of an organisation. `ask` answers a question from them, with quotes that were looked up and verified; "
    "`search` finds passages; `open_passage` shows a complete passage; `list_documents` lists the documents. "
    "When you use their results, name the file and the place."
)
_READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_PAGE: Final = 100
_CHAT_SECONDS: Final = 310.0
_PROGRESS_SECONDS: Final = 2.0

Query = Annotated[str, Field(min_length=1, max_length=8_000, description="The text to search for, in any language.")]
Question = Annotated[str, Field(min_length=1, max_length=8_000, description="The question, in any language.")]
Collection = Annotated[str | None, Field(description="Only documents of this collection.")]
DocumentIds = Annotated[list[int] | None, Field(max_length=1_000, description="Only these documents.")]
CallContext = Context[Any, Any]


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway, and the credentials for calls."""

    url: str
    http: httpx.AsyncClient
    api_key: str | None
    """The key for all calls; None: each call uses only the bearer token of its own request."""

    def client(self, headers: Mapping[str, str] | None) -> AsyncCitewire:
        """Returns a client for one call with these request headers."""
        key = self.api_key
        if key is None:
            scheme, _, token = (headers or {}).get("authorization", "").partition(" ")
            key = token.strip() if scheme.lower() == "bearer" else ""
        return AsyncCitewire(self.url, api_key=key, http=self.http, timeout=_CHAT_SECONDS)


class CitewireServer(MCPServer[None]):
    """Citewire's tools, with its documents as resources."""

    def __init__(self, gateway: Gateway, *, auth: AuthSettings | None = None) -> None:
        """Creates the server.

        Args:
            gateway: The gateway that receives the calls.
            auth: Over HTTP, the issuer of callers' tokens; None: tokens are optional.
        """
        super().__init__(
            "citewire",
            title="Citewire",
            instructions=INSTRUCTIONS,
            version=version("citewire-mcp"),
            auth=auth,
            token_verifier=None if auth is None else GatewayTokenVerifier(gateway.url, gateway.http),
            log_level="WARNING",
        )
        self._gateway = gateway
        for name, tool in (
            ("search", self._search),
            ("ask", self._ask),
            ("open_passage", self._open_passage),
            ("list_documents", self._list_documents),
        ):
            self.add_tool(tool, name=name, annotations=_READ_ONLY, structured_output=True)
        self.resource("citewire://documents/{document_id}", name="document", mime_type="text/plain")(self._read_text)

    async def _search(
        self,
        query: Query,
        context: CallContext,
        top_k: Annotated[int, Field(ge=1, le=50)] = 10,
        collection: Collection = None,
        document_ids: DocumentIds = None,
    ) -> Passages:
        """Finds passages of the documents by meaning and by words, most relevant first."""
        with _failures():
            answer = await self._gateway.client(context.headers).search(
                query, top_k=top_k, mode="hybrid", collection=collection, document_ids=document_ids or NOT_GIVEN
            )
        return Passages(passages=[Passage.read(result) for result in answer.results])

    async def _ask(
        self,
        question: Question,
        context: CallContext,
        collection: Collection = None,
        document_ids: DocumentIds = None,
        conversation_id: Annotated[
            str | None, Field(description="The id in an earlier answer, to continue its conversation.")
        ] = None,
        profile: Annotated[
            str | None, Field(description="The profile that answers; none: the gateway's default.")
        ] = None,
    ) -> Answer:
        """Answers a question from the documents; each sentence has the quote that it was checked against."""
        with _failures():
            async with _progress(context):
                answer = await self._gateway.client(context.headers).chat(
                    question,
                    collection=collection,
                    document_ids=document_ids or NOT_GIVEN,
                    conversation_id=conversation_id,
                    profile=profile,
                    include=["citation"],
                )
        return read_answer(answer)

    async def _open_passage(self, chunk_id: int, context: CallContext) -> Passage:
        """Shows a complete passage, by the `chunk_id` of a result or a quote."""
        with _failures():
            return Passage.read(await self._gateway.client(context.headers).get_chunk(chunk_id))

    async def _list_documents(
        self,
        context: CallContext,
        collection: Collection = None,
        containing: Annotated[str | None, Field(max_length=200, description="Text in the title or file name.")] = None,
        page_token: Annotated[str | None, Field(description="`next_page_token` of the previous page.")] = None,
    ) -> DocumentPage:
        """Lists the documents that the caller may read, newest first."""
        with _failures():
            page = await self._gateway.client(context.headers).list_documents(
                collection=collection, q=containing, page_token=page_token, page_size=_PAGE
            )
        return DocumentPage(
            documents=[document_info(document) for document in page.documents], next_page_token=page.next_page_token
        )

    async def _read_text(self, document_id: int, context: CallContext) -> str:
        """The text extracted from a document; the offsets of quotes refer to it."""
        try:
            return await self._gateway.client(context.headers).get_text(document_id)
        except NotFoundError:
            raise ResourceNotFoundError(f"there is no document {document_id} that you may read") from None
        except CitewireError as error:
            raise ResourceError(_text_of(error)) from None

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[None], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Lists documents as resources, page by page; the SDK itself lists only resources registered in advance."""
        context = Context(request_context=ctx, mcp_server=self)
        try:
            page = await self._gateway.client(context.headers).list_documents(
                page_token=params.cursor if params else None, page_size=_PAGE, status="ready"
            )
        except CitewireError as error:
            raise MCPError(INTERNAL_ERROR, _text_of(error)) from None
        return ListResourcesResult(
            resources=[
                Resource(uri=uri_of(document.id), name=_name_of(document), title=document.title, mime_type="text/plain")
                for document in page.documents
            ],
            next_cursor=page.next_page_token or None,
        )


def _name_of(document: Document) -> str:
    """A resource's name, which mustn't be empty: a text that was typed in has no file name."""
    return document.file_name or document.title or f"document {document.id}"


@contextmanager
def _failures() -> Generator[None]:
    """Describes the error so that a model can act on it."""
    try:
        yield
    except CitewireError as error:
        raise ToolError(_text_of(error)) from None


def _text_of(error: CitewireError) -> str:
    if not isinstance(error, ApiError):
        return str(error)
    fields = "; ".join(f"{refused.field}: {refused.message}" for refused in error.errors)
    text = str(error) if not fields or fields in str(error) else f"{error} ({fields})"
    again = "" if error.retry_after is None else f" Try again in {error.retry_after:g} seconds."
    return f"{text}{again}"


@asynccontextmanager
async def _progress(context: CallContext) -> AsyncGenerator[None]:
    """Reports progress to the caller during a long call."""

    async def tell() -> None:
        seconds = 0.0
        while True:
            await context.report_progress(seconds, message="Reading the documents and writing the answer.")
            await asyncio.sleep(_PROGRESS_SECONDS)
            seconds += _PROGRESS_SECONDS

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
