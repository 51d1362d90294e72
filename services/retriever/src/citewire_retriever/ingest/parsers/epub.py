"""E-books (EPUB 2 and 3): chapters in reading order, each read as an HTML page."""

import re
from collections.abc import Iterator
from dataclasses import replace
from mmap import mmap
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

from citewire_retriever.ingest.decode import decode
from citewire_retriever.ingest.document import (
    Block,
    BlockKind,
    Format,
    ParsedDocument,
    ParseLimits,
    TextBuilder,
)
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.html import parse_html_page
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.package import Package, attribute, local, resolved
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line

MEDIA_TYPE: Final = "application/epub+zip"
_CONTAINER: Final = "META-INF/container.xml"
_ENCRYPTION: Final = "META-INF/encryption.xml"
_PAGES: Final = frozenset({"application/xhtml+xml", "text/html"})
_CONTENTS: Final = "application/x-dtbncx+xml"
_SELF_CLOSED: Final = re.compile(r"<([A-Za-z][\w:-]*)([^<>]*)/>")
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)


def parse_epub(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses an e-book. A chapter without a heading gets its title from the table of contents.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED if it is copy-protected, TOO_LARGE.
    """
    package = Package(data, "e-book")
    book = _Book(package)
    builder = TextBuilder(limits)
    for part in book.chapters():
        try:
            page = parse_html_page(_as_html(decode(package.read(part))), limits)
        except IngestError as error:
            if error.code in {IngestCode.EMPTY, IngestCode.NO_TEXT}:
                continue  # an image, such as the cover
            raise
        _add(builder, page, book.labels.get(part, ""))
    return ParsedDocument(Format.EBOOK, MEDIA_TYPE, builder.text(), tuple(builder.blocks), title=book.title)


class _Book:
    """The package's list of parts."""

    def __init__(self, package: Package) -> None:
        container = package.tree(_CONTAINER)
        roots = (unquote(attribute(each, "full-path")) for each in _named(container, "rootfile"))
        self._main = next((root for root in roots if root in package), "")
        root = package.tree(self._main)
        if root is None:
            raise package.broken()
        self._folder = PurePosixPath(self._main).parent
        self._root = root
        self._package = package
        self._items = {attribute(each, "id"): each for each in _named(root, "item")}
        self.title = next((title for each in _named(root, "title") if (title := one_line(each.text or ""))), None)
        self.labels = self._labels()
        if self._is_protected():
            raise IngestError(
                IngestCode.PASSWORD_REQUIRED, "The e-book is copy-protected: upload one without this protection."
            )

    def chapters(self) -> Iterator[str]:
        """The parts in reading order, without the table of contents."""
        for each in _named(self._root, "itemref"):
            item = self._items.get(attribute(each, "idref"))
            if item is None or attribute(item, "media-type") not in _PAGES or _is_contents(item):
                continue
            part = self._part(attribute(item, "href"))
            if part in self._package:
                yield part

    def _labels(self) -> dict[str, str]:
        """Titles in the table of contents by their part; the first one per part."""
        labels: dict[str, str] = {}
        for item in self._items.values():
            part = self._part(attribute(item, "href"))
            if attribute(item, "media-type") == _CONTENTS or _is_contents(item):
                root = self._package.tree(part)
                folder = PurePosixPath(part).parent
                for target, label in _links(root):
                    if label:
                        labels.setdefault(resolved(folder, _unquoted(target)), label)
        return labels

    def _is_protected(self) -> bool:
        """Whether a page is encrypted. Fonts may be encrypted even in free books."""
        references = (attribute(each, "URI") for each in _named(self._package.tree(_ENCRYPTION), "CipherReference"))
        encrypted = {unquote(reference) for reference in references}
        return any(part in encrypted for part in self.chapters())

    def _part(self, href: str) -> str:
        return resolved(self._folder, _unquoted(href))


def _add(builder: TextBuilder, page: ParsedDocument, label: str) -> None:
    """Adds a chapter."""
    if label and page.blocks[0].kind is not BlockKind.HEADING:
        start, end = builder.write(label)
        builder.add(Block(BlockKind.HEADING, start, end, level=1, label=label[:LABEL_LIMIT]))
    first, _ = builder.write(page.text)
    for block in page.blocks:
        builder.add(replace(block, start=first + block.start, end=first + block.end))


def _links(root: Element | None) -> Iterator[tuple[str, str]]:
    """The entries of a table of contents, in either version of the format."""
    for each in _named(root, "a"):
        yield attribute(each, "href"), one_line("".join(each.itertext()))
    for point in _named(root, "navPoint"):
        label = next((one_line("".join(each.itertext())) for each in point if local(each.tag) == "navLabel"), "")
        yield next((attribute(each, "src") for each in point if local(each.tag) == "content"), ""), label


def _named(root: Element | None, name: str) -> Iterator[Element]:
    return root.iter(f"{{*}}{name}") if root is not None else iter(())


def _is_contents(item: Element) -> bool:
    return "nav" in attribute(item, "properties").split()


def _unquoted(href: str) -> str:
    return unquote(href.partition("#")[0])


def _as_html(text: str) -> str:
    """XHTML for an HTML parser, for which ``<title/>`` would open an element that never ends."""

    def spelt_out(match: re.Match[str]) -> str:
        name, attributes = match.groups()
        return match.group() if name.lower() in _VOID else f"<{name}{attributes}></{name}>"

    return _SELF_CLOSED.sub(spelt_out, text)
