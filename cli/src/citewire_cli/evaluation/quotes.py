"""Whether quotes are verbatim: found at their offsets in the chunk, and in the document's version."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.evaluation.gateway import Gateway
from citewire_cli.jsonio import JsonObject, get_int, get_str

T = TypeVar("T")
_KEPT = 4096


class QuoteCheck:
    """Looks quotes up; what was fetched is kept, as answers cite the same passages again and again."""

    def __init__(self, gateway: Gateway) -> None:
        """Fetches through `gateway`."""
        self._gateway = gateway
        self._chunks: OrderedDict[object, asyncio.Task[str | None]] = OrderedDict()

    async def verbatim(self, citation: JsonObject) -> bool:
        """Whether a citation's quote is found at its offsets, wherever it gives offsets.

        In the chunk always; in the text of the document's version where `document_start` is given.
        """
        quote = get_str(citation, "quote")
        chunk_id, document_id = get_int(citation, "chunk_id"), get_int(citation, "document_id")
        chunk = await self._kept(("chunk", chunk_id), lambda: self._chunk(chunk_id))
        if chunk is None or not _stands(quote, chunk, citation, "quote"):
            return False
        if "document_start" not in citation:
            return True
        version = get_int(citation, "version")
        whole = await self._kept(("document", document_id, version), lambda: self._document(document_id, version))
        return whole is not None and _stands(quote, whole, citation, "document")

    async def _kept(self, key: object, fetch: Callable[[], Awaitable[str | None]]) -> str | None:
        task = self._chunks.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._chunks[key] = asyncio.ensure_future(fetch())
            while len(self._chunks) > _KEPT:
                self._chunks.popitem(last=False)
        return await asyncio.shield(task)

    async def _chunk(self, chunk_id: int | None) -> str | None:
        if chunk_id is None:
            return None
        try:
            body = await self._gateway.call("GET", f"/v1/chunks/{chunk_id}")
        except CliError as error:
            return _absent(error)
        return get_str(body, "content")

    async def _document(self, document_id: int | None, version: int | None) -> str | None:
        if document_id is None:
            return None
        params = None if version is None else {"version": version}
        try:
            return await self._gateway.text(f"/v1/documents/{document_id}/text", params=params)
        except CliError as error:
            return _absent(error)


def _stands(quote: str, text: str, citation: JsonObject, prefix: str) -> bool:
    start, end = get_int(citation, f"{prefix}_start"), get_int(citation, f"{prefix}_end")
    return start is not None and end is not None and 0 <= start < end and text[start:end] == quote


def _absent(error: CliError) -> None:
    """What isn't there can't hold the quote; any other failure is a failure."""
    if error.code is not ExitCode.NOT_FOUND:
        raise error
