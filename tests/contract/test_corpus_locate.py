"""LocateSpan over a real gRPC server, a real Postgres and confined processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import psycopg
import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1 import retriever_pb2

from citewire_kit.errors import CitewireError, Code
from citewire_retriever.ingest.parsers import parse
from corpus_calls import LIMITS
from ingest_files import make_pdf, prose_page
from retriever_process import Caller

QUOTE = "Abroad it is sixty-two euros."


@pytest.fixture
def retriever_settings() -> dict[str, object]:
    return {**LIMITS, "confinement": "available"}


def publish(
    owner: psycopg.Connection, document_id: int, text: str, chunks: Sequence[tuple[int, int, Mapping[str, object]]]
) -> None:
    """Stores what the worker would store for a version: its text in two parts, and its chunks."""
    owner.execute("UPDATE corpus.versions SET status = 'ready' WHERE document_id = %s", (document_id,))
    half = len(text) // 2
    for part, (start, body) in enumerate(((0, text[:half]), (half, text[half:]))):
        owner.execute(
            "INSERT INTO corpus.texts (org_id, document_id, version, part, char_start, body)"
            " SELECT org_id, document_id, version, %s, %s, %s FROM corpus.versions WHERE document_id = %s",
            (part, start, body, document_id),
        )
    for number, (start, end, place) in enumerate(chunks):
        owner.execute(
            "INSERT INTO corpus.chunks (org_id, document_id, version, chunk_index, text, token_count, content_hash,"
            " char_start, char_end, place) SELECT org_id, document_id, version, %s, %s, 1, sha256('x'), %s, %s, %s"
            " FROM corpus.versions WHERE document_id = %s",
            (number, text[start:end], start, end, json.dumps(place), document_id),
        )


async def locate(me: Caller, document_id: int, start: int, end: int, **fields: int) -> list[Place]:
    request = pb.LocateSpanRequest(document_id=document_id, char_start=start, char_end=end, **fields)
    response = await me.unary(me.running.corpus.LocateSpan, request)
    assert response.version == 1
    return list(response.places)


async def test_a_quote_of_a_pdf_has_boxes_on_its_pages(me: Caller, owner: psycopg.Connection) -> None:
    data = make_pdf([prose_page("Travel", [["Here it is thirty euros.", QUOTE]]), prose_page("Meals", [["Not paid."]])])
    parsed = parse(data, "a.pdf")
    document_id = (await me.upload(pb.UploadHeader(file_name="a.pdf"), data)).document_id
    blocks = [(block.start, block.end, {"page": block.place.page}) for block in parsed.blocks]
    publish(
        owner, document_id, parsed.text, [block for block in blocks if "Meals" not in parsed.text[slice(*block[:2])]]
    )
    owner.execute("UPDATE corpus.versions SET media_type = 'application/pdf'")
    start = parsed.text.index(QUOTE)
    for _ in range(2):  # the second time from memory
        (place,) = await locate(me, document_id, start, start + len(QUOTE), version=1)
        assert (place.page, place.boxes.width, place.boxes.height) == (1, 612, 792)
        (box,) = place.boxes.boxes
        assert 0 < box.left < box.right < 612
        assert 0 < box.top < box.bottom < 792
    # Over two pages, and a heading that is in no chunk: it belongs to the next one.
    both = await locate(me, document_id, start, len(parsed.text))
    assert [(place.page, len(place.boxes.boxes)) for place in both] == [(1, 1), (2, 1)]
    meals = parsed.text.index("Meals")
    (heading,) = await locate(me, document_id, meals, meals + 5)
    assert (heading.page, len(heading.boxes.boxes)) == (2, 1)


async def test_a_quote_in_recognised_text_has_the_stored_boxes(me: Caller, owner: psycopg.Connection) -> None:
    """The page has no text of its own to search, so the boxes are the quote's part of each recognised line."""
    data = b"%PDF-1.7 of pictures"
    document_id = (await me.upload(pb.UploadHeader(file_name="a.pdf"), data)).document_id
    text = "Ten signs. Ten signs. Elsewhere."
    publish(owner, document_id, text, [(0, len(text), {"page": 3})])

    def line(start: int, top: float) -> list[object]:
        box = {"left": 100.0, "top": top, "right": 210.0, "bottom": top + 10}
        return [start, {"page": 3, "boxes": {"width": 612.0, "height": 792.0, "boxes": [box]}}]

    places = json.dumps([line(0, 50), line(11, 70), line(22, 90)])
    owner.execute("UPDATE corpus.versions SET media_type = 'application/pdf'")
    owner.execute("UPDATE corpus.chunks SET places = %s", (places,))
    (place,) = await locate(me, document_id, 4, 15)
    assert (place.page, place.boxes.width, place.boxes.height) == (3, 612, 792)
    assert [(box.left, box.top, box.right) for box in place.boxes.boxes] == [(140, 50, 210), (100, 70, 140)]


