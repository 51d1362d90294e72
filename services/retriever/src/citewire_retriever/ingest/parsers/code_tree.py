"""Definitions of source code by tree-sitter grammars: what is defined, where, and in what."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_bash
import tree_sitter_c
import tree_sitter_c_sharp
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_php
import tree_sitter_python
import tree_sitter_ruby
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

_GRAMMARS: dict[str, Callable[[], object]] = {
    "bash": tree_sitter_bash.language,
    "c": tree_sitter_c.language,
    "cpp": tree_sitter_cpp.language,
    "csharp": tree_sitter_c_sharp.language,
    "go": tree_sitter_go.language,
    "java": tree_sitter_java.language,
    "javascript": tree_sitter_javascript.language,
    "php": tree_sitter_php.language_php,
    "python": tree_sitter_python.language,
    "ruby": tree_sitter_ruby.language,
    "rust": tree_sitter_rust.language,
    "tsx": tree_sitter_typescript.language_tsx,
    "typescript": tree_sitter_typescript.language_typescript,
}
# Grammars use similar names: one pattern for nodes that define something, one for nodes that only contain definitions.
_DEFINITION = re.compile(
    r"(?:(?:(?:async_|generator_|abstract_)?function|method|class|interface|struct|enum|trait|impl|union|record|object"
    r"|type|type_alias|annotation_type|constructor|destructor|operator|delegate|macro|const|static)"
    r"_(?:definition|declaration|item|specifier)"
    r"|preproc_function_def|singleton_method|singleton_class|method|class|module|local_function_statement)"
)
_SURROUNDING = re.compile(
    r"preproc_(?:if|ifdef|elif|else)|linkage_specification|namespace_(?:definition|declaration)"
    r"|file_scoped_namespace_declaration|internal_module|mod_item|module|declaration_list|statement_block"
    r"|export_statement|ambient_declaration|body_statement|compound_statement"
)
_WRAPPERS = {"decorated_definition": "definition", "export_statement": "declaration", "template_declaration": ""}
_STATEMENT = "expression_statement"  # TypeScript wraps `namespace N { … }` in one
_VALUE_DECLARATIONS = {"lexical_declaration", "variable_declaration", "var_declaration", "const_declaration"}
_ABOVE = {"comment", "line_comment", "block_comment", "attribute_item", "attribute_list", "decorator"}
_COMMENTS = {"comment", "line_comment", "block_comment"}
_CLASS_LIKE = re.compile(
    r"(?:abstract_)?(?:class|interface|struct|enum|trait|impl|record|object|union)_?(?:definition|declaration|item|specifier)?"
    r"|module|singleton_class|annotation_type_declaration"
)
_NAMES = ("name", "declarator", "type")
_WHOLE_NAMES = re.compile(r"\w*identifier|qualified_name|scoped_\w+|namespace_name|dotted_name")


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition, by rows counted from 0."""

    name: str
    """Its name; empty if it has none."""
    first: int
    """The first row that belongs to it, with comments right above it."""
    start: int
    """Its own first row; decorators and attributes count, comments don't."""
    end: int
    """Its last row."""
    members: tuple["Definition", ...] = field(default=())
    """Members of a class-like definition, in order."""


def has_grammar(language: str) -> bool:
    """Whether definitions of a language can be found by its grammar."""
    return language in _GRAMMARS


def definitions(text: str, language: str) -> list[Definition]:
    """The top-level definitions of a source file, in order; for broken code those that can be recognised.

    Two on one row count as one. Namespaces, preprocessor conditions and the like are searched for definitions.
    """
    tree = _parser(language).parse(text.encode("utf-8"))
    return _collect(tree.root_node, inside_class=False)


@cache
def _parser(language: str) -> Parser:
    return Parser(Language(_GRAMMARS[language]()))


def _collect(parent: Node, *, inside_class: bool) -> list[Definition]:
    """Definitions among a node's children. Recursion follows nesting of classes and namespaces, not of expressions."""
    results: list[Definition] = []
    above: Node | None = None  # first of the comments and attributes directly above the next node
    above_own: Node | None = None  # first attribute among them
    last_row = -2
    for node in parent.named_children:
        if node.type in _ABOVE:
            if above is None or node.start_point.row > last_row + 1:
                above, above_own = node, None
            if above_own is None and node.type not in _COMMENTS:
                above_own = node
            last_row = _last_row(node)
            continue
        touching = above is not None and node.start_point.row <= last_row + 1
        first = above.start_point.row if above is not None and touching else node.start_point.row
        start = above_own.start_point.row if above_own is not None and touching else node.start_point.row
        above = above_own = None
        for each in _read(node, inside_class=inside_class):
            is_whole = each.start == node.start_point.row
            _append(results, _replace(each, first, start) if is_whole else each)
    return results


