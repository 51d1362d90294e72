"""Places in workbooks and slides, in JSON, in links and as text."""

from __future__ import annotations

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_cli.sources import place as place_in_words
from citewire_dialects import events
from citewire_dialects.schemas import chat, library, search
from citewire_gateway.chat.answer import passage_messages

CELLS = Place(row=5, sheet="Preise & Größen", cell_range="A5:D5")
ROWS = Place(row=5, end_row=8)
SLIDE = Place(slide=3)
CELL = Place(cell=4)
RECORD = Place(record_path="orders[3].customer", start_line=7, end_line=9)
CUE = Place(start_seconds=65.5, end_seconds=68)
ATTACHED = Place(part="Bericht 1.pdf", page=2)


def search_result(place: Place) -> retriever_pb2.SearchResult:
    chunk = retriever_pb2.Chunk(
        chunk_id=1, document_id=7, version=1, title="T", file_name="f", type="file", place=place
    )
    return retriever_pb2.SearchResult(chunk=chunk, rank_score=0.5)


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        (CELLS, {"row_number": 5, "sheet": "Preise & Größen", "cell_range": "A5:D5"}),
        (Place(row=5), {"row_number": 5}),
        (SLIDE, {"slide": 3}),
        (Place(page=2), {"page_number": 2}),
        (CELL, {"cell": 4}),
        (Place(record_path="a[0].b"), {"record_path": "a[0].b"}),
        (CUE, {"start_seconds": 65.5, "end_seconds": 68.0}),
        (ATTACHED, {"part": "Bericht 1.pdf", "page_number": 2}),
    ],
    ids=["cells", "row", "slide", "page", "cell", "record", "cue", "attached"],
)
def test_each_schema_has_the_fields_of_the_place_only(place: Place, fields: dict[str, object]) -> None:
    result = search_result(place)
    verified = events.VerifiedCitation(generator_pb2.VerifiedCitation(number=1), result.chunk)
    bodies = [
        search.SearchResult.from_proto(result),
        search.Chunk.read(result.chunk),
        chat.Citation.read(events.Citation(1, result)),
        chat.VerifiedCitation.read(verified),
        library.SpanPlace.read(place),
    ]
    names = set(library.SpanPlace.model_fields) - {"boxes"}
    for body in bodies:
        members = body.members()
        assert {name: value for name, value in members.items() if name in names} == fields, type(body)


@pytest.mark.parametrize(
    ("place", "fragment"),
    [
        (CELLS, "#sheet=Preise%20%26%20Gr%C3%B6%C3%9Fen&range=A5:D5"),
        (ROWS, "#row=5-8"),
        (SLIDE, "#slide=3"),
        (CELL, "#cell=4"),
        (RECORD, "#path=orders%5B3%5D.customer"),
        (CUE, "#t=65.5"),
        (ATTACHED, "#part=Bericht%201.pdf"),
    ],
    ids=["cells", "rows", "slide", "cell", "record", "cue", "attached"],
)
def test_links_open_at_the_place(place: Place, fragment: str) -> None:
    assert events.Citation(1, search_result(place)).url == f"/v1/documents/7/content?version=1{fragment}"


@pytest.mark.parametrize(
    ("place", "label", "words"),
    [
        (CELLS, "Preise & Größen!A5:D5", "Preise & Größen!A5:D5"),
        (ROWS, "rows 5–8", "rows 5–8"),
        (Place(row=5), "row 5", "row 5"),
        (SLIDE, "slide 3", "slide 3"),
        (CELL, "cell 4", "cell 4"),
        (RECORD, "orders[3].customer", "orders[3].customer"),
        (CUE, "0:01:05", "00:01:05"),
        (ATTACHED, "Bericht 1.pdf, p. 2", "Bericht 1.pdf, page 2"),
    ],
    ids=["cells", "rows", "row", "slide", "cell", "record", "cue", "attached"],
)
def test_the_place_as_text_for_users_and_models(place: Place, label: str, words: str) -> None:
    result = search_result(place)
    assert passage_messages([result])[0].place_label == label
    assert place_in_words(search.SearchResult.from_proto(result).members()) == words
