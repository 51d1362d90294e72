"""`POST /v1/documents:batch` over real HTTP: a result for each operation, in their order."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

PATH = "/v1/documents:batch"
TEXT = {"type": "article", "title": "Notes", "content": "# Words"}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def results(gateway: Gateway, *operations: object, **headers: str) -> list[Any]:
    response = await gateway.http.post(PATH, json={"operations": operations}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["results"]


async def test_operations_are_done_in_order_and_each_has_its_result(gateway: Gateway) -> None:
    content = bytes(range(256))
    file = {"file_name": "a/b.bin", "content": b64encode(content).decode(), "tags": ["x"], "valid_until": "2030-01-31"}
    made = await results(
        gateway, {"op": "create", "document": TEXT}, {"op": "create", "document": file | {"collection": "c"}}
    )
    assert [result["status"] for result in made] == [202, 202]
    first, second = (result["document"]["id"] for result in made)
    assert gateway.fakes.corpus.stored["local", second].content == content
    header = gateway.fakes.corpus.headers[-1]
    assert (header.file_name, list(header.tags), header.collection) == ("a/b.bin", ["x"], "c")
    assert header.valid_until.ToJsonString() == "2030-02-01T00:00:00Z"
    done = await results(
        gateway,
        {"op": "update", "id": first, "document": {"title": "Anew", "url": None}},
        {"op": "update", "id": first, "document": {"title": "Anew again"}},
        {"op": "replace", "id": second, "document": TEXT},
        {"op": "delete", "id": first},
        {"op": "update", "id": first, "document": {"title": "Too late"}},
    )
    assert [result["status"] for result in done] == [200, 200, 202, 204, 404]
    assert done[1]["document"]["title"] == "Anew again"
    assert [list(update.update_mask.paths) for update in gateway.fakes.corpus.updates[:2]] == [
        ["title", "url"],
        ["title"],
    ]
    assert done[3] == {"status": 204}
    assert ("local", first) not in gateway.fakes.corpus.stored


async def test_a_failed_operation_names_its_field_and_does_not_stop_others(gateway: Gateway) -> None:
    done = await results(
        gateway,
        {"op": "create", "document": TEXT | {"title": ""}},
        {"op": "create", "document": {"file_name": "a", "content": "*"}},
        {"op": "update", "id": 7, "document": {"nonsense": 1}},
        {"op": "update", "id": 7, "document": {}},
        {"op": "delete", "id": 7},
        {"op": "create", "document": TEXT},
    )
    assert [result["status"] for result in done] == [422, 422, 422, 422, 404, 202]
    fields = [[error["field"] for error in result["error"]["errors"]] for result in done[:4]]
    at = "operations.{}.document.{}".format
    assert fields == [[at(0, "title")], [at(1, "content")], [at(2, "nonsense")], [at(3, "body")]]
    assert done[4]["error"]["reason"] == "DOCUMENT_NOT_FOUND"
    await gateway.services.trail.flush()
    events = (await gateway.http.get("/v1/admin/audit", params={"page_size": 50})).json()["events"]
    noted = sorted((event["action"], event["outcome"]) for event in events if event["action"].startswith("document."))
    assert noted.count(("document.create", "ok")) == 1
    assert noted.count(("document.create", "failed")) == 2
    assert ("document.delete", "failed") in noted


@pytest.mark.parametrize("own", [True, False])
async def test_a_repeated_batch_creates_nothing_twice(gateway: Gateway, own: bool) -> None:
    """A client repeats it if the answer was lost, with the operations' keys or the request's."""
    operations = [
        {"op": "create", "document": TEXT | {"title": str(number)}} | ({"key": f"k{number}"} if own else {})
        for number in range(3)
    ]
    headers = {} if own else {"Idempotency-Key": "k" * 255}
    first = await results(gateway, *operations[:2], **headers)
    again = await results(gateway, *operations, **headers)
    assert again[:2] == first
    assert len(gateway.fakes.corpus.puts) == 3
    (conflict,) = await results(gateway, operations[0] | {"document": TEXT}, **headers)
    assert (conflict["status"], conflict["error"]["reason"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_batches_whose_long_keys_begin_alike_are_different(gateway: Gateway) -> None:
    for number, key in enumerate(("k" * 254 + "1", "k" * 254 + "2", "k" * 252, "k" * 253)):
        operation = {"op": "create", "document": TEXT | {"title": key}}
        (done,) = await results(gateway, operation, **{"Idempotency-Key": key})
        assert (done["status"], len(gateway.fakes.corpus.puts)) == (202, number + 1)


NO_BATCHES: list[tuple[Any, str]] = [
    ([], "operations"),
    ([{"op": "delete", "id": 1}] * 101, "operations"),
    ([{"op": "drop", "id": 1}], "operations.0.op"),
    ([{"op": "delete", "id": 1}, {"op": "delete"}], "operations.1"),
    ([{"op": "delete", "id": 1, "document": {}}], "operations.0"),
    ([{"op": "create", "id": 1, "document": TEXT}], "operations.0"),
    ([{"op": "update", "id": 1}], "operations.0"),
    ([{"op": "create", "key": "é", "document": TEXT}], "operations.0.key"),
    ("x", "operations"),
]


@pytest.mark.parametrize(("operations", "field"), NO_BATCHES)
async def test_an_invalid_batch_does_nothing(gateway: Gateway, operations: object, field: str) -> None:
    response = await gateway.http.post(PATH, json={"operations": operations})
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]
    assert gateway.fakes.corpus.puts == []
