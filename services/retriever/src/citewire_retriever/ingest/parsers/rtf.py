"""RTF documents: paragraphs and tables under their headings.

Written here because the one maintained library (striprtf) returns plain text without headings and tables. Control words
follow Microsoft's specification 1.9.1.
"""

import codecs
import re
from copy import copy
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from citewire_retriever.ingest.decode import clean_units
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.symbols import in_font, is_symbol_font
from citewire_retriever.ingest.parsers.tables import Cell, add_rows, mark_header

_TOKEN: Final = re.compile(
    rb"\\(?P<word>[A-Za-z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<byte>[0-9A-Fa-f]{2})|\\(?P<sign>[^A-Za-z])"
    rb"|(?P<group>[{}])|[\r\n]+|(?P<text>[^\\{}\r\n]+)",
    re.S,
)
_DESTINATIONS: Final = frozenset(
    b"fonttbl colortbl stylesheet info pict object header headerl headerr headerf footer footerl footerr footerf "
    b"listtable listoverridetable revtbl rsidtbl generator themedata colorschememapping datastore latentstyles "
    b"fldinst bkmkstart bkmkend annotation atnid atnauthor atndate atnref atrfstart atrfend filetbl pgdsctbl mmathPr "
    b"nonesttables nonshppict xmlnstbl tc xe shpinst".split()
)
_SIGNS: Final = {
    b"tab": "\t", b"line": "\n", b"lquote": "\u2018", b"rquote": "\u2019", b"ldblquote": "\u201c",
    b"rdblquote": "\u201d", b"bullet": "\u2022", b"endash": "\u2013", b"emdash": "\u2014", b"emspace": " ",
    b"enspace": " ", b"~": "\u00a0", b"_": "-",
}  # fmt: skip
_CHARSETS: Final = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb2312", 136: "big5", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250",
}  # fmt: skip
_PAGES: Final = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}
_DEEPEST: Final = 6
_BODY: Final = 9  # the outline level of body text
_MOST_COLUMNS: Final = 1000
_LONGEST_NAME: Final = 100
_MOST_GROUPS: Final = 10_000


@dataclass(slots=True)
class _State:
    """A group's state, inherited by nested groups."""

    destination: bytes = b""
    """The group's destination if it isn't document text, such as ``fonttbl``."""
    hidden: bool = False
    in_note: bool = False
    unicode_skip: int = 1
    """Number of fallback characters after a Unicode one."""
    encoding: str = ""
    """The font's encoding; empty for the document's."""
    symbols: str = ""
    """The font's name if it is one of symbols."""
    level: int = 0
    """The paragraph's level as a heading; 0 if it isn't one."""
    in_table: bool = False


