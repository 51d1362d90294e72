"""Trees of named values (JSON, YAML, XML) as text: records become ``name: value`` lines, each with its path."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, TextBuilder
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line

MOST_DEPTH = 64
"""Levels that are distinguished; anything deeper is a value of the last level, as written in the file."""
RECORD_CHARS = 480
"""Code points of a subtree that stays whole, about a chunk's length. A larger one becomes a section."""
_LISTED_CHARS = 160
_PATH_CHARS = 250


@dataclass(slots=True)
class Node:
    """A value, an object or a list."""

    step: str
    """Its step in the path, such as ``.name``, ``[3]`` or ``/item[2]``."""
    name: str = ""
    """Its key; empty for an element of a list, and for the root."""
    value: str = ""
    """A value's text; empty for an object or a list."""
    children: list["Node"] = field(default_factory=list["Node"])
    """Members or elements, in order."""
    is_list: bool = False
    """Whether the children are elements, which are numbered rather than named."""
    first_line: int = 0
    """Its first line in the file, from 1; 0 if line numbers would be meaningless."""
    last_line: int = 0
    """Its last line, inclusive."""
    size: int = 0
    """Its approximate size as text, in code points; set by `measure`."""


def measure(root: Node) -> None:
    """Sets the sizes of a tree; removes empty values, objects and lists."""
    stack = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if not is_done and node.children:
            stack.append((node, True))
            stack += [(child, False) for child in node.children]
            continue
        node.children = [child for child in node.children if child.size]
        if node.children:
            node.size = sum(child.size + len(node.name) for child in node.children)
        elif node.value.strip():
            node.size = len(node.value) + len(node.name) + 1


def write_records(builder: TextBuilder, root: Node) -> None:
    """Renders a measured tree.

    A subtree of about a chunk's length is a block; a larger one is a section, named by its key or number, that holds
    its children as blocks or sections: small ones first, or in order in a list. Each line of a block is a child with
    its own path, so that a quote can be placed exactly even where small records share a chunk.

    Raises:
        IngestError: TOO_LARGE.
    """
    _Writer(builder).write(root, joined("", root.step), 0)


class _Writer:
    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder

    def write(self, node: Node, path: str, level: int) -> None:
        if node.size <= RECORD_CHARS:
            if node.size:
                self._record(node, path)
            return
        if level:
            self._heading(node.name or node.step, level, _place(node, path))
        if not node.children:
            self._prose(node, path)
            return
        small = [child for child in node.children if child.size <= RECORD_CHARS]
        if node.is_list and len(small) < len(node.children):
            self._mixed_list(node, path, level + 1)
            return
        for child in small:
            self._record(child, joined(path, child.step))
        for child in node.children:
            if child.size > RECORD_CHARS:
                self.write(child, joined(path, child.step), level + 1)

    def _mixed_list(self, node: Node, path: str, level: int) -> None:
        """A list of small and large elements: adjacent small ones form a section, which keeps the order."""
        run: list[Node] = []
        for child in [*node.children, None]:
            if child is not None and child.size <= RECORD_CHARS:
                run.append(child)
                continue
            if run:
                label = run[0].name or run[0].step if len(run) == 1 else f"{run[0].step} – {run[-1].step}"
                self._heading(label, level, _place(run[0], joined(path, run[0].step)))
                for small in run:
                    self._record(small, joined(path, small.step))
                run = []
            if child is not None:
                self.write(child, joined(path, child.step), level)

    def _heading(self, label: str, level: int, place: Place) -> None:
        label = one_line(label)[:LABEL_LIMIT]
        if label:
            start, end = self.builder.write(label)
            self.builder.add(Block(BlockKind.HEADING, start, end, level=level, label=label, place=place))

    def _prose(self, node: Node, path: str) -> None:
        value = node.value.strip()
        start, end = self.builder.write(value)
        self.builder.add(Block(BlockKind.PARAGRAPH, start, end, place=_place(node, path)))

    def _record(self, node: Node, path: str) -> None:
        lines: list[Block] = []
        for leaf, name, leaf_path in _leaves(node, path):
            value = leaf.value.strip() or ", ".join(child.value.strip() for child in leaf.children)
            text = f"{name}: {value}" if name else value
            start, end = self.builder.write(text, separator="\n" if lines else "\n\n")
            lines.append(Block(BlockKind.PARAGRAPH, start, end, place=_place(leaf, leaf_path)))
        if len(lines) == 1:
            self.builder.add(lines[0])
            return
        whole = Block(BlockKind.LIST, lines[0].start, lines[-1].end, place=_place(node, path), children=tuple(lines))
        self.builder.add(whole)


def _leaves(node: Node, path: str) -> Iterator[tuple[Node, str, str]]:
    """The lines to write: node, name relative to the record, path."""
    stack = [(node, one_line(node.name)[:LABEL_LIMIT], path)]
    while stack:
        each, name, each_path = stack.pop()
        if not each.children or _is_listed(each):
            yield each, name, each_path
            continue
        for child in reversed(each.children):
            key = one_line(child.name)[:LABEL_LIMIT] or child.step
            # An element's number is useless on a line that shows only that element.
            inner = f"{name}.{key}" if name and key and not key.startswith(("[", "/")) else f"{name}{key}"
            stack.append((child, inner, joined(each_path, child.step)))


def _is_listed(node: Node) -> bool:
    """Whether a list's values fit on one line: not if one has values itself, or a name, like an attribute."""
    return (
        node.is_list and node.size <= _LISTED_CHARS and not any(child.children or child.name for child in node.children)
    )


def joined(path: str, step: str) -> str:
    """A child's path; its parent's if it would be too long to be useful."""
    whole = f"{path}{step}"
    return (whole if path else whole.removeprefix(".")) if len(whole) <= _PATH_CHARS else path


def _place(node: Node, path: str) -> Place:
    place = Place(record_path=path or "$")
    if node.first_line:
        place.start_line, place.end_line = node.first_line, node.last_line
    return place
