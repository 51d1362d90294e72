"""Enrichment over HTTP: a collection's switch, and a document's enrichment state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.retriever.v1 import corpus_pb2

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_enrichment_is_switched_on_and_off(gateway: Gateway) -> None:
    made = await gateway.http.post("/v1/collections", json={"name": "saved", "enrich": True})
    assert made.json() == {"name": "saved", "documents": 0, "enrich": True, "access": "read"}
    renamed = await gateway.http.patch("/v1/collections/saved", json={"name": "kept"})
    assert renamed.json() == {"name": "kept", "documents": 0, "enrich": True, "access": "read"}
    off = await gateway.http.patch("/v1/collections/kept", json={"enrich": False})
    assert off.json() == {"name": "kept", "documents": 0, "enrich": False, "access": "read"}
    for body in ({}, {"name": None}, {"enrich": "yes"}, {"enrich": 1}, {"name": ""}, {"enriched": True}):
        refused = await gateway.http.patch("/v1/collections/kept", json=body)
        assert refused.status_code == 422, body


async def test_a_document_reports_its_enrichment_state(gateway: Gateway) -> None:
    made = await gateway.http.post("/v1/documents", json={"type": "capture", "title": "T", "content": "C"})
    assert "enrichment" not in made.json()
    enrichment = gateway.fakes.corpus.stored["local", made.json()["id"]].document.enrichment
    enrichment.state = corpus_pb2.ENRICHMENT_STATE_PENDING
    enrichment.error.code, enrichment.error.message = "BUDGET", "Too little is left."
    path = f"/v1/documents/{made.json()['id']}"
    assert (await gateway.http.get(path)).json()["enrichment"] == {
        "state": "pending",
        "fields": [],
        "source": None,
        "error": {"code": "BUDGET", "message": "Too little is left."},
    }
    enrichment.ClearField("error")
    enrichment.state, enrichment.source = corpus_pb2.ENRICHMENT_STATE_DONE, corpus_pb2.ENRICHMENT_SOURCE_RULES
    enrichment.fields.extend(["summary", "tags"])
    assert (await gateway.http.get(path)).json()["enrichment"] == {
        "state": "done",
        "fields": ["summary", "tags"],
        "source": "rules",
    }
