"""Jupyter notebooks (nbformat 3 and 4): the stored text is the cells' text and output."""

import json
import re
from collections.abc import Iterator, Mapping
from mmap import mmap
from typing import Any, TypeGuard, cast

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.code import parse_code
from citewire_retriever.ingest.parsers.markdown import parse_markdown
from citewire_retriever.ingest.parsers.nesting import embed
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.plain import parse_plain

MEDIA_TYPE = "application/x-ipynb+json"
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LANGUAGE = re.compile(r"[a-z][a-z0-9]{0,31}")
_KERNELS = {"python3": "python", "ir": "r", "c++": "cpp", "node": "javascript"}
_CELL_KINDS = {"markdown", "code", "raw", "heading"}

Json = Mapping[str, Any]


def parse_notebook(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a notebook.

    Cells are numbered from 1 in the file's order. Markdown cells are read as Markdown, and their headings start
    sections; code cells are read in the notebook's language. Text output of code cells is kept; pictures are left out,
    and so are HTML and widgets where there is text for the same output.

    Raises:
        IngestError: CORRUPT if it isn't a notebook; EMPTY; TOO_LARGE.
    """
    notebook = _read(data)
    builder = TextBuilder(limits)
    language = _language(notebook)
    for number, cell in enumerate(_cells(notebook), start=1):
        _add_cell(builder, cell, number, language)
    if not builder.blocks:
        raise IngestError(IngestCode.EMPTY, "The notebook's cells are empty.")
    title = clean(_text(_object(notebook.get("metadata")).get("title")))
    return ParsedDocument(
        Format.NOTEBOOK,
        MEDIA_TYPE,
        builder.text(),
        tuple(builder.blocks),
        title=one_line(title)[:LABEL_LIMIT] or _first_heading(builder.blocks),
    )


def _read(data: bytes | mmap) -> Json:
    try:
        notebook = json.loads(data[:])
    except ValueError:
        raise IngestError(IngestCode.CORRUPT, "The file is named .ipynb but isn't JSON.") from None
    except RecursionError:
        raise IngestError(IngestCode.CORRUPT, "The file is nested too deeply to be a notebook.") from None
    if not _is_object(notebook) or not isinstance(notebook.get("cells", notebook.get("worksheets")), list):
        raise IngestError(IngestCode.CORRUPT, "The file is named .ipynb but has no cells.")
    return notebook


def _cells(notebook: Json) -> Iterator[Json]:
    """The cells in order; version 3 had them in worksheets."""
    sheets = [notebook] if "cells" in notebook else notebook["worksheets"]
    for sheet in sheets:
        for cell in _list(_object(sheet).get("cells")):
            yield _object(cell)


def _add_cell(builder: TextBuilder, cell: Json, number: int, language: str) -> None:
    place = Place(cell=number)
    source = clean(_text(cell.get("source", cell.get("input"))))
    kind = cell.get("cell_type")
    if source.strip() and kind in _CELL_KINDS:
        if kind == "heading":  # version 3
            source = f"{'#' * _level(cell.get('level'))} {one_line(source)}"
        if kind in {"markdown", "heading"}:
            inner = parse_markdown(source, builder.limits)
        elif kind == "code":
            inner = parse_code(source, language, builder.limits)
        else:
            inner = parse_plain(source, builder.limits)
        embed(builder, inner, place)
    if kind == "code":
        for output in _list(cell.get("outputs")):
            text = _output(_object(output))
            if text.strip():
                start, end = builder.write(text.strip("\n"))
                builder.add(Block(BlockKind.CODE, start, end, place=place))


def _output(output: Json) -> str:
    """An output's text; empty for a picture."""
    kind = output.get("output_type")
    if kind in {"error", "pyerr"}:
        text = _text(output.get("traceback"), separator="\n") or f"{output.get('ename')}: {output.get('evalue')}"
    elif kind == "stream":
        text = _text(output.get("text"))
    else:
        # Version 3 has the data next to the kind, under short names.
        shown = _object(output.get("data")) or output
        text = next((_text(shown[name]) for name in ("text/markdown", "text/plain", "text") if name in shown), "")
    # A progress bar's last state.
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _COLOURS.sub("", text).split("\n"))
    return clean("\n".join(lines))


def _language(notebook: Json) -> str:
    metadata = _object(notebook.get("metadata"))
    kernel = _object(metadata.get("kernelspec"))
    named = (_object(metadata.get("language_info")).get("name"), kernel.get("language"), kernel.get("name"))
    name = next((each.lower() for each in named if isinstance(each, str) and each), "python")
    name = _KERNELS.get(name, name)
    return name if _LANGUAGE.fullmatch(name) else "python"


def _first_heading(blocks: list[Block]) -> str | None:
    heading = next((block for block in blocks if block.kind is BlockKind.HEADING), None)
    return heading.label if heading is not None and heading.level == 1 and heading.label else None


def _text(value: object, *, separator: str = "") -> str:
    """A text as notebooks hold it: one string or a list of lines."""
    if isinstance(value, str):
        return value
    return separator.join(line for line in _list(value) if isinstance(line, str))


def _level(value: object) -> int:
    return min(max(value, 1), 6) if isinstance(value, int) else 1


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _object(value: object) -> Json:
    return value if _is_object(value) else {}


def _is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)
