"""JSON and JSON Lines as a tree with line numbers, read in linear time."""

import json
import re
from collections.abc import Callable
from typing import Final

from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import LineIndex, ParseLimits, check_blocks
from citewire_retriever.ingest.parsers.records import MOST_DEPTH, Node

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_WORD: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity")
_SIGN: Final = re.compile(r'[\[\]{}"]')
_PLAIN_KEY: Final = re.compile(r"[^\W\d][\w-]*")
_VALUES_PER_BLOCK: Final = 4
_scan_string: Callable[[str, int, bool], tuple[str, int]] = vars(json.decoder)["scanstring"]  # in C


class NotJsonError(Exception):
    """The text isn't JSON."""


def read_json(text: str, limits: ParseLimits, *, many: bool = False) -> Node:
    """Reads one value, or several in a row, which become the root's elements.

    Raises:
        NotJsonError: The text has another syntax.
        IngestError: TOO_LARGE if it has many more values than the limits allow blocks.
    """
    return _Reader(text, limits).read(many=many)


def read_json_lines(text: str, limits: ParseLimits) -> Node:
    """Reads one value per line; a line with another syntax, such as one that was cut off, is a text.

    Raises:
        NotJsonError: Most lines have another syntax.
        IngestError: TOO_LARGE if it has many more values than the limits allow blocks.
    """
    root = Node("", is_list=True)
    values = broken = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        node = Node(f"[{len(root.children)}]")
        try:
            node, values = _Reader(line, limits, values).read_line(node)
        except NotJsonError:
            node, values, broken = Node(node.step, value=line.strip()), values + 1, broken + 1
        _set_line(node, number)
        root.children.append(node)
    if 2 * broken >= len(root.children):
        raise NotJsonError
    return root


def key_step(key: str) -> str:
    """The step of a path that a key adds."""
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


class _Reader:
    def __init__(self, text: str, limits: ParseLimits, values: int = 0) -> None:
        self.text = text
        self.limits = limits
        # In a file without line ends everything is on line 1, which tells a reader nothing.
        self.lines = LineIndex(text) if "\n" in text.strip() else None
        self.values = values

    def read_line(self, node: Node) -> tuple[Node, int]:
        """Reads the text as one value; also returns how many values have been read so far."""
        node, position = self._value(self._skip(0), node, 0)
        if self._skip(position) < len(self.text):
            raise NotJsonError
        return node, self.values

    def read(self, *, many: bool) -> Node:
        root, position = Node("", is_list=True), self._skip(0)
        while position < len(self.text) and (many or not root.children):
            element, position = self._value(position, Node(f"[{len(root.children)}]"), 0)
            root.children.append(element)
            position = self._skip(position)
            if many and self.text.startswith(",", position):  # some separate lines by commas
                position = self._skip(position + 1)
        if not root.children or position < len(self.text):
            raise NotJsonError
        if many:
            return root
        root.children[0].step = ""
        return root.children[0]

    def _value(self, position: int, node: Node, depth: int) -> tuple[Node, int]:
        """Reads the value that starts here; returns its node and end. `depth` bounds the recursion."""
        text = self.text
        self.values += 1
        check_blocks(self.values // _VALUES_PER_BLOCK, self.limits)
        start, sign = position, text[position : position + 1]
        if sign == '"':
            value, position = self._string(position)
            node.value = clean(value)
        elif sign in {"[", "{"} and depth == MOST_DEPTH:
            position = self._end_of_nested(position)
            node.value = text[start:position]
        elif sign in {"[", "{"}:
            node.is_list = sign == "["
            position = self._children(position + 1, node, "]" if node.is_list else "}", depth + 1)
        else:
            word = _WORD.match(text, position)
            if word is None:
                raise NotJsonError
            node.value, position = "" if word.group() == "null" else word.group(), word.end()
        if self.lines is not None:
            node.first_line, node.last_line = self.lines.line_of(start), self.lines.line_of(position - 1)
        return node, position

    def _children(self, position: int, node: Node, closing: str, depth: int) -> int:
        """Reads members or elements through the closing bracket."""
        text = self.text
        position = self._skip(position)
        if text.startswith(closing, position):
            return position + 1
        while True:
            if node.is_list:
                child = Node(f"[{len(node.children)}]")
            else:
                if not text.startswith('"', position):
                    raise NotJsonError
                key, position = self._string(position)
                key = clean(key)
                child = Node(key_step(key), key or '""')
                position = self._skip(position)
                if not text.startswith(":", position):
                    raise NotJsonError
                position = self._skip(position + 1)
            child, position = self._value(position, child, depth)
            node.children.append(child)
            position = self._skip(position)
            if text.startswith(closing, position):
                return position + 1
            if not text.startswith(",", position):
                raise NotJsonError
            position = self._skip(position + 1)

    def _end_of_nested(self, position: int) -> int:
        """The end of an object or list, found without reading its content."""
        depth = 0
        while match := _SIGN.search(self.text, position):
            sign, position = match.group(), match.end()
            if sign == '"':
                _, position = self._string(position - 1)
                continue
            depth += 1 if sign in "[{" else -1
            if depth == 0:
                return position
        raise NotJsonError

    def _string(self, position: int) -> tuple[str, int]:
        try:
            return _scan_string(self.text, position + 1, False)
        except ValueError:
            raise NotJsonError from None

    def _skip(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return position if match is None else match.end()


def _set_line(node: Node, number: int) -> None:
    """Places a value and everything in it on one line."""
    stack = [node]
    while stack:
        each = stack.pop()
        each.first_line = each.last_line = number
        stack += each.children
