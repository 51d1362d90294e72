"""A user's own model on the whole stack: saved, used, kept through a key rotation, required, deleted."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys

import httpx

from citewire_remote.sealing import new_master_key
from http_api import Json, ask, upload_bytes
from keyed_upstream import KeyedUpstream, keyed_upstream
from local_stack import LocalStack

KEY = "sk-canary-e2e-91f3"
QUESTION = "How long do refunds take?"
DOCUMENT = b"# Refunds\n\nRefunds take five days, and are paid to the card that was used.\n"


async def save(api: httpx.AsyncClient, upstream: KeyedUpstream) -> None:
    body = {"provider": "openai-compatible", "model": "own-model", "api_base": upstream.base, "api_key": KEY}
    response = await api.put("/v1/providers/chat", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["test"]["ok"] is True, response.text


async def check_answer(api: httpx.AsyncClient, upstream: KeyedUpstream, document: Json) -> None:
    calls = len(upstream.calls)
    answer = await ask(api, QUESTION, document_ids=[document["id"]])  # other tests of this stack have their own
    assert "five days" in answer["answer"]
    assert [citation["file_name"] for citation in answer["citations"]] == ["refunds.md"]
    assert len(upstream.calls) == calls + 1


async def rotate(stack: LocalStack) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "citewire_gateway", "rotate"],
        env={"PATH": os.environ["PATH"], **stack.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


async def test_a_users_own_model_from_creation_to_deletion(egress_stack: LocalStack) -> None:
    stack = egress_stack
    async with (
        keyed_upstream(KEY) as upstream,
        httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=120) as api,
    ):
        document = await upload_bytes(api, "refunds.md", DOCUMENT)
        await ask(api, QUESTION)
        assert upstream.calls == []  # the operator's model answered
        await save(api, upstream)
        await check_answer(api, upstream, document)

        keys = stack.data_dir / "master-keys"
        assert stat.S_IMODE(keys.stat().st_mode) == 0o600
        old, newest = keys.read_text(), new_master_key("newest")
        keys.write_text(f"{newest}\n{old}")
        assert "1 rewrapped" in await rotate(stack)
        keys.write_text(newest)
        await check_answer(api, upstream, document)

        assert (await api.patch("/v1/providers", json={"require_own": True})).status_code == 200
        response = await api.post("/v1/chat", json={"question": QUESTION})
        assert (response.status_code, response.json()["types"]) == (400, ["embedding"])
        assert (await api.patch("/v1/providers", json={"require_own": False})).status_code == 200

        assert (await api.delete("/v1/providers/chat")).status_code == 204
        calls = len(upstream.calls)
        await ask(api, QUESTION)
        assert len(upstream.calls) == calls
    logs = b"".join(path.read_bytes() for path in stack.logs.iterdir()) + stack.output.read_bytes()
    assert b"provider_saved" in logs
    assert KEY.encode() not in logs
