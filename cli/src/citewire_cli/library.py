"""The documents that the gateway has: reading the list, and looking a file up in it."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import PurePosixPath

from citewire_cli.api import Api
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str

PAGE_SIZE = 500


async def every_document(api: Api, filters: dict[str, str]) -> AsyncGenerator[JsonObject]:
    """All documents that fit `filters` (query parameters), page after page."""
    params: dict[str, str | int] = {**filters, "page_size": PAGE_SIZE}
    while True:
        page = await api.call("GET", "/v1/documents", params=params)
        for document in get_objects(page, "documents"):
            yield document
        token = get_str(page, "next_page_token")
        if not token:
            return
        params["page_token"] = token


class Library:
    """The documents of one collection (or of none), by name and content."""

    def __init__(self, documents: Iterable[JsonObject]) -> None:
        """Takes documents as the API lists them, newest first."""
        self._by_content: dict[tuple[str, str], JsonObject] = {}
        self._by_path: dict[str, int] = {}
        for document in documents:
            name, number = get_str(document, "file_name"), get_int(document, "id")
            self._by_content.setdefault((name, get_str(document, "sha256")), document)
            if number is not None:
                self._by_path.setdefault(get_str(get_object(document, "metadata"), "path") or name, number)

    def find(self, name: str, sha256: str) -> JsonObject | None:
        """The document with these bytes under this name; folders in the name don't count."""
        return self._by_content.get((PurePosixPath(name).name, sha256))

    def named(self, name: str) -> int | None:
        """The newest document that was uploaded under this name, folders included."""
        return self._by_path.get(name)


async def read_library(api: Api, collection: str | None) -> Library:
    """Reads the documents of a collection; with None, those that are in none."""
    async with aclosing(every_document(api, {"collection": collection} if collection else {})) as documents:
        return Library([document async for document in documents if collection or not get_str(document, "collection")])
