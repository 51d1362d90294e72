"""Cuts a document into chunks that follow its structure and fit the embedding model's window.

The same document, rules and counter always give the same chunks.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.headings import heading
from citewire_retriever.ingest.chunks import Chunk, ChunkRules, TokenCounter
from citewire_retriever.ingest.cutting import Piece, divide
from citewire_retriever.ingest.document import LineIndex, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.grouping import Group, group, is_in_path, leaves, take_apart
from citewire_retriever.ingest.packing import Sizes, pack
from citewire_retriever.ingest.places import PlacedParts, whole

_CHARS_PER_TOKEN = 16
_LEAST_ROOM = 8
_JOIN_TOKENS = 2  # for the line end between header and text


async def chunk(document: ParsedDocument, title: str, rules: ChunkRules, count: TokenCounter) -> list[Chunk]:
    """Cuts a document.

    A chunk never contains parts of two pages, headed sections or top-level definitions, nor rows of a table with other
    text. Small parts of a section, or rows, are combined up to their target. Parts too long for the window are cut at
    the best places (members, paragraphs, sentences, lines, words), and only then some sentences are repeated.

    Args:
        document: The parsed file.
        title: The document's title, which is embedded with every chunk.
        rules: Sizes.
        count: Counts tokens, many texts at a time.

    Returns:
        The chunks in order of the text.

    Raises:
        IngestError: TOO_LARGE if there are more than the rules allow.
    """
    return await _Chunker(document, title, rules, count).run()


def check_chunks(chunks: int, most: int) -> None:
    """Raises IngestError(TOO_LARGE) if a document has too many chunks."""
    if chunks > most:
        raise IngestError(IngestCode.TOO_LARGE, f"The document yields more than {most:,} passages: split it.")


@dataclass(slots=True)
class _Cut:
    """A future chunk: pieces first to last of a group, which are neighbours in its source."""

    group: Group
    start: int
    end: int
    parts_tokens: int
    """The sum of its pieces' tokens; joined, they can have more."""
    tokens: int = 0

    @property
    def text(self) -> str:
        return self.group.source[self.start : self.end]


