"""Ada and bob of one organisation and mallory of another, with all their data in gateway and retriever."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from api_keys import bearer, key_for
from citewire_kit import canary
from gateway_fake_servers import Fakes, running_fakes
from gateway_process import Gateway, running_gateway
from retriever_process import Retriever, running_retriever

if TYPE_CHECKING:
    from databases import Database

CANARY = "Zeisig4711kanarie"


class Office:
    """Ada, who owns acme, and bob, whose name and words are to be erased; mallory of another organisation."""

    def __init__(self, gateway: Gateway, retriever: Retriever, database: Database) -> None:
        self.gateway, self.retriever, self.database = gateway, retriever, database
        self.headers: dict[str, dict[str, str]] = {}

    async def call(self, user: str, method: str, path: str, *, key: str = "", **options: Any) -> Any:  # noqa: ANN401 # a response, read loosely
        headers = self.headers[user] | ({"Idempotency-Key": key} if key else {})
        return await self.gateway.http.request(method, path, headers=headers, **options)

    async def fill(self, user: str, text: str) -> None:
        """Creates all kinds of data that a user can have."""
        article = {"type": "article", "title": text, "content": text, "tags": [text], "collection": "shared"}
        assert (await self.call(user, "POST", "/v1/documents", json=article, key=f"d{text}")).status_code == 202
        asked = await self.call(user, "POST", "/v1/chat", json={"question": text, "stream": False}, key=f"c{text}")
        assert asked.status_code == 200, asked.text
        sharing = f"/v1/conversations/{asked.json()['conversation_id']}/sharing"
        readers = {"users": ["carol" if user == "mallory" else "bob.zeisig"], "groups": [text]}
        assert (await self.call(user, "PUT", sharing, json=readers)).status_code == 200
        rating = f"/v1/conversations/{asked.json()['conversation_id']}/answers/{asked.json()['exchange_id']}/feedback"
        assert (await self.call(user, "PUT", rating, json={"rating": "down", "comment": text})).status_code == 200
        call = (
            "INSERT INTO ledger.calls (org_id, call_id, user_id, process, purpose, provider, model, own, input_tokens,"
            " reserved_nano, lease_until)"
            " VALUES (%s, gen_random_uuid(), %s, 'p', 'generation', 'p', 'm', false, 7, 0, now())"
        )
        with psycopg.connect(self.database.owner_dsn, autocommit=True) as connection:
            connection.execute(call, ("acme" if user != "mallory" else "other", user))

    def places(self, text: str) -> set[str]:
        """The places that contain a text, after updating the planner's statistics."""
        with psycopg.connect(self.database.owner_dsn, autocommit=True) as connection:
            connection.execute("ANALYZE")
        return {trace.place for trace in canary.find_in_database(self.database.owner_dsn, text)}


@asynccontextmanager
async def running_office(database: Database, words: str = CANARY) -> AsyncGenerator[Office, None]:
    """Runs gateway and retriever; `words` are bob's."""
    async with AsyncExitStack() as stack:
        fakes: Fakes = await stack.enter_async_context(running_fakes())
        retriever = await stack.enter_async_context(running_retriever(database))
        gateway = await stack.enter_async_context(
            running_gateway(
                database,
                fakes,
                auth="keys",
                retriever_target=f"127.0.0.1:{retriever.server.port}",
                sweeper_seconds=0.1,
                chat_seconds=1.0,
                orphan_seconds=0.2,
            )
        )
        office = Office(gateway, retriever, database)
        for org, user in (("acme", "ada"), ("acme", "bob.zeisig"), ("other", "mallory")):
            office.headers[user] = bearer((await key_for(database, org, user))["key"])
        await office.fill("ada", "Adas words")
        await office.fill("bob.zeisig", words)
        await office.fill("mallory", "Mallorys words")
        yield office
