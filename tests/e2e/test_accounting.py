"""A paid chat on the whole stack: in the ledger, in its user's usage, under a budget. It is the stack's first chat."""

from __future__ import annotations

import httpx

from http_api import Json, ask, upload_bytes
from keyed_upstream import keyed_upstream
from local_stack import LocalStack

KEY = "sk-e2e-accounting"
QUESTION = "How long do refunds take?"
DOCUMENT = b"# Refunds\n\nRefunds take five days, and are paid to the card that was used.\n"


async def usage(api: httpx.AsyncClient, **params: str) -> list[Json]:
    response = await api.get("/v1/usage", params=params)
    assert response.status_code == 200, response.text
    return response.json()["rows"]


async def test_a_chats_cost_is_recorded_and_limited(egress_stack: LocalStack) -> None:
    async with (
        keyed_upstream(KEY) as upstream,
        httpx.AsyncClient(base_url=egress_stack.base_url, trust_env=False, timeout=120) as api,
    ):
        document = await upload_bytes(api, "refunds.md", DOCUMENT)
        own = {"provider": "openai", "model": "gpt-4.1-mini", "api_base": upstream.base, "api_key": KEY}
        saved = await api.put("/v1/providers/chat", json=own)
        assert saved.status_code == 200, saved.text
        answer = await ask(api, QUESTION, include=["cost"])
        spent = answer["usage"]
        assert spent["cost_usd"] > 0
        rows = {row["purpose"]: row for row in await usage(api, group_by="purpose,profile,user,model")}
        assert set(rows) == {"generation", "provider_test"}
        row = rows["generation"]
        assert (row["profile"], row["user"]) == ("documents", "local")
        assert (row["provider"], row["model"], row["calls"]) == ("openai", "gpt-4.1-mini", 1)
        assert row["prompt_tokens"] == spent["prompt_tokens"]
        assert row["completion_tokens"] == spent["completion_tokens"]
        assert row["cost_usd"] == row["own_cost_usd"] == spent["cost_usd"]
        (chat,) = await usage(api, group_by="profile", source="exchanges")
        assert (chat["exchanges"], chat["cost_usd"]) == (1, spent["cost_usd"])
        assert chat["embedding_tokens"] > 0
        calls = len(upstream.calls)
        everything = round(sum(row["cost_usd"] for row in rows.values()), 9)
        limit = {"period": "month", "limit_usd": round(everything + 0.000001, 9)}
        budget = (await api.put("/v1/budgets", json=limit)).json()
        assert budget["spent_usd"] == everything
        refused = await api.post("/v1/chat", json={"question": QUESTION, "stream": False})
        assert refused.status_code == 402, refused.text
        problem = refused.json()
        assert (problem["budget"], problem["left_usd"]) == ("org", 0.000001)
        assert problem["resets_at"] == budget["resets_at"]
        assert int(refused.headers["retry-after"]) > 0
        streamed = await api.post("/v1/chat", json={"question": QUESTION})
        assert (streamed.status_code, streamed.json()["reason"]) == (402, "BUDGET_EXCEEDED")
        assert len(upstream.calls) == calls
        for path in ("/v1/budgets?period=month", "/v1/providers/chat", f"/v1/documents/{document['id']}"):
            assert (await api.delete(path)).status_code == 204, path
