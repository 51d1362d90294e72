"""Each quote is found word for word where its citation points: in the answer, the chunk and the document's version."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from http_api import Json, ask, upload_bytes

NOTES = """# Lighthouse

The tower was built in 1874 by Mary O'Connor 🙂. It is 31.5 metres high.

| room | floor | beds |
| --- | --- | --- |
| lamp room | 7 | 0 |
| keeper's room | 2 | 3 |

## Opening

Visitors may come from May to September. Dogs aren't allowed in the tower.
"""
ROWS = "name,town,members\nRowing club,Bergen,120\nChess club,Aarhus,45\n"
PAGE = "<html><title>Ferry</title><body><h1>Ferry</h1><p>The ferry leaves at 7:40 from pier 4.</p></body></html>"
CODE = '''def limit(count: int) -> int:
    """Returns the largest number of boats, which is twelve."""
    return min(count, 12)
'''
FILES = {
    "lighthouse.md": NOTES,
    "clubs.csv": ROWS,
    "ferry.html": PAGE,
    "boats.py": CODE,
    "crlf.txt": "One line.\r\nThe gate opens at six.\r\n",
}
QUESTIONS = (
    "When was the tower built, and who built it?",
    "How many beds does the keeper's room have?",
    "Are dogs allowed in the tower?",
    "How many members does the chess club have?",
    "When does the ferry leave?",
    "What is the largest number of boats?",
    "When does the gate open?",
)
MARKER = re.compile(r"\[(?:ref:|SOURCE )(\d+)\]")


@pytest.fixture(scope="module")
def collection() -> str:
    return "verified-citations"


@pytest.fixture
async def library(api: httpx.AsyncClient, collection: str) -> str:
    listed = (await api.get("/v1/documents", params={"collection": collection})).json()["documents"]
    if not listed:
        for name, text in FILES.items():
            document = await upload_bytes(api, name, text.encode())
            patched = await api.patch(f"/v1/documents/{document['id']}", json={"collection": collection})
            assert patched.status_code == 200, patched.text
    return collection


async def check(api: httpx.AsyncClient, answer: str, verified: list[Json]) -> int:
    """Opens each place; returns how many quotes are in their document word for word."""
    placed = 0
    for entry in verified:
        assert answer[entry["sentence"]["start"] : entry["sentence"]["end"]].strip()
        chunk = (await api.get(f"/v1/chunks/{entry['chunk_id']}")).json()
        assert (chunk["document_id"], chunk["version"]) == (entry["document_id"], entry["version"])
        assert chunk["content"][entry["quote_start"] : entry["quote_end"]] == entry["quote"]
        if "document_start" in entry:
            text = await api.get(f"/v1/documents/{entry['document_id']}/text", params={"version": entry["version"]})
            assert text.text[entry["document_start"] : entry["document_end"]] == entry["quote"]
            placed += 1
    return placed


@pytest.mark.parametrize("profile", ["grounded", "sources", "library"])
async def test_every_quote_is_where_its_citation_points(api: httpx.AsyncClient, library: str, profile: str) -> None:
    placed = 0
    for question in QUESTIONS:
        body = await ask(api, question, profile=profile, collection=library)
        cited = {int(number) for number in MARKER.findall(body["answer"])}
        assert {entry["index"] for entry in body["verified"]} == cited
        if body["not_found"]:
            assert body["verified"] == []
        # The extractive provider's answers are copied from passages.
        assert {element["verdict"] for element in body["verified"]} <= {"supported"}, body["verified"]
        placed += await check(api, body["answer"], body["verified"])
    assert (
        placed >= len(QUESTIONS) - 2
    )  # a row of a Markdown table has no place in the text, and another quote may not be found


async def test_a_stream_and_its_stored_message_are_the_same(api: httpx.AsyncClient, library: str) -> None:
    request = {"question": QUESTIONS[0], "profile": "grounded", "collection": library}
    events: list[tuple[str, Json]] = []
    async with api.stream("POST", "/v1/chat", json=request) as response:
        name = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, json.loads(line.removeprefix("data: "))))
    names = [name for name, _ in events]
    assert "citation" in names
    assert names.index("token") < names.index("citation") < names.index("usage")
    shown = [data for name, data in events if name == "citation"]
    conversation = next(data["conversation_id"] for name, data in events if name == "conversation")
    stored = (await api.get(f"/v1/conversations/{conversation}")).json()["messages"][1]
    assert stored["verified"] == shown
    assert stored["uncited"] == [data for name, data in events if name == "uncited"]
    assert await check(api, stored["content"], shown)


async def test_without_markers_a_sentence_cites_what_supports_it(api: httpx.AsyncClient, library: str) -> None:
    body = await ask(api, QUESTIONS[0], collection=library, include=["citation"])
    assert body["profile"] == "documents"
    assert not MARKER.search(body["answer"])
    assert any("1874" in entry["quote"] for entry in body["verified"])
    assert await check(api, body["answer"], body["verified"])


async def test_an_old_versions_quote_still_opens(api: httpx.AsyncClient) -> None:
    document = await upload_bytes(api, "harbour.txt", b"The harbour master is called Ida Holm.")
    body = await ask(api, "Who is the harbour master?", profile="grounded", document_ids=[document["id"]])
    assert body["verified"]
    put = await api.put(f"/v1/documents/{document['id']}", files={"file": ("harbour.txt", b"Nobody knows any more.")})
    assert put.status_code == 202
    await check(api, body["answer"], body["verified"])
