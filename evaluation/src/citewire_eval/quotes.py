"""Checks whether quotes are verbatim at their offsets in the chunk and in the document's version."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_str
from citewire_eval.client import RetryingClient

_CACHE_SIZE = 4096


class QuoteCheck:
    """Looks up quotes. Texts are cached, as answers cite the same passages repeatedly."""

    def __init__(self, client: RetryingClient) -> None:
        """Fetches through `client`."""
        self._client = client
        self._cache: OrderedDict[str, asyncio.Task[str | None]] = OrderedDict()

    async def is_verbatim(self, citation: JsonObject) -> bool:
        """Whether a citation's quote is found at all offsets that the citation gives.

        These are always those in the chunk, and those in the text of the document's version if `document_start` is set.
        """
        quote = get_str(citation, "quote")
        chunk_id, document_id = get_int(citation, "chunk_id"), get_int(citation, "document_id")
        if chunk_id is None or not _matches(quote, await self._fetch(f"/v1/chunks/{chunk_id}"), citation, "quote"):
            return False
        if "document_start" not in citation or document_id is None:
            return "document_start" not in citation
        text = await self._fetch(f"/v1/documents/{document_id}/text", get_int(citation, "version"))
        return _matches(quote, text, citation, "document")

    async def _fetch(self, path: str, version: int | None = None) -> str | None:
        key = f"{path}?{version}"
        task = self._cache.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            text = self._chunk(path) if "/chunks/" in path else self._document(path, version)
            task = self._cache[key] = asyncio.ensure_future(_none_if_missing(text))
            while len(self._cache) > _CACHE_SIZE:
                self._cache.popitem(last=False)
        return await asyncio.shield(task)

    async def _chunk(self, path: str) -> str:
        return get_str(await self._client.call("GET", path), "content")

    async def _document(self, path: str, version: int | None) -> str:
        return await self._client.text(path, params=None if version is None else {"version": version})


async def _none_if_missing(text: Awaitable[str]) -> str | None:
    """Treats a missing text as one without the quote; raises any other failure."""
    try:
        return await text
    except CliError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
        return None


def _matches(quote: str, text: str | None, citation: JsonObject, prefix: str) -> bool:
    start, end = get_int(citation, f"{prefix}_start"), get_int(citation, f"{prefix}_end")
    return text is not None and start is not None and end is not None and 0 <= start < end and text[start:end] == quote
