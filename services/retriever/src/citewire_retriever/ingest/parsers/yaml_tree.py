"""YAML as a tree with line numbers: aliases are named and never expanded, tags never create objects."""

from typing import Any, Final, TypeAlias

import yaml

from citewire_retriever.ingest.document import ParseLimits, check_blocks
from citewire_retriever.ingest.parsers.json_tree import key_step
from citewire_retriever.ingest.parsers.records import MOST_DEPTH, Node

_Event: TypeAlias = Any  # PyYAML's types lack marks and the events' attributes
_EMPTY: Final = {"", "~", "null", "Null", "NULL"}
_VALUES_PER_BLOCK: Final = 4
_ALIASED_CHARS: Final = 200
_MOST_SKIPPED: Final = 500  # libyaml's time is quadratic in the depth of nested brackets
# libyaml's parser where PyYAML was built with it (its wheels are): the pure Python one takes ten times as long.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotYamlError(Exception):
    """The text isn't YAML."""


def read_yaml(text: str, limits: ParseLimits) -> Node:
    """Reads a document, or several as the elements of the root.

    Raises:
        NotYamlError: The text has another syntax, or brackets nested hundreds of levels deep.
        IngestError: TOO_LARGE if it has many more values than the limits allow blocks.
    """
    try:
        return _Reader(text, limits).read()
    except yaml.YAMLError:
        raise NotYamlError from None


class _Reader:
    def __init__(self, text: str, limits: ParseLimits) -> None:
        self.text = text
        self.limits = limits
        self.values = 0
        self.anchors: dict[str, str] = {}
        """Texts of anchored values."""

    def read(self) -> Node:
        """Builds the tree from the parser's events; open objects and lists are kept on an explicit stack."""
        root = Node("", is_list=True)
        open_nodes = [root]
        keys: list[str | None] = [None]
        skipped = 0  # open levels beyond those that are distinguished
        event: _Event
        for event in yaml.parse(self.text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                if skipped > _MOST_SKIPPED:
                    raise NotYamlError
                if skipped or len(open_nodes) > MOST_DEPTH:
                    skipped += 1
                    continue
                node = self._child(open_nodes[-1], keys, event)
                node.is_list = isinstance(event, yaml.SequenceStartEvent)
                open_nodes.append(node)
                keys.append(None)
            elif isinstance(event, yaml.CollectionEndEvent):
                if skipped:
                    skipped -= 1
                    continue
                open_nodes.pop().last_line = _line(event.start_mark)
                keys.pop()
            elif not skipped and isinstance(event, yaml.NodeEvent):  # a scalar or an alias
                self._scalar(open_nodes[-1], keys, event)
        if len(root.children) == 1:
            root.children[0].step = ""
            return root.children[0]
        return root

    def _scalar(self, parent: Node, keys: list[str | None], event: _Event) -> None:
        anchor: str | None = event.anchor
        value: str
        if isinstance(event, yaml.AliasEvent):
            value = self.anchors.get(anchor or "", f"*{anchor}")
        else:
            value = "" if event.style is None and event.value in _EMPTY else event.value
            if anchor and len(value) <= _ALIASED_CHARS:
                self.anchors[anchor] = value
        if not parent.is_list and keys[-1] is None:
            keys[-1] = value
            return
        node = self._child(parent, keys, event)
        node.value = value
        # A block's end mark is after its last line end.
        end: _Event = event.end_mark
        node.last_line = max(node.first_line, end.line + (1 if end.column else 0))

    def _child(self, parent: Node, keys: list[str | None], event: _Event) -> Node:
        self.values += 1
        check_blocks(self.values // _VALUES_PER_BLOCK, self.limits)
        key = keys[-1]
        if parent.is_list:
            node = Node(f"[{len(parent.children)}]")
        elif key is None:
            # An object as a key: its members are kept, under no name.
            node = Node(key_step("?"), "?")
            keys[-1] = ""
        else:
            node = Node(key_step(key), key or '""')
            keys[-1] = None
        node.first_line = node.last_line = _line(event.start_mark)
        parent.children.append(node)
        return node


def _line(mark: _Event) -> int:
    return mark.line + 1
