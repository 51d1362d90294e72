"""Replaces the gateway's and the worker's keys under load: no request fails."""

import asyncio
import time
from collections import Counter

import grpc
import pytest
from citewire.retriever.v1 import corpus_pb2
from citewire.retriever.v1.corpus_pb2_grpc import CorpusServiceStub

from citewire_kit.callers.__main__ import rotate_key
from citewire_kit.callers.signer import SigningKey, sign
from citewire_kit.callers.token import LIFETIME_SECONDS, to_claims
from citewire_kit.tenant import LOCAL_TENANT
from deploy.rehearsal.load import KINDS, Load
from paced_model_stack import PacedModelStack
from proof_scale import PrintTable, ProofScale

KNOWN_SECONDS, LAST_SECONDS = 2.0, 3.0
"""Short, as all is on one machine: services read the file every second, and the gateway drops old tokens at once."""


async def status_of(paced: PacedModelStack, key: SigningKey) -> grpc.StatusCode:
    """Returns the retriever's status for a gateway's token that this key has signed."""
    now = int(time.time())
    claims = {"iss": "citewire-gateway", "aud": "citewire-retriever", "iat": now, "exp": now + LIFETIME_SECONDS}
    token = sign(key, claims | to_claims(LOCAL_TENANT))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{paced.stack.ports('port')['retriever']}") as channel:
        stub = CorpusServiceStub(channel)
        return await stub.ListDocuments(
            corpus_pb2.ListDocumentsRequest(), timeout=20, metadata=[("cw-caller", token)]
        ).code()


@pytest.mark.timeout(900)
async def test_no_request_fails_while_keys_are_replaced(
    paced: PacedModelStack, proof: ProofScale, print_table: PrintTable
) -> None:
    folder, rounds = paced.stack.data_dir / "callers", proof.pick(scaled_down=1, full=10)
    first = SigningKey.from_pem((folder / "gateway.pem").read_bytes())
    await asyncio.to_thread(paced.upstream.pace, rate=40, tokens=60)
    load = Load(lambda: paced.stack.base_url, f"rotation-{time.monotonic_ns()}")
    async with load.running():
        assert await status_of(paced, first) is grpc.StatusCode.OK
        for _ in range(rounds):
            for name in ("gateway", "worker"):
                await asyncio.to_thread(
                    rotate_key, folder, name, known_seconds=KNOWN_SECONDS, last_seconds=LAST_SECONDS
                )
        rotated_at = time.monotonic()
        await load.until(lambda: all(load.completed(kind, rotated_at) >= 3 for kind in KINDS), "the load has stopped")
        assert await status_of(paced, first) is grpc.StatusCode.UNAUTHENTICATED
        assert await status_of(paced, SigningKey.from_pem((folder / "gateway.pem").read_bytes())) is grpc.StatusCode.OK
    failed = [asked for asked in load.asked if asked.end != "complete"]
    assert not failed, f"{len(failed)} of {len(load.asked)}: {failed[:5]}"
    kinds = Counter(asked.kind for asked in load.asked)
    print_table(
        "Keys of callers replaced under load",
        ["keys replaced", *KINDS, "failed"],
        [[2 * rounds, *(kinds[kind] for kind in KINDS), 0]],
    )