class _Chunker:
    def __init__(self, document: ParsedDocument, title: str, rules: ChunkRules, count: TokenCounter) -> None:
        self.document = document
        self.title = " ".join(title.split())
        self.rules = rules
        self.count = count
        self.headers: dict[str, tuple[str, int]] = {}
        self.cuts_made = 0

    async def run(self) -> list[Chunk]:
        groups = await asyncio.to_thread(group, self.document)
        await self._fit(groups)
        cuts = await self._pack(list(leaves(groups)))
        return await asyncio.to_thread(self._finish, cuts)

    async def _fit(self, groups: list[Group]) -> None:
        """Cuts until every piece fits its group's room. Counts all open pieces at once, as the counter is remote."""
        unfit = groups
        while unfit:
            await self._measure_headers(unfit)
            await self._measure_pieces(unfit)
            unfit = await asyncio.to_thread(self._divide, unfit)
            self._check(sum(1 for _ in leaves(groups)))

    def _divide(self, groups: list[Group]) -> list[Group]:
        """Cuts pieces that are too long, and returns the groups that must be measured again."""
        again: list[Group] = []
        for each in groups:
            if all(self._fits(each, piece) for piece in each.pieces):
                continue
            each.parts = take_apart(each, self.document.text)
            if each.parts:
                again += each.parts
                continue
            pieces: list[Piece] = []
            for piece in each.pieces:
                pieces += [piece] if self._fits(each, piece) else self._cut(each, piece)
            each.pieces = pieces
            again.append(each)
        return again

    def _cut(self, each: Group, piece: Piece) -> list[Piece]:
        parts = max(piece.tokens // each.room, (piece.end - piece.start) // self._most_chars(each)) + 1
        self.cuts_made += 1
        return divide(each.source, piece, parts, self.cuts_made)

    def _fits(self, each: Group, piece: Piece) -> bool:
        length = piece.end - piece.start
        return length <= 1 or (length <= self._most_chars(each) and 0 <= piece.tokens <= each.room)

    def _sizes(self, each: Group, room: int) -> Sizes:
        target = min(room, self.rules.row_tokens if each.is_table else self.rules.target_tokens)
        return Sizes(target, room, self._most_chars(each), self.rules.overlap_tokens)

    def _most_chars(self, each: Group) -> int:
        """Also limits characters, because a tokenizer may treat a megabyte without spaces as one unknown word."""
        return each.room * _CHARS_PER_TOKEN

    async def _measure_pieces(self, groups: list[Group]) -> None:
        """Counts pieces that haven't been counted. Pieces that are certainly too long aren't counted."""
        open_pieces = [
            (each, piece)
            for each in groups
            for piece in each.pieces
            if piece.tokens < 0 and piece.end - piece.start <= self._most_chars(each)
        ]
        counts = await self.count([each.source[piece.start : piece.end] for each, piece in open_pieces])
        for (_, piece), tokens in zip(open_pieces, counts, strict=True):
            piece.tokens = tokens

    async def _measure_headers(self, groups: list[Group]) -> None:
        """Determines each group's title and section, shortened to their share of the window, and the remaining room."""
        unmeasured = (section for each in groups for section in each.sections if section not in self.headers)
        sections = list(dict.fromkeys(unmeasured))
        budget = int(self.rules.max_tokens * self.rules.header_share)
        headers = [self._header(section) for section in sections]
        counts = await self.count(headers)
        while any(tokens > budget for tokens in counts):
            headers = [
                _shortened(header, budget / tokens) if tokens > budget else header
                for header, tokens in zip(headers, counts, strict=True)
            ]
            counts = await self.count(headers)
        self.headers.update(zip(sections, zip(headers, counts, strict=True), strict=True))
        for each in groups:
            each.header, each.header_tokens = self.headers[each.section]
            join = _JOIN_TOKENS if each.header else 0
            each.room = max(_LEAST_ROOM, self.rules.max_tokens - each.header_tokens - join)

    def _header(self, section: str) -> str:
        return heading(self.title, section)

    async def _pack(self, groups: list[Group]) -> list[_Cut]:
        """Combines pieces, and checks the result, because joined texts can have more tokens than their parts."""
        cuts: dict[int, list[_Cut]] = {}
        rooms: dict[int, int] = {index: each.room for index, each in enumerate(groups)}
        while rooms:
            cuts.update(await asyncio.to_thread(self._pack_all, groups, rooms))
            self._check(sum(len(part) for part in cuts.values()))
            fresh = [cut for index in rooms for cut in cuts[index]]
            for cut, tokens in zip(fresh, await self.count([cut.text for cut in fresh]), strict=True):
                cut.tokens = tokens
            lowered = {index: _lowered(room, groups[index], cuts[index]) for index, room in rooms.items()}
            rooms = {index: room for index, room in lowered.items() if room < rooms[index]}
        return [cut for index in range(len(groups)) for cut in cuts[index]]

    def _pack_all(self, groups: list[Group], rooms: Mapping[int, int]) -> dict[int, list[_Cut]]:
        cuts: dict[int, list[_Cut]] = {}
        for index, room in rooms.items():
            each = groups[index]
            spans = pack(each.pieces, self._sizes(each, room))
            # A heading too long to be with its text needs no chunk of its own if the section's path begins with it.
            cuts[index] = [
                _Cut(each, span.start, span.end, span.parts_tokens)
                for span in spans
                if len(spans) == 1 or not span.mere_heading or not is_in_path(each, span.start, span.end)
            ]
        return cuts

    def _check(self, chunks: int) -> None:
        check_chunks(chunks, self.rules.max_chunks)

    def _finish(self, cuts: Sequence[_Cut]) -> list[Chunk]:
        lines = LineIndex(self.document.text) if self.document.has_lines else None
        parts = PlacedParts(self.document)
        chunks: list[Chunk] = []
        for index, cut in enumerate(cuts):
            section = cut.group.section_of(cut.start, cut.end)
            chunks.append(_chunk(index, cut, section, self.headers[section][0], lines, parts))
        return chunks


def _lowered(room: int, each: Group, cuts: list[_Cut]) -> int:
    """The room to pack a group with, lower if joined texts have more tokens than fit: by the share that is too much."""
    too_long = [cut for cut in cuts if cut.tokens > each.room and cut.parts_tokens > 0]
    return min((max(1, cut.parts_tokens * each.room // cut.tokens) for cut in too_long), default=room)


def _shortened(header: str, share: float) -> str:
    """The beginning of a header, at most this share of it and never all of it, up to the end of a word."""
    most = max(0, min(len(header) - 1, int(len(header) * share)))
    short = header[:most]
    return (short.rpartition(" ")[0] or short).rstrip(" >\n")


def _chunk(index: int, cut: _Cut, section: str, header: str, lines: LineIndex | None, parts: PlacedParts) -> Chunk:
    each = cut.group
    if each.rows is None:
        start, end = cut.start, cut.end
        places = parts.within(start, end)
    else:
        (start, end), places = each.rows.within(cut.start, cut.end)
    place = Place()
    place.CopyFrom(whole(places) if places else each.place)
    if lines is not None:
        place.start_line, place.end_line = lines.line_of(start), lines.line_of(max(start, end - 1))
        is_first = cut.start == each.pieces[0].start
        if is_first and each.place.HasField("start_line") and each.place.start_line <= place.end_line:
            place.start_line = each.place.start_line
    text = cut.text
    return Chunk(
        index=index,
        text=text,
        token_count=cut.tokens,
        content_hash=hashlib.sha256(text.encode("utf-8")).digest(),
        section=section,
        place=place,
        places=places if len(places) > 1 or any(each.HasField("boxes") for _, each in places) else (),
        char_start=start,
        char_end=end,
        verbatim=each.rows is None,
        header=header,
    )