def _read(node: Node, *, inside_class: bool) -> list[Definition]:
    inner = _unwrap(node)
    if inner.type in _VALUE_DECLARATIONS:
        return [_definition(node, inner)] if _defines_value(inner, inside_class=inside_class) else []
    if _SURROUNDING.fullmatch(inner.type) and not (
        inner.type == "module" and inner.child_by_field_name("name") is None
    ):
        return _surrounded(inner, inside_class=inside_class)
    if _DEFINITION.fullmatch(inner.type) or (inside_class and _is_function_field(inner)):
        return [_definition(node, inner)]
    if inner.type == "declaration" and inner.child_by_field_name("type") is not None:
        # C: `struct point { … } origin;` is a declaration around a definition.
        kind = inner.child_by_field_name("type")
        if kind is not None and kind.child_by_field_name("body") is not None:
            return [_definition(node, kind)]
    return []


def _surrounded(node: Node, *, inside_class: bool) -> list[Definition]:
    """Searches a namespace or condition; its name is a prefix of the names in it."""
    name = _name(node) if node.type not in {"export_statement"} and not node.type.startswith("preproc") else ""
    body = node.child_by_field_name("body")
    inside = _collect(body if body is not None else node, inside_class=inside_class)
    if not name:
        return inside
    return [Definition(f"{name} > {each.name}", each.first, each.start, each.end, each.members) for each in inside]


def _definition(outer: Node, inner: Node) -> Definition:
    members: tuple[Definition, ...] = ()
    if _CLASS_LIKE.fullmatch(inner.type):
        body = inner.child_by_field_name("body") or inner
        members = tuple(_collect(body, inside_class=True))
    row = outer.start_point.row
    return Definition(_name(inner), row, row, _last_row(outer), members)


def _unwrap(node: Node) -> Node:
    while node.type in _WRAPPERS:
        field_name, children = _WRAPPERS[node.type], node.named_children
        inner = node.child_by_field_name(field_name) if field_name else (children[-1] if children else None)
        if inner is None:
            break
        node = inner
    if node.type == _STATEMENT and node.named_children and node.named_children[0].type == "internal_module":
        node = node.named_children[0]
    return node


def _defines_value(node: Node, *, inside_class: bool) -> bool:
    """Whether a value declaration is worth its own chunk: at the top level, and more than one row long."""
    return not inside_class and _last_row(node) > node.start_point.row


def _is_function_field(node: Node) -> bool:
    """JavaScript: `handle = () => { … }` in a class."""
    if node.type not in {"public_field_definition", "field_definition", "property_declaration"}:
        return False
    return _last_row(node) > node.start_point.row


def _name(node: Node) -> str:
    """A node's name; declarators are followed down to the name (C), an impl block is named by its type (Rust)."""
    for _ in range(8):
        named = next((child for child in map(node.child_by_field_name, _NAMES) if child is not None), None)
        if named is None and node.type in {*_VALUE_DECLARATIONS, "type_declaration"}:
            named = next((child for child in node.named_children if child.type.endswith(("declarator", "_spec"))), None)
        if named is None:
            break
        node = named
        if _WHOLE_NAMES.fullmatch(node.type):
            break
    text = (node.text or b"").decode("utf-8", errors="replace") if node.end_byte - node.start_byte <= 400 else ""
    return " ".join(text.split())[:100] if "\n" not in text else ""


def _last_row(node: Node) -> int:
    """The last row with text of a node: some end with the line end, at column 0 of the next row."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _replace(definition: Definition, first: int, start: int) -> Definition:
    return Definition(definition.name, first, start, definition.end, definition.members)


def _append(definitions: list[Definition], definition: Definition) -> None:
    """Appends a definition; one that starts on the row where the last one ends is joined to it."""
    if definitions and definition.first <= definitions[-1].end:
        last = definitions.pop()
        definition = Definition(last.name, last.first, last.start, max(last.end, definition.end))
    definitions.append(definition)
