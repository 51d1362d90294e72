"""The few parts of lxml that are used, with types, since lxml ships none."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import IO, Protocol, cast

from citewire_retriever.ingest.errors import IngestCode, IngestError


class Element(Protocol):
    """An element of a parsed page. Comments and processing instructions are left out by the parser."""

    tag: str
    text: str | None
    tail: str | None
    attrib: Mapping[str, str]

    def get(self, key: str, default: str) -> str:
        """An attribute's value, or the default."""
        ...

    def itertext(self) -> Iterator[str]:
        """Every piece of text below, in order."""
        ...

    def iter(self, *tags: str) -> Iterator["Element"]:
        """This element and those below it, in order, of these tags."""
        ...

    def getparent(self) -> "Element | None":
        """The element around this one."""
        ...

    def clear(self) -> None:
        """Removes all its content."""
        ...

    def __getitem__(self, index: int) -> "Element":
        """A child."""
        ...

    def __delitem__(self, index: int) -> None:
        """Removes a child."""
        ...

    def __iter__(self) -> Iterator["Element"]:
        """The children."""
        ...

    def __len__(self) -> int:
        """The number of children."""
        ...


class Walk(Protocol):
    """A walk over a tree: ("start" | "end", element). It isn't recursive, so deep nesting costs no stack."""

    def __iter__(self) -> Iterator[tuple[str, Element]]:
        """The walk itself."""
        ...

    def __next__(self) -> tuple[str, Element]:
        """The next event."""
        ...

    def skip_subtree(self) -> None:
        """Leaves out what is below the element whose start was just seen."""
        ...


_etree = import_module("lxml.etree")
_XML = {"resolve_entities": False, "no_network": True, "remove_comments": True, "remove_pis": True}

XmlError = cast("type[Exception]", _etree.XMLSyntaxError)
"""Raised for broken XML and for XML beyond the library's limits: 256 levels, 10 MB of consecutive text."""


def parse_html(data: bytes) -> Element | None:
    """Parses UTF-8 HTML, however broken; None if it holds no element. Nothing is ever fetched.

    Raises:
        IngestError: CORRUPT if it exceeds the library's limits (2048 levels), as the rest would be lost silently.
    """
    parser = _etree.HTMLParser(
        encoding="utf-8", recover=True, no_network=True, remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        root = cast("Element | None", _etree.fromstring(data, parser))
    except (_etree.ParserError, _etree.XMLSyntaxError):
        root = None
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise IngestError(IngestCode.CORRUPT, "The page is nested too deeply to be read.")
    return root


def walk(element: Element) -> Walk:
    """Walks over an element and everything below it."""
    return cast("Walk", _etree.iterwalk(element, events=("start", "end")))


def parse_xml(data: bytes) -> Element:
    """Parses XML; no entity is expanded, and nothing is ever fetched. Raises XmlError."""
    return cast("Element", _etree.fromstring(data, _etree.XMLParser(**_XML)))


def iterate_xml(stream: IO[bytes]) -> Iterator[tuple[str, Element]]:
    """Parses XML as it arrives: ("start" | "end", element). Otherwise like `parse_xml`, errors included."""
    return cast("Iterator[tuple[str, Element]]", _etree.iterparse(stream, events=("start", "end"), **_XML))
