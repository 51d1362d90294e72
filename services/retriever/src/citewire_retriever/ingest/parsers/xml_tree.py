"""XML as a tree with line numbers, read as a stream without entities, other files or the network."""

from collections import Counter
from typing import Final
from xml.parsers import expat

from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import ParseLimits, check_blocks
from citewire_retriever.ingest.parsers.records import MOST_DEPTH, Node

_VALUES_PER_BLOCK: Final = 4


class NotXmlError(Exception):
    """The text isn't well-formed XML."""


def read_xml(text: str, limits: ParseLimits) -> Node:
    """Reads a document. Elements and attributes become values; paths are XPath, with the file's prefixes.

    An element with mixed content becomes one text. Entities declared in the file are kept as written and never
    expanded.

    Raises:
        NotXmlError: The text has another syntax.
        IngestError: TOO_LARGE if it has many more values than the limits allow blocks.
    """
    reader = _Reader(limits, has_lines="\n" in text.strip())
    try:
        reader.read(text)
    except expat.ExpatError:
        raise NotXmlError from None
    root = reader.root.children[0]
    root.step, root.name = f"/{root.name}", ""
    return root


class _Reader:
    def __init__(self, limits: ParseLimits, *, has_lines: bool) -> None:
        self.limits = limits
        self.has_lines = has_lines
        self.root = Node("")
        self.open: list[Node] = [self.root]
        self.texts: list[list[str]] = [[]]
        """Text of the open elements, with that of their children."""
        self.own: list[bool] = [False]
        """Whether an open element has text of its own."""
        self.values = 0
        self.skipped = 0
        """Open elements beyond the levels that are distinguished."""
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.ordered_attributes = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        # With a default handler, declared entities aren't expanded.
        self.parser.DefaultHandler = self._entity

    def read(self, text: str) -> None:
        self.parser.Parse(text.encode("utf-8"), True)

    def _start(self, name: str, attributes: list[str]) -> None:
        if self.skipped or len(self.open) > MOST_DEPTH:
            self.skipped += 1
            return
        self.values += 1 + len(attributes) // 2
        check_blocks(self.values // _VALUES_PER_BLOCK, self.limits)
        node = Node("", name, first_line=self._line())
        for key, value in zip(attributes[::2], attributes[1::2], strict=True):
            if not key.startswith("xmlns"):
                node.children.append(self._attribute(key, value))
        self.open[-1].children.append(node)
        self.open.append(node)
        self.texts.append([])
        self.own.append(False)

    def _attribute(self, key: str, value: str) -> Node:
        return Node(f"/@{key}", key, clean(value), first_line=self._line(), last_line=self._line())

    def _text(self, text: str) -> None:
        self.texts[-1].append(text)
        if not self.skipped and not text.isspace():
            self.own[-1] = True

    def _entity(self, text: str) -> None:
        if text.startswith("&") and len(self.open) > 1:
            self._text(text)

    def _end(self, name: str) -> None:
        del name
        if self.skipped:
            self.skipped -= 1
            return
        node, text, has_text = self.open.pop(), "".join(self.texts.pop()), self.own.pop()
        node.last_line = self._line()
        attributes = [child for child in node.children if child.step.startswith("/@")]
        elements = node.children[len(attributes) :]
        is_deepest = len(self.open) == MOST_DEPTH
        if (has_text or is_deepest) and (elements or not attributes):
            # Mixed content, or text only.
            node.children = attributes
            elements = []
        if elements:
            self._number(node, elements)
        elif attributes and text.strip():
            line = node.first_line
            node.children.append(Node("", "", clean(text), first_line=line, last_line=node.last_line))
        else:
            node.value = clean(text)
        self.texts[-1].append(text)

    def _number(self, node: Node, elements: list[Node]) -> None:
        """Sets the elements' steps, numbered where several have the same name."""
        counts = Counter(element.name for element in elements)
        numbers: Counter[str] = Counter()
        for element in elements:
            numbers[element.name] += 1
            number = f"[{numbers[element.name]}]" if counts[element.name] > 1 else ""
            element.step = f"/{element.name}{number}"
        if len(elements) > 1 and len(counts) == 1:
            node.is_list = True
            for element in elements:
                element.name = ""

    def _line(self) -> int:
        return self.parser.CurrentLineNumber if self.has_lines else 0
