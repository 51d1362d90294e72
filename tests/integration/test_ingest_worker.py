"""The worker against a real Postgres and a real embedder server with a model without weights."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import numpy as np
import pytest
from prometheus_client import REGISTRY

from citewire_kit.errors import Unavailable
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.parsers.markdown import parse_markdown
from citewire_retriever.ingest.wire import place_values
from databases import HasDsn
from fake_embedding import FakeModel, tokenise, vector_of
from ingest_harness import (
    ACME,
    OTHER,
    WINDOW,
    IngestHarness,
    article,
    embedder_address,
    expected_chunks,
    running_worker,
    worker_settings,
)
from waiting import BUSY_SECONDS, wait_until
from zip_packages import pptx, xlsx


@pytest.fixture
def model() -> FakeModel:
    return FakeModel(window=WINDOW)


@pytest.fixture
async def embedder(model: FakeModel) -> AsyncIterator[str]:
    async with embedder_address(model) as target:
        yield target


@pytest.fixture
async def harness(database: HasDsn) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


async def test_an_upload_becomes_chunks_with_vectors(harness: IngestHarness, database: HasDsn, embedder: str) -> None:
    text = article(3)
    settings = worker_settings(database, embedder)
    document_id = await harness.upload("about.md", text)
    async with running_worker(settings):
        version = await harness.until(document_id, "ready")
    expected = await expected_chunks(parse_markdown(text, ParseLimits()), "All about topic", settings)
    stored = await harness.chunks(document_id)
    assert [(row["text"], row["section"], row["place"], row["content_hash"]) for row in stored] == [
        (chunk.text, chunk.section, place_values(chunk.place), chunk.content_hash) for chunk in expected
    ]
    assert await harness.text(document_id) == text
    assert all(row["text"] == text[row["char_start"] : row["char_end"]] for row in stored)
    assert (version["chunks"], version["tokens"]) == (len(expected), sum(chunk.token_count for chunk in expected))
    assert (version["media_type"], version["stage"], version["pages"]) == ("text/markdown", None, None)
    document = await harness.document(document_id)
    assert (document["live_version"], document["title"]) == (1, "All about topic")
    assert (document["live_chunks"], document["live_tokens"]) == (version["chunks"], version["tokens"])
    assert (await harness.job(document_id))["state"] == "done"
    vectors = await harness.vectors(document_id)
    for row, chunk in zip(vectors, expected, strict=True):
        value = np.array(row["embedding"].strip("[]").split(","), np.float32)
        wanted_vector = vector_of(tokenise(f"{chunk.header}\n{chunk.text}", WINDOW).ids)
        assert np.allclose(value, wanted_vector, atol=2e-3)


@pytest.mark.parametrize("passed_on", [False, True])
async def test_a_long_table_is_read_in_parts_and_is_one_document(
    harness: IngestHarness, database: HasDsn, embedder: str, passed_on: bool
) -> None:
    lines = ["Name,Note,Amount", *(f"Name{row},note {row},{row}.50" for row in range(120))]
    data = "".join(f"{line}{',' * 45_000}\n" for line in lines)
    document_id = await harness.upload("long.csv", data)
    quick = {"turn_seconds": 0.001, "stream_batches": 1, "small_bytes": 0, "concurrency": 1} if passed_on else {}
    others = [await harness.upload(f"{number}.md", article(1), tenant=OTHER) for number in range(3 * passed_on)]
    async with running_worker(worker_settings(database, embedder, **quick)):
        version = await harness.until(document_id, "ready", seconds=60)
        for other in others:
            await harness.until(other, "ready")
    text = await harness.text(document_id)
    assert text == "\n\n".join(f"Name: Name{row}\nNote: note {row}\nAmount: {row}.50" for row in range(120))
    chunks = await harness.chunks(document_id)
    assert [row["chunk_index"] for row in chunks] == list(range(len(chunks)))
    assert all(row["text"] == text[row["char_start"] : row["char_end"]] for row in chunks)
    placed = [place for row in chunks for place in [part[1] for part in row["places"] or ()] or [row["place"]]]
    assert [place["row"] for place in placed] == list(range(2, 122))
    assert (version["chunks"], version["tokens"]) == (len(chunks), sum(row["token_count"] for row in chunks))
    assert len(await harness.vectors(document_id)) == len(chunks)
    assert (version["media_type"], version["stage"]) == ("text/csv", None)


@pytest.mark.parametrize(
    ("name", "data", "places"),
    [
        (
            "prices.xlsx",
            xlsx('<row r="4"><c t="str"><v>a</v></c><c><v>1.5</v></c></row><row r="9"><c r="C9"><v>2</v></c></row>'),
            [{"row": 4, "end_row": 9, "sheet": "S", "cell_range": "A4:C9"}],
        ),
        ("talk.pptx", pptx("<sp><p><r><t>One.</t></r></p></sp>", "<sp><p><r><t>Two.</t></r></p></sp>"),
         [{"slide": 1}, {"slide": 2}]),
    ],
)  # fmt: skip
async def test_places_of_office_documents_are_stored(  # one parameter per difference between the cases
    harness: IngestHarness, database: HasDsn, embedder: str, name: str, data: bytes, places: list[dict[str, object]]
) -> None:
    document_id = await harness.upload(name, data)
    async with running_worker(worker_settings(database, embedder)):
        version = await harness.until(document_id, "ready")
    assert version["error_code"] is None
    assert [row["place"] for row in await harness.chunks(document_id)] == places


async def test_parts_of_a_chunk_are_stored_with_their_places(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    orders = [{"id": number, "customer": f"Customer {number}"} for number in range(40)]
    document_id = await harness.upload("orders.json", json.dumps({"orders": orders}))
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")
    stored = await harness.rows("SELECT text, places FROM corpus.chunks ORDER BY chunk_index")
    assert len(stored) < 40
    lines: dict[str, str] = {}
    for row in stored:
        starts = [start for start, _ in row["places"]]
        for (start, place), end in zip(row["places"], [*starts[1:], None], strict=True):
            lines[place["record_path"]] = row["text"][start:end].strip().removeprefix("orders").strip()
    for order in orders:
        number = order["id"]
        assert lines[f"orders[{number}].id"] == f"id: {number}"
        assert lines[f"orders[{number}].customer"] == f"customer: {order['customer']}"


async def test_a_new_version_replaces_the_old_one_only_when_it_is_ready(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    document_id = await harness.upload("about.md", article(2, name="old"))
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")
        model.gate.clear()
        await harness.upload("about.md", article(6, name="new"), document_id=document_id)
        # Not until the model computes: on a busy machine, it may first compute the space's calibration.
        await harness.until(document_id, "processing", 2)
        async with asyncio.timeout(20):
            await model.computing.wait()
        document = await harness.document(document_id)
        assert (document["live_version"], document["latest_version"]) == (1, 2)
        old = len(await harness.chunks(document_id, 1))
        assert len(await harness.vectors(document_id, 1)) == old
        model.gate.set()
        await harness.until(document_id, "ready", 2)
    document = await harness.document(document_id)
    assert (document["live_version"], document["title"]) == (2, "All about new")
    # Superseded: without vectors, but with text, chunks and bytes until the sweep.
    assert await harness.vectors(document_id, 1) == []
    assert len(await harness.chunks(document_id, 1)) == old
    assert (await harness.version(document_id, 1))["superseded_at"] is not None
    sweep = await harness.row("SELECT *, next_run_at - now() AS wait FROM corpus.ingest_jobs WHERE kind = 'sweep'")
    assert (sweep["version"], sweep["state"], sweep["wait"].days) == (1, "queued", 29)


def embedded_chunks() -> float:
    """Returns how many chunks the worker has sent to be embedded; the model also gets texts to calibrate its space."""
    return REGISTRY.get_sample_value("citewire_ingest_chunks_total") or 0


async def test_a_new_version_is_embedded_where_it_differs(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    first = article(12)
    second = first.replace("Sentence 3 of topic 5 says", "Sentence 3 of topic 5 denies")
    gone = second.index("## Part 9")
    second = second[:gone] + second[second.index("## Part 10") :]
    changed = await harness.upload("a.md", first)
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(changed, "ready")
        before = {(row["section"], row["text"]) for row in await harness.chunks(changed)}
        computed = embedded_chunks()
        await harness.upload("a.md", second, document_id=changed)
        await harness.until(changed, "ready", 2)
        after = await harness.chunks(changed, 2)
        others = [row for row in after if (row["section"], row["text"]) not in before]
        assert embedded_chunks() - computed == len(others) < len(after) / 4
        fresh = await harness.upload("b.md", second)
        await harness.until(fresh, "ready")
        expected = [row["embedding"] for row in await harness.vectors(fresh)]
        assert [row["embedding"] for row in await harness.vectors(changed)] == expected
        # The title is a part of every chunk's input.
        computed = embedded_chunks()
        await harness.upload("a.md", second.replace("# All about topic", "# Some about topic", 1), document_id=changed)
        await harness.until(changed, "ready", 3)
        assert embedded_chunks() - computed == len(await harness.chunks(changed, 3))


async def test_chunks_of_earlier_versions_of_the_code_are_embedded_again(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    document_id = await harness.upload("a.md", article(2))
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")
        await harness.owner.execute("UPDATE corpus.chunks SET input_hash = NULL")  # as in chunks of earlier versions
        computed = embedded_chunks()
        await harness.upload("a.md", article(2), document_id=document_id)
        await harness.until(document_id, "ready", 2)
    assert embedded_chunks() - computed == len(await harness.vectors(document_id))


async def test_a_bad_file_fails_with_its_code_and_leaves_the_live_version(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    document_id = await harness.upload("about.md", article(2))
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")
        await harness.upload("about.md", b"\x00\x01\x02junk\x80" * 100, document_id=document_id)
        version = await harness.until(document_id, "failed", 2)
    assert version["error_code"] == "UNSUPPORTED_FORMAT"
    assert "binary" in version["error_message"]
    assert (await harness.document(document_id))["live_version"] == 1
    assert len(await harness.vectors(document_id, 1)) == len(await harness.chunks(document_id, 1))
    assert await harness.chunks(document_id, 2) == []
    assert (await harness.job(document_id, 2))["state"] == "failed"


async def test_no_document_is_lost_to_a_temporarily_failing_embedder(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    model.error = Unavailable("gone", reason="SERVICE_UNAVAILABLE")
    document_id = await harness.upload("about.md", article(3))
    async with running_worker(worker_settings(database, embedder)):

        async def holds() -> bool:
            return (await harness.job(document_id))["attempts"] >= 3

        await wait_until(holds)
        assert (await harness.version(document_id))["status"] in {"pending", "processing"}
        model.error = None
        await harness.until(document_id, "ready")


async def test_a_worker_that_finds_no_embedder_waits_for_it(
    harness: IngestHarness, database: HasDsn, model: FakeModel, unused_port: int
) -> None:
    document_id = await harness.upload("about.md", article(1))
    async with running_worker(worker_settings(database, f"127.0.0.1:{unused_port}")):

        async def holds() -> bool:
            return (await harness.job(document_id))["attempts"] >= 2

        await wait_until(holds)
    async with embedder_address(model) as target, running_worker(worker_settings(database, target)):
        await harness.until(document_id, "ready")


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def interrupt_ingest(harness: IngestHarness, model: FakeModel, document_id: int) -> set[int]:
    """Makes the model fail until the version waits, then work until it is ready; returns the ids of earlier chunks."""
    model.error = Unavailable("gone", reason="SERVICE_UNAVAILABLE")

    async def is_pending() -> bool:
        return (await harness.version(document_id))["status"] == "pending"

    await wait_until(is_pending)
    before = {row["chunk_id"] for row in await harness.chunks(document_id)}
    model.error = None
    await harness.until(document_id, "ready")
    return before


async def test_a_retry_continues_where_the_last_attempt_ended(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    document_id = await harness.upload("long.md", article(30))
    settings = worker_settings(database, embedder, retry_seconds=0.5)
    model.gate.clear()
    async with running_worker(settings):
        async with asyncio.timeout(20):
            await model.computing.wait()
        model.gate.set()

        async def holds() -> bool:
            return len(await harness.chunks(document_id)) >= 8

        await wait_until(holds)
        before = await interrupt_ingest(harness, model, document_id)
    after = await harness.chunks(document_id)
    assert before
    assert before < {row["chunk_id"] for row in after}
    assert [row["chunk_index"] for row in after] == list(range(len(after)))
    assert len(await harness.vectors(document_id)) == len(after)


async def test_a_long_table_continues_in_any_part_and_reuses_vectors_in_all(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    lines = ["Name,Note,Amount", *(f"Name{row},note {row},{row}.50" for row in range(120))]
    data = "".join(f"{line}{',' * 45_000}\n" for line in lines)
    document_id = await harness.upload("long.csv", data)
    async with running_worker(worker_settings(database, embedder, stream_batches=1)):

        async def is_in_the_second_part() -> bool:
            return len(await harness.chunks(document_id)) >= 20

        await wait_until(is_in_the_second_part)
        before = await interrupt_ingest(harness, model, document_id)
        after = await harness.chunks(document_id)
        assert len(before) >= 20
        assert before < {row["chunk_id"] for row in after}
        text = await harness.text(document_id)
        assert all(row["text"] == text[row["char_start"] : row["char_end"]] for row in after)
        reused = REGISTRY.get_sample_value("citewire_ingest_chunks_reused_total") or 0
        await harness.upload("long.csv", data.replace("Name7,", "Changed,"), document_id=document_id)
        await harness.until(document_id, "ready", version=2, seconds=100)
    assert REGISTRY.get_sample_value("citewire_ingest_chunks_reused_total") == reused + len(after) - 1
    assert len(await harness.vectors(document_id, 2)) == len(after)


async def test_a_document_deleted_during_its_ingest_leaves_nothing(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    document_id = await harness.upload("about.md", article(6))
    other_id = await harness.upload("other.md", article(1))
    model.gate.clear()
    async with running_worker(worker_settings(database, embedder, concurrency=1)):
        async with asyncio.timeout(20):
            await model.computing.wait()
        assert await harness.documents.delete(ACME, document_id)
        model.gate.set()
        await harness.until(other_id, "ready")
    for table in ("versions", "originals", "texts", "chunks", "ingest_jobs", "vectors_1"):
        assert await harness.count(table, document_id) == 0, table


async def test_a_stopped_worker_gives_its_jobs_back_at_once(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    document_id = await harness.upload("about.md", article(6))
    model.gate.clear()
    async with running_worker(worker_settings(database, embedder)) as stop:
        async with asyncio.timeout(20):
            await model.computing.wait()
        stop.set()

        async def holds() -> bool:
            return (await harness.job(document_id))["state"] == "queued"

        await wait_until(holds, seconds=BUSY_SECONDS)
    job = await harness.job(document_id)
    assert (job["attempts"], job["lease_until"], job["worker"]) == (0, None, None)
    assert (await harness.version(document_id))["status"] == "pending"
    model.gate.set()
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")


async def test_another_worker_takes_over_when_a_lease_expires(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    document_id = await harness.upload("about.md", article(2))
    silent = await harness.worker.claim("ingest", worker="silent", lease_seconds=0.3)
    assert silent is not None
    assert silent.document_id == document_id
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")
    job = await harness.job(document_id)
    assert (job["attempts"], job["state"]) == (2, "done")


async def test_a_long_document_keeps_its_lease(
    harness: IngestHarness, database: HasDsn, embedder: str, model: FakeModel
) -> None:
    document_id = await harness.upload("about.md", article(2))
    model.gate.clear()
    async with (
        running_worker(worker_settings(database, embedder, lease_seconds=1)),
        running_worker(worker_settings(database, embedder, lease_seconds=1)),
    ):
        async with asyncio.timeout(20):
            await model.computing.wait()
        await asyncio.sleep(2.5)  # more than two leases
        model.gate.set()
        await harness.until(document_id, "ready")
    assert (await harness.job(document_id))["attempts"] == 1


async def test_a_given_title_stays(harness: IngestHarness, database: HasDsn, embedder: str) -> None:
    document_id = await harness.upload("about.md", article(1), title="Chosen")
    async with running_worker(worker_settings(database, embedder)):
        await harness.until(document_id, "ready")
    assert (await harness.document(document_id))["title"] == "Chosen"


async def test_watchers_are_notified_of_progress(harness: IngestHarness, database: HasDsn, embedder: str) -> None:
    document_id = await harness.upload("about.md", article(8))
    progress: list[tuple[str, int, int]] = []
    async with IngestHarness.open(database) as watcher:
        await watcher.owner.execute("LISTEN citewire_corpus_progress")
        async with running_worker(worker_settings(database, embedder)), asyncio.timeout(20):
            async with aclosing(watcher.owner.notifies()) as notifications:
                async for notification in notifications:
                    assert notification.payload == f"acme {document_id}"
                    row = await harness.version(document_id)
                    progress.append((row["stage"], row["done"], row["total"]))
                    if row["status"] == "ready":
                        break
    total = len(await harness.chunks(document_id))
    embedding = [(done, of) for stage, done, of in progress if stage == "embed"]
    assert embedding
    assert all(of == total for _, of in embedding)
    assert sorted(embedding) == embedding
    assert progress[-1] == (None, total, total)


async def test_superseded_versions_are_swept_after_their_time(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    document_id = await harness.upload("about.md", article(2, name="old"))
    async with running_worker(worker_settings(database, embedder, keep_seconds=0)):
        await harness.until(document_id, "ready")
        await harness.upload("about.md", article(2, name="new"), document_id=document_id)
        await harness.until(document_id, "ready", 2)

        async def holds() -> bool:
            return not await harness.rows(
                "SELECT FROM corpus.versions WHERE document_id = %s AND version = 1", document_id
            )

        await wait_until(holds)
    assert await harness.chunks(document_id, 1) == []
    assert await harness.rows("SELECT FROM corpus.originals WHERE document_id = %s AND version = 1", document_id) == []
    assert len(await harness.vectors(document_id)) == len(await harness.chunks(document_id, 2)) > 0


async def test_organisations_get_their_own_pointer_to_one_space(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    ids = [await harness.upload("a.md", article(1), tenant=tenant) for tenant in (ACME, OTHER)]
    async with running_worker(worker_settings(database, embedder)):
        for document_id in ids:
            await harness.until(document_id, "ready")
    assert len(await harness.rows("SELECT FROM corpus.spaces")) == 1
    pointers = await harness.rows("SELECT org_id, live_space_id FROM corpus.org_spaces ORDER BY org_id")
    assert [(row["org_id"], row["live_space_id"]) for row in pointers] == [("acme", 1), ("other", 1)]


async def test_a_model_other_than_the_organisations_is_not_mixed_in(
    harness: IngestHarness, database: HasDsn, embedder: str
) -> None:
    await harness.owner.execute("SELECT corpus.ensure_space('fake', 'r0', 8)")
    await harness.owner.execute("INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES ('acme', 1)")
    document_id = await harness.upload("about.md", article(1))
    async with running_worker(worker_settings(database, embedder)):

        async def holds() -> bool:
            return (await harness.job(document_id))["attempts"] >= 2

        await wait_until(holds)
    assert await harness.vectors(document_id) == []
    assert (await harness.version(document_id))["status"] in {"pending", "processing"}
