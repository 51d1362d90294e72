"""Locates parts of a version's text in its original."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from cachetools import LRUCache
from citewire.common.v1.place_pb2 import Box, PageBoxes, Place

from citewire_kit.errors import invalid_field
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest import boxes
from citewire_retriever.ingest.boxes import MOST_BOXES, SoughtText
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.sandbox import Sandbox
from citewire_retriever.model import Original
from citewire_retriever.service.originals import OriginalReader
from citewire_retriever.store.content import PostgresContent

log = get_logger(__name__)

_AROUND: Final = 200
"""Surrounding characters that distinguish a text from the same words elsewhere on the page."""
_REMEMBERED: Final = 2000
_PDF: Final = "application/pdf"

_Chunks: TypeAlias = Sequence[tuple[int, int, Place]]


class Locator(OriginalReader):
    """Finds spans on the pages of originals, read by confined processes: one file at a time per organisation.

    Results are cached, but permission is checked on every call.
    """

    most_waiting = 16
    too_many = "too many quotes are being located at once"

    def __init__(
        self, content: PostgresContent, sandbox: Sandbox, folder: Path, *, processes: int, max_bytes: int
    ) -> None:
        super().__init__(content, sandbox, folder, processes=processes, max_bytes=max_bytes)
        self._places: LRUCache[tuple[str, int, int, int, int], list[Place]] = LRUCache(_REMEMBERED)

    async def locate(self, tenant: Tenant, text: Original, start: int, end: int) -> list[Place]:
        """Returns the places of a span of a version's text that the caller may read.

        Raises:
            InvalidArgument: The span isn't in the text.
            ResourceExhausted: The organisation has too many concurrent calls (reason `OVERLOADED`).
            Unavailable: Files can't be read in confinement here.
        """
        key = (tenant.org_id, text.document_id, text.version, start, end)
        places = self._places.get(key)
        if places is not None:
            return places
        first, stored = await self._content.read_span(tenant, text, max(0, start - _AROUND), end + _AROUND)
        if start >= first + len(stored):
            raise invalid_field("char_start", "must be within the version's text")
        chunks = await self._content.find_chunks(tenant, text, start, end)
        places = _distinct(chunks, start, end)
        sought = [place for place in places if not place.HasField("boxes")]
        original = await self._content.find_original(tenant, text.document_id, text.version)
        if sought and original is not None and original.media_type == _PDF and original.size_bytes <= self._max_bytes:
            span = _Span(first, stored, start, end)
            try:
                texts = [_sought(place.page, chunks, span) for place in sought]
                pages = await self._confined(tenant, original, lambda path: self._sandbox.find_boxes(path, texts))
            except IngestError as error:
                log.warning("span_not_located", document_id=text.document_id, code=error.code.value)
                return places  # not cached: the machine may have been at fault
            for place, page in zip(sought, pages, strict=True):
                place.boxes.CopyFrom(_to_proto(page))
        self._places[key] = places
        return places


@dataclass(frozen=True, slots=True)
class _Span:
    """A span of a version's text, with its surroundings."""

    first: int
    """The start of the surroundings in the text."""
    around: str
    start: int
    end: int


def _distinct(chunks: _Chunks, start: int, end: int) -> list[Place]:
    """The chunks' places, each once, merged per page, with the boxes of its lines if these are stored."""
    places: dict[bytes, Place] = {}
    for first, last, place in chunks:
        boxes = place.boxes if place.HasField("boxes") else None
        bare = Place()
        bare.CopyFrom(place)
        bare.ClearField("boxes")
        known = places.setdefault(bare.SerializeToString(deterministic=True), bare)
        if boxes is not None and len(known.boxes.boxes) < MOST_BOXES:
            known.boxes.width, known.boxes.height = boxes.width, boxes.height
            known.boxes.boxes.extend(_cut(box, first, last, start, end) for box in boxes.boxes)
    return list(places.values())


def _cut(box: Box, first: int, last: int, start: int, end: int) -> Box:
    """The part of a line's box that a span covers, assuming characters of equal width."""
    width = (box.right - box.left) / max(1, last - first)
    left = box.left + width * max(0, start - first)
    right = box.right - width * max(0, last - end)
    return Box(left=left, top=box.top, right=right, bottom=box.bottom)


def _sought(page: int, chunks: _Chunks, span: _Span) -> SoughtText:
    """The text to seek on a page: the part of a span in the page's chunks; all of it if it is in none."""
    on_page = [(start, end) for start, end, place in chunks if place.page == page]
    start = max(span.start, min(start for start, _ in on_page))
    end = min(span.end, max(end for _, end in on_page))
    if start >= end:
        start, end = span.start, span.end
    start, end = start - span.first, end - span.first
    around = span.around
    return SoughtText(page, around[start:end], around[max(0, start - _AROUND) : start], around[end : end + _AROUND])


def _to_proto(page: boxes.PageBoxes) -> PageBoxes:
    shown = [Box(left=box.left, top=box.top, right=box.right, bottom=box.bottom) for box in page.boxes]
    return PageBoxes(width=page.width, height=page.height, boxes=shown)
