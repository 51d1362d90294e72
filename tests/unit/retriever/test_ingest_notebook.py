"""Notebooks: every block has its cell's number, code is read as code, and outputs are text without pictures."""

import json
from pathlib import Path
from typing import Any

import pytest

from citewire_retriever.ingest.document import BlockKind, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from ingest_files import parse_bytes, text_of


def cell(kind: str, source: str | list[str], **fields: object) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": source, **fields}


def notebook(*cells: dict[str, Any], **metadata: object) -> str:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


def by_cell(document: ParsedDocument) -> dict[int, str]:
    cells: dict[int, str] = {}
    for block in document.blocks:
        cells[block.place.cell] = f"{cells.get(block.place.cell, '')}{text_of(document, block)}\n"
    return cells


PICTURE = "iVBORw0KGgo" * 1000

ANALYSIS = notebook(
    cell("markdown", ["# Tides\n", "\n", "Heights at the *pier*, in metres.\n"]),
    cell("code", ""),
    cell(
        "code",
        ["import math\n", "\n", "def height(hour):\n", "    return 2 + math.sin(hour)\n", "\n", "height(3)"],
        outputs=[
            {"output_type": "stream", "name": "stdout", "text": ["10%\r50%\r100%\n", "done\n"]},
            {
                "output_type": "execute_result",
                "data": {"text/plain": ["2.1411200080598674"], "text/html": "<b>2.14</b>", "image/png": PICTURE},
            },
        ],
    ),
    cell("markdown", "## Storms\n\nNone was seen."),
    cell("code", "1 / 0", outputs=[{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero",
                                     "traceback": ["\x1b[0;31mZeroDivisionError\x1b[0m", "division by zero"]}]),
    cell("raw", "Kept as it is."),
    language_info={"name": "python"},
)  # fmt: skip


def test_cells_are_numbered_as_in_the_file(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "tides.ipynb", ANALYSIS)
    cells = by_cell(document)
    assert list(cells) == [1, 3, 4, 5, 6]
    source = json.loads(ANALYSIS)["cells"]
    for number, text in cells.items():
        for line in "".join(source[number - 1]["source"]).split("\n"):
            assert line.strip() in text
    assert document.title == "Tides"
    assert document.media_type == "application/x-ipynb+json"


def test_outputs_are_text_without_pictures_or_colours(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "tides.ipynb", ANALYSIS)
    text = by_cell(document)[3]
    assert "100%\ndone" in text
    assert "50%" not in text
    assert "2.1411200080598674" in text
    assert "<b>" not in document.text
    assert "iVBOR" not in document.text
    assert "ZeroDivisionError\ndivision by zero" in by_cell(document)[5]


def test_code_is_read_in_the_notebooks_language(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "tides.ipynb", ANALYSIS)
    definitions = [block.label for block in document.blocks if block.kind is BlockKind.DEFINITION]
    assert definitions == ["height"]
    rust = notebook(cell("code", "fn tide() -> f64 {\n    2.0\n}\n"), kernelspec={"language": "rust"})
    document = parse_bytes(tmp_path, "a.ipynb", rust)
    assert [block.label for block in document.blocks] == ["tide"]


def test_version_3_of_the_format_is_read_too(tmp_path: Path) -> None:
    old = {
        "nbformat": 3,
        "metadata": {"name": "old"},
        "worksheets": [{"cells": [
            {"cell_type": "heading", "level": 2, "source": "Results"},
            {"cell_type": "code", "input": "2 + 2", "language": "python",
             "outputs": [{"output_type": "pyout", "text": ["4"]}]},
        ]}],
    }  # fmt: skip
    assert by_cell(parse_bytes(tmp_path, "a.ipynb", json.dumps(old))) == {1: "## Results\n", 2: "2 + 2\n4\n"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("{", IngestCode.CORRUPT),
        ("[]", IngestCode.CORRUPT),
        ('{"cells": 3}', IngestCode.CORRUPT),
        ('{"cells": [3, null, {"cell_type": "code"}]}', IngestCode.EMPTY),
        (notebook(cell("code", " ", outputs=[{"data": {"image/png": PICTURE}}])), IngestCode.EMPTY),
    ],
)
def test_an_invalid_notebook_is_refused(tmp_path: Path, data: str, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.ipynb", data)
    assert caught.value.code is code
