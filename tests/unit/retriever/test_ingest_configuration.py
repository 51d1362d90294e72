"""TOML and INI: settings below the section that a reader would name, at their lines."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from citewire_retriever.ingest import chunker
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.document import BlockKind
from ingest_files import check_document, parse_bytes, text_of

TOML = '''title = "Größen"  # [no.section]

[tool.ruff]
select = [
  ["A"],
  "[no.section]",
  [1]
]
note = """
[no.section]
"""

[[tool."my pack".items]] # the first
name = '年度'

[server]
'''
INI = "; [none]\nname = x\n[Größe und Maß]\nwidth = 3\n\n  [kept] = y\n[network] # LAN\nhost: a.example\n"


async def count(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def test_sections_of_toml_are_its_tables(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.toml", TOML)
    check_document(document)
    assert (document.media_type, document.title) == ("application/toml", None)
    assert [(block.label, block.place.start_line) for block in document.blocks if block.kind is BlockKind.HEADING] == [
        ("tool.ruff", 3),
        ('tool."my pack".items', 13),
        ("server", 16),
    ]


def test_sections_of_ini(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.ini", INI)
    check_document(document)
    labels = [block.label for block in document.blocks if block.kind is BlockKind.HEADING]
    assert labels == ["Größe und Maß", "network"]
    chunks = asyncio.run(chunker.chunk(document, "a", ChunkRules(max_tokens=64), count))
    assert [(chunk.section, chunk.place.start_line, chunk.place.end_line) for chunk in chunks] == [
        ("", 1, 2),
        ("Größe und Maß", 3, 6),
        ("network", 7, 8),
    ]
    assert "[kept] = y" in chunks[1].text


@pytest.mark.parametrize("text", ['a = """\n[b]\n', "[" * 50_000, "a = '" + "[" * 50_000, "[a]\n" * 20_000])
@pytest.mark.parametrize("name", ["a.toml", "a.ini"])
def test_a_file_with_broken_syntax_is_read_as_text(tmp_path: Path, text: str, name: str) -> None:
    document = parse_bytes(tmp_path, name, text)
    check_document(document)
    assert document.text == text
    assert "".join(text_of(document, block) for block in document.blocks).replace("\n", "") == text.replace("\n", "")
