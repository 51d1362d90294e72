"""Questions about a PDF, a sheet, a Markdown file and a source file, all by others, cite the right places.

Real files go through HTTP, the worker and the chat, with real vectors: the fact's chunk must be among the first
three citations.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from http_api import ask

Citation = dict[str, object]


def _number(citation: Citation, key: str) -> int:
    value = citation[key]
    assert isinstance(value, int), f"{key} is {value!r}"
    return value


CASES: list[tuple[str, str, Callable[[Citation], bool]]] = [
    (
        "qa-financebench/pdfs/FOOTLOCKER_2022_8K_dated-2022-05-20.pdf",
        "How did the shareholders vote on the ten nominees to the Board of Directors?",
        lambda citation: _number(citation, "page_number") == 2,
    ),
    (
        "documents/csv/csv-comma.csv",
        "In which city does Linda Olsen live?",
        lambda citation: _number(citation, "row_number") == 5,
    ),
    (
        "documents/csv/csv-tab.csv",
        "What is the e-mail address of Sheryl Baxter?",
        lambda citation: _number(citation, "row_number") == 2,
    ),
    (
        "documents/md/wiki.md",
        "Which reservation system did IBM develop for American Airlines?",
        lambda citation: str(citation["section"]).endswith("1960s–1980s"),
    ),
    (
        "documents/code/_reader.py",
        "How does the reader decrypt a file with a password?",
        lambda citation: 1470 <= _number(citation, "start_line") <= 1493,
    ),
]


@pytest.mark.parametrize(("file", "question", "is_right"), CASES, ids=[case[0].split("/")[-1] for case in CASES])
async def test_the_facts_chunk_is_among_the_first_three_citations(
    api: httpx.AsyncClient,
    shared_data: Path,
    upload_once: Callable[[Path], Awaitable[int]],
    file: str,
    question: str,
    is_right: Callable[[Citation], bool],
) -> None:
    document_id = await upload_once(shared_data / file)
    answer = await ask(api, question, document_ids=[document_id])
    first = answer["citations"][:3]
    assert all(citation["document_id"] == document_id for citation in first)
    assert any(is_right(citation) for citation in first), first