async def test_a_quote_in_another_format_has_its_place(me: Caller, owner: psycopg.Connection) -> None:
    document_id = (await me.upload(pb.UploadHeader(file_name="a.csv"), b"a\n1\n2\n")).document_id
    publish(owner, document_id, "a: 1\na: 2", [(0, 4, {"row": 2}), (5, 9, {"row": 3})])
    assert await locate(me, document_id, 5, 9) == [Place(row=3)]
    assert await locate(me, document_id, 3, 6) == [Place(row=2), Place(row=3)]


async def test_a_part_of_a_chunk_has_its_own_place(me: Caller, owner: psycopg.Connection) -> None:
    document_id = (await me.upload(pb.UploadHeader(file_name="a.json"), b"{}")).document_id
    publish(owner, document_id, "a: 1\na: 2\nb: 3", [(0, 14, {"record_path": "[0:2]"})])
    places = [[start, {"record_path": path}] for start, path in ((0, "[0].a"), (5, "[1].a"), (10, "[1].b"))]
    owner.execute("UPDATE corpus.chunks SET places = %s", (json.dumps(places),))
    assert await locate(me, document_id, 6, 9) == [Place(record_path="[1].a")]
    assert await locate(me, document_id, 0, 6) == [Place(record_path="[0].a"), Place(record_path="[1].a")]
    (row,) = owner.execute("SELECT chunk_id FROM corpus.chunks").fetchall()
    request = retriever_pb2.GetChunksRequest(chunk_ids=[row[0]])
    (chunk,) = (await me.unary(me.running.retriever.GetChunks, request)).chunks
    assert [[part.start, {"record_path": part.place.record_path}] for part in chunk.places] == places


async def test_a_row_of_a_markdown_table_has_its_line(me: Caller, owner: psycopg.Connection) -> None:
    text = "| a |\n|---|\n| 1 |\n| 2 |\n| 3 |\n"
    document_id = (await me.upload(pb.UploadHeader(file_name="a.md"), text.encode())).document_id
    publish(owner, document_id, text, [(12, 29, {"start_line": 3, "end_line": 5})])
    places = [[start, {"start_line": line, "end_line": line}] for start, line in ((0, 3), (6, 4), (12, 5))]
    owner.execute("UPDATE corpus.chunks SET verbatim = false, places = %s", (json.dumps(places),))
    assert await locate(me, document_id, 20, 21) == [Place(start_line=4, end_line=4)]
    assert [place.start_line for place in await locate(me, document_id, 20, 27)] == [4, 5]
    assert [place.start_line for place in await locate(me, document_id, 0, 29)] == [3, 4, 5]


async def test_a_damaged_pdf_has_its_page(me: Caller, owner: psycopg.Connection) -> None:
    document_id = (await me.upload(pb.UploadHeader(file_name="a.pdf"), b"%PDF-1.7 broken")).document_id
    publish(owner, document_id, "Some text.", [(0, 10, {"page": 4})])
    owner.execute("UPDATE corpus.versions SET media_type = 'application/pdf'")
    assert await locate(me, document_id, 0, 4) == [Place(page=4)]


async def test_others_and_pending_versions_get_no_places(me: Caller, them: Caller, owner: psycopg.Connection) -> None:
    document_id = (await me.upload(pb.UploadHeader(file_name="a.md"), b"Some text.")).document_id
    with pytest.raises(CitewireError) as early:
        await locate(me, document_id, 0, 4)
    assert (early.value.code, early.value.reason) == (Code.FAILED_PRECONDITION, "WRONG_STATE")
    publish(owner, document_id, "Some text.", [(0, 10, {"start_line": 1, "end_line": 1})])
    assert await locate(me, document_id, 0, 4) == [Place(start_line=1, end_line=1)]
    with pytest.raises(CitewireError) as foreign:
        await locate(them, document_id, 0, 4)
    assert foreign.value.reason == "DOCUMENT_NOT_FOUND"


@pytest.mark.parametrize(
    ("field", "start", "end"),
    [("char_end", 4, 4), ("char_end", 5, 4), ("char_end", 0, 8001), ("char_start", 10, 11), ("char_end", 0, 2**32 - 1)],
)
async def test_invalid_spans_are_refused(
    me: Caller, owner: psycopg.Connection, field: str, start: int, end: int
) -> None:
    document_id = (await me.upload(pb.UploadHeader(file_name="a.md"), b"Some text.")).document_id
    publish(owner, document_id, "Some text.", [(0, 10, {})])
    with pytest.raises(CitewireError) as caught:
        await locate(me, document_id, start, end)
    assert [violation.field for violation in caught.value.violations] == [field]