def parse_rtf(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses an RTF document.

    Headings are recognised by the outline level of the paragraph or its style. Left out: headers and footers, comments,
    hidden and deleted text, pictures, field instructions.

    Raises:
        IngestError: CORRUPT if it is cut off or nested too deeply, TOO_LARGE.
    """
    reader = _Reader(limits)
    reader.read(data)
    title = next((block.label for block in reader.builder.blocks if block.kind is BlockKind.HEADING), None)
    return ParsedDocument(
        Format.RTF, "application/rtf", reader.builder.text(), tuple(reader.builder.blocks), title=title
    )


class _Reader:
    def __init__(self, limits: ParseLimits) -> None:
        self.builder = TextBuilder(limits)
        self._states = [_State()]
        self._encoding = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._font_name = bytearray()
        self._symbol_fonts: dict[int, str] = {}
        self._style_levels: dict[int, int] = {}
        self._style = 0
        self._pieces: list[str] = []
        self._notes: list[str] = []
        self._bytes = bytearray()
        self._skip = 0
        self._cells: list[str] = []
        self._grid: list[list[Cell]] = []

    def read(self, data: bytes | mmap) -> None:
        """Reads the document token by token."""
        position = 0
        while position < len(data) and (match := _TOKEN.match(data, position)) is not None:
            position = match.end()
            word, number, byte, sign, brace, text = match.groups()
            if word is not None:
                value = int(number) if number else None
                if word == b"bin":
                    position += max(value or 0, 0)
                else:
                    self._word(word, value)
            elif byte is not None:
                self._add_bytes(bytes([int(byte, 16)]))
            elif sign is not None:
                self._sign(sign)
            elif brace is not None and not self._brace(brace):
                break
            elif text is not None:
                self._add_bytes(text)
        if len(self._states) > 1:
            raise IngestError(IngestCode.CORRUPT, "The RTF document is cut off: save or export it again.")
        self._end_paragraph()
        self._end_row()  # in fragments, the last one may not be ended
        self._end_table()

    def _brace(self, brace: bytes) -> bool:
        """Opens or closes a group; False at the document's end."""
        self._flush()
        self._skip = 0
        if brace == b"{":
            self._states.append(copy(self._states[-1]))
            if len(self._states) > _MOST_GROUPS:
                raise IngestError(IngestCode.CORRUPT, "The RTF document is nested too deeply to be read.")
            return True
        if len(self._states) == 2:
            self._end_paragraph()  # the last one, before the document's group ends with its formatting
        if len(self._states) > 1:
            self._states.pop()
        return len(self._states) > 1

    def _sign(self, sign: bytes) -> None:
        if sign == b"*":
            destination = self._states[-1].destination
            self._states[-1].destination = b"*" if destination in {b"", b"fonttbl"} else destination
        elif sign in b"\\{}":
            self._add_bytes(sign)
        elif sign in b"\r\n":
            self._word(b"par", None)
        else:
            self._write(_SIGNS.get(sign, ""))

    def _word(self, word: bytes, value: int | None) -> None:
        state = self._states[-1]
        if word == b"shptxt" and state.destination in {b"*", b"shpinst"}:
            state.destination = b""  # a shape's text, within a destination that is otherwise skipped
        elif word in _DESTINATIONS or state.destination == b"*":
            self._flush()
            state.destination = word if state.destination in {b"", b"*"} else state.destination
        elif state.destination in {b"fonttbl", b"stylesheet"}:
            self._define(word, value or 0)
        elif word == b"footnote":
            self._flush()
            state.in_note = True
            self._notes.append("\n\n")
        elif word == b"ansicpg":
            self._encoding = _known(f"cp{value or 1252}")
        elif word in _PAGES:
            self._encoding = _PAGES[word]
        elif word == b"uc":
            state.unicode_skip = max(value if value is not None else 1, 0)
        elif word == b"u" and value is not None:
            self._unicode(value)
        elif word == b"f":
            self._flush()
            state.encoding = self._fonts.get(value or 0, "")
            state.symbols = self._symbol_fonts.get(value or 0, "")
        elif word == b"plain":
            self._flush()
            state.hidden, state.encoding, state.symbols = False, "", ""
        elif word in {b"v", b"deleted"}:
            self._flush()
            state.hidden = value != 0
        else:
            self._structure(word, value)

    def _structure(self, word: bytes, value: int | None) -> None:
        state = self._states[-1]
        if state.destination:
            return
        if word in _SIGNS:
            self._write(_SIGNS[word])
        elif word in {b"par", b"sect", b"page"}:
            if state.in_note:
                self._write("\n")
            else:
                self._end_paragraph()
        elif word == b"pard":
            state.level, state.in_table = 0, False
        elif word == b"intbl":
            state.in_table = True
        elif word == b"outlinelevel":
            state.level = min((value or 0) + 1, _DEEPEST) if value != _BODY else 0
        elif word == b"s":
            state.level = self._style_levels.get(value or 0, 0)
        elif word in {b"cell", b"nestcell"}:
            self._flush()
            self._cells.append(one_line(_joined(self._pieces)))
        elif word in {b"row", b"nestrow"}:
            self._end_row()

    def _define(self, word: bytes, value: int) -> None:
        """Records a font's character set, or a style's outline level."""
        if word == b"f":
            self._font = value
            self._font_name.clear()
        elif word == b"fcharset" and value in _CHARSETS:
            self._fonts[self._font] = _CHARSETS[value]
        elif word == b"s":
            self._style = value
        elif word == b"outlinelevel":
            self._style_levels[self._style] = min(value + 1, _DEEPEST) if value != _BODY else 0

    def _unicode(self, value: int) -> None:
        """Handles a character given as a signed UTF-16 number, which fallback characters follow."""
        self._flush()
        self._write(in_font(self._states[-1].symbols, chr(value & 0xFFFF)))
        self._skip = self._states[-1].unicode_skip

    def _add_bytes(self, data: bytes) -> None:
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        state = self._states[-1]
        if state.destination == b"fonttbl":
            self._name_font(data)
        elif not state.destination and not state.hidden:
            self._bytes += data[skipped:]

    def _name_font(self, data: bytes) -> None:
        """Takes a piece of a font's name, which a semicolon ends."""
        name, end, _ = data.partition(b";")
        self._font_name += name[:_LONGEST_NAME]
        if end:
            text = self._font_name.decode("latin-1").strip()
            if is_symbol_font(text):
                self._symbol_fonts[self._font] = text
            self._font_name.clear()

    def _write(self, text: str) -> None:
        self._flush()
        if not self._states[-1].destination and not self._states[-1].hidden:
            self._target().append(text)

    def _target(self) -> list[str]:
        return self._notes if self._states[-1].in_note else self._pieces

    def _flush(self) -> None:
        """Decodes the pending bytes, as a character may take several."""
        if self._bytes:
            state = self._states[-1]
            encoding = "latin-1" if state.symbols else state.encoding or self._encoding
            self._target().append(in_font(state.symbols, self._bytes.decode(encoding, errors="replace")))
            self._bytes.clear()

    def _end_paragraph(self) -> None:
        self._flush()
        if self._states[-1].in_table:
            self._pieces.append(" ")  # a line within a cell
            return
        self._end_table()
        text = _joined(self._pieces)
        level = self._states[-1].level
        if text and level:
            text = one_line(text)
            start, end = self.builder.write(text)
            self.builder.add(Block(BlockKind.HEADING, start, end, level=level, label=text[:LABEL_LIMIT]))
        elif text:
            self.builder.add(Block(BlockKind.PARAGRAPH, *self.builder.write(text)))
        for note in _joined(self._notes).split("\n\n"):
            if note.strip():
                self.builder.add(Block(BlockKind.PARAGRAPH, *self.builder.write(note.strip())))

    def _end_row(self) -> None:
        if len(self._cells) <= _MOST_COLUMNS and any(self._cells):
            self._grid.append([Cell(text, head=False) for text in self._cells])
        self._cells.clear()

    def _end_table(self) -> None:
        if self._grid:
            grid, self._grid = self._grid, []
            add_rows(self.builder, mark_header(grid, 0))


def _joined(pieces: list[str]) -> str:
    """Joins the pieces, with surrogate pairs combined, and empties them."""
    text = "".join(pieces)
    pieces.clear()
    return clean_units(text).strip()


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return "cp1252"
