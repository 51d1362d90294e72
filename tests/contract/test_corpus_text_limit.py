"""Limits on a file's text are checked at upload if its size is known then, over a real gRPC server and Postgres."""

from __future__ import annotations

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit.errors import CitewireError, Code
from corpus_calls import LIMITS, assert_nothing_stored
from retriever_process import Caller


@pytest.fixture
def retriever_settings() -> dict[str, int]:
    return {**LIMITS, "max_chars": 100_000}


async def test_too_much_text_is_refused_before_it_is_stored(me: Caller, owner: psycopg.Connection) -> None:
    with pytest.raises(CitewireError) as refused:
        await me.upload(pb.UploadHeader(file_name="big.txt"), b"word " * 20_001)
    assert (refused.value.code, refused.value.reason) == (Code.RESOURCE_EXHAUSTED, "TOO_LARGE")
    assert refused.value.message == "the file has more than 100,000 characters of text: split it"
    assert_nothing_stored(owner)
    assert (await me.upload(pb.UploadHeader(file_name="fits.txt"), b"word " * 20_000)).document_id > 0
