"""Text of OpenDocument elements as displayed."""

from dataclasses import dataclass, field
from mmap import mmap
from typing import Final

from citewire_retriever.ingest.parsers.lxml_facade import Element, walk
from citewire_retriever.ingest.parsers.package import Package, attribute, local, password_required
from citewire_retriever.ingest.parsers.pairs import one_line

_MOST_SPACES: Final = 1000
_LEFT_OUT: Final = frozenset({"annotation", "annotation-end", "tracked-changes", "note-citation", "ruby-text"})
_ASIDE: Final = frozenset({"note-body", "text-box"})


def open_document(data: bytes | mmap, kind: str) -> Package:
    """An OpenDocument package; `kind` is for error messages.

    Raises:
        IngestError: CORRUPT; PASSWORD_REQUIRED; TOO_LARGE.
    """
    package = Package(data, kind)
    manifest = package.tree("META-INF/manifest.xml")
    if manifest is not None and next(manifest.iter("{*}encryption-data"), None) is not None:
        raise password_required(kind)
    return package


@dataclass(slots=True)
class Content:
    """A paragraph's text, and the notes attached to it."""

    text: str = ""
    asides: list[str] = field(default_factory=list[str])
    """Notes and text boxes."""


def text_of(element: Element) -> Content:
    """A paragraph's text, with white space collapsed by OpenDocument's rules; one walk, as asides may be nested."""
    pieces: list[list[str]] = [[]]
    content = Content()
    events = walk(element)
    for event, each in events:
        tag = local(each.tag)
        if event == "end":
            if tag in _ASIDE and each is not element:
                aside = _joined(pieces.pop())
                content.asides += [aside] if aside else []
            if each is not element:
                pieces[-1].append(each.tail or "")
            continue
        if tag in _LEFT_OUT:
            events.skip_subtree()
            continue
        if tag in _ASIDE and each is not element:
            pieces.append([])
        if tag == "s":
            pieces[-1].append("\0" * min(count(each, "c", 1), _MOST_SPACES))
        elif tag in {"tab", "line-break"}:
            pieces[-1].append("\1" if tag == "tab" else "\2")
        elif tag in {"p", "h"} and each is not element:
            pieces[-1].append("\2")
        pieces[-1].append(each.text or "")
    content.text = _joined(pieces[0])
    return content


def cell_text(cell: Element) -> str:
    """A cell's displayed text, without its comment."""
    content = text_of(cell)
    return "\n".join([content.text, *content.asides]).strip()


def count(element: Element, name: str, default: int) -> int:
    """A number among an element's attributes."""
    text = attribute(element, name)
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 8 else default


def properties_title(package: Package) -> str | None:
    """The title in a document's properties."""
    root = package.tree("meta.xml")
    titles = (one_line(each.text or "") for each in root.iter("{*}title")) if root is not None else ()
    return next((title for title in titles if title), None)


def _joined(pieces: list[str]) -> str:
    """Collapses white space to one space, except spaces, tabs and line ends given as elements (placeholders here)."""
    text = one_line("".join(pieces))
    return text.replace("\0", " ").replace("\1", "\t").replace("\2", "\n").strip()
