"""The gateway's documents: lists them, and looks a file up among them."""

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from citewire_cli.api import Api
from citewire_cli.files import Source, fingerprint
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str

PAGE_SIZE = 500
EVER = {"any_validity": "true"}
"""A filter of lists that includes documents that aren't valid."""


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
    """The documents of one collection (or of none), by upload path."""

    def __init__(self, documents: Iterable[JsonObject]) -> None:
        """Takes documents as the API lists them, newest first."""
        self._by_path: dict[str, list[JsonObject]] = {}
        self._by_place: dict[tuple[str, str], JsonObject] = {}
        self._by_url: dict[str, JsonObject] = {}
        self._roots: set[str] = set()
        """Fingerprints of the folders that documents were uploaded from."""
        for document in documents:
            metadata = get_object(document, "metadata")
            path = get_str(metadata, "path") or get_str(document, "file_name")
            self._by_path.setdefault(path, []).append(document)
            if url := get_str(document, "url"):
                self._by_url.setdefault(url, document)
            if root := get_str(metadata, "root"):
                self._roots.add(root)
                self._by_place.setdefault((root, path), document)

    def place(self, source: Source) -> Source:
        """Names a file as before, or like its neighbours.

        So it has one name, whether its own folder or a parent is uploaded.
        """
        file = source.root / source.name
        above = list(source.root.parents)  # the nearest first
        below = [folder for folder in file.parents if source.root in folder.parents]
        for folder in (source.root, *above, *below):
            if (fingerprint(folder), file.relative_to(folder).as_posix()) in self._by_place:
                return source.below(folder)
        return next((source.below(folder) for folder in above if fingerprint(folder) in self._roots), source)

    def find(self, source: Source, sha256: str) -> JsonObject | None:
        """The document of this name, or from this place, with these bytes."""
        return next((document for document in self._candidates(source) if get_str(document, "sha256") == sha256), None)

    def at(self, url: str) -> JsonObject | None:
        """The newest document from a web address."""
        return self._by_url.get(url)

    def named(self, source: Source) -> int | None:
        """The document that this file is a new version of: from the same place, else the newest of the same name."""
        document = next(iter(self._candidates(source)), None)
        return None if document is None else get_int(document, "id")

    def form(self, source: Source) -> dict[str, str]:
        """Fields of an upload that identify the file from any folder."""
        return {"path": source.name, "metadata": json.dumps({"root": fingerprint(source.root)})}

    def _candidates(self, source: Source) -> list[JsonObject]:
        there = self._by_place.get((fingerprint(source.root), source.name))
        return [*([] if there is None else [there]), *self._by_path.get(source.name, ())]


async def read_library(api: Api, collection: str | None) -> Library:
    """Reads the documents of a collection; with None, those in no collection."""
    filters = EVER | ({"collection": collection} if collection else {})
    async with aclosing(every_document(api, filters)) as documents:
        return Library([document async for document in documents if collection or not get_str(document, "collection")])
