"""`POST /v1/verify` over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.generator.v1 import generator_pb2

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

BODY = {"answer": "It grew by 12 % [2].", "passages": [{"text": "Costs fell."}, {"text": "It grew by 12 %."}]}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_an_answer_of_any_system_is_verified(gateway: Gateway) -> None:
    span = generator_pb2.AnswerSpan(start=0, end=15)
    gateway.fakes.generator.verification = generator_pb2.VerifyResponse(
        verified_citations=[
            generator_pb2.VerifiedCitation(
                sentence=span,
                number=2,
                quote="It grew by 12 %.",
                quote_end=16,
                support=0.987654,
                verdict=generator_pb2.VERDICT_SUPPORTED,
                sentence_verdict=generator_pb2.VERDICT_PARTIAL,
                mismatches=["1999"],
            )
        ],
        uncited_sentences=[generator_pb2.UncitedSentence(sentence=span)],
        cited_numbers=[2],
        invalid_markers=1,
    )
    response = await gateway.http.post("/v1/verify", json={**BODY, "marker_style": "number"})
    assert response.json() == {
        "verified": [
            {
                "index": 2,
                "sentence": {"start": 0, "end": 15},
                "quote": "It grew by 12 %.",
                "quote_start": 0,
                "quote_end": 16,
                "support": 0.9877,
                "verdict": "supported",
                "sentence_verdict": "partial",
                "mismatches": ["1999"],
            }
        ],
        "uncited": [{"sentence": {"start": 0, "end": 15}}],
        "cited": [2],
        "invalid_markers": 1,
    }
    (request,) = gateway.fakes.generator.verify_requests
    assert [passage.text for passage in request.passages] == ["Costs fell.", "It grew by 12 %."]
    assert request.marker_style == generator_pb2.MARKER_STYLE_NUMBER


async def test_without_a_marker_style_the_best_passage_is_searched_for(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/verify", json=BODY)
    assert response.json() == {"verified": [], "uncited": [], "cited": [], "invalid_markers": 0}
    assert gateway.fakes.generator.verify_requests[0].marker_style == generator_pb2.MARKER_STYLE_NONE


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"passages": []}, "passages"),
        ({"passages": ["text"]}, "passages.0"),
        ({"marker_style": "remove"}, "marker_style"),
        ({"answer": None}, "answer"),
        ({"model": "x"}, "model"),
    ],
)
async def test_a_wrong_field_is_named(gateway: Gateway, changes: dict[str, object], field: str) -> None:
    response = await gateway.http.post("/v1/verify", json=BODY | changes)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
