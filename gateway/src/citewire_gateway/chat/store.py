"""The record of a chat: its exchange (cost, outcome) and, if the profile says so, its messages."""

import base64
import binascii
import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from citewire.generator.v1 import generator_pb2
from psycopg import AsyncCursor
from psycopg.types.json import Jsonb

from citewire_accounts.tenants.feedback import Feedback, conversation_not_found
from citewire_gateway.chat.records import (
    AnswerSources,
    AskedAnswer,
    Closing,
    Conversation,
    Exchange,
    Readers,
    StoredExchange,
    StoredMessage,
)
from citewire_http.metrics import RUNS
from citewire_http.runs.store import SQL as RUNS_SQL
from citewire_http.runs.store import add_batch, no_such_run, run_lost
from citewire_kit.errors import FieldViolation, InvalidArgument
from citewire_kit.postgres import Connection, Pool, tenant_statement, tenant_transaction, transaction
from citewire_kit.queries import load_queries
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

SQL = load_queries("citewire_gateway.chat", "chats.sql")
log = get_logger(__name__)

_TITLE_CHARS = 80
_CHAT_IDS = UUID("8f0cfe5e-2a39-4b7c-9d0b-7c35a5a8c1de")
"""Namespace for conversation ids derived from clients' chat ids."""


class ChatStore:
    """Stores and reads chats. All methods raise `Unavailable` if the database can't be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def open(self, exchange: Exchange) -> None:
        """Opens the exchange.

        Raises:
            NotFound: It continues a conversation that the user doesn't have (`CONVERSATION_NOT_FOUND`).
        """
        cursor = await self._execute(
            exchange.tenant,
            "open_exchange",
            plan_once=True,
            exchange=exchange.exchange_id,
            conversation=exchange.conversation_id,
            continues=exchange.conversation_id is not None and not exchange.creates,
            profile=exchange.profile,
            dialect=exchange.dialect,
            request_id=exchange.request_id,
            lease=exchange.lease_seconds,
            shown=None if exchange.shown is None else list(exchange.shown),
            keep=exchange.keep_seconds,
        )
        if exchange.conversation_id is not None and cursor.rowcount == 0:
            raise conversation_not_found(exchange.conversation_id)

    async def find_chat(self, tenant: Tenant, chat_id: str) -> tuple[UUID, bool]:
        """Returns the conversation id for a client's own chat id, and whether the conversation already exists.

        It is the id itself if the user has such a conversation; otherwise it is derived from the user and the id.
        """
        derived = uuid5(_CHAT_IDS, "\0".join((tenant.org_id, tenant.user_id, chat_id)))
        with contextlib.suppress(ValueError):
            if await self._has(tenant, known := UUID(chat_id)):
                return known, True
        return derived, await self._has(tenant, derived)

    async def _has(self, tenant: Tenant, conversation_id: UUID) -> bool:
        return bool(await self._rows(tenant, "has_conversation", conversation=conversation_id))

    async def history(
        self, tenant: Tenant, conversation_id: UUID, most: int
    ) -> Sequence[tuple[int, str, str, Sequence[int]]]:
        """Returns the last complete messages of one of the user's conversations, oldest first.

        Each with its ordinal, role, text, and the chunks in an answer's prompt.
        """
        rows = await self._rows(tenant, "history", conversation=conversation_id, most=most)
        return [(ordinal, role, content, chunk_ids) for ordinal, role, content, chunk_ids in reversed(rows)]

    async def answer_sources(
        self, tenant: Tenant, conversation_ids: Collection[UUID]
    ) -> dict[UUID, list[AnswerSources]]:
        """Returns the sources of conversations' answers, in order; the caller must be allowed to read them."""
        sources: dict[UUID, list[AnswerSources]] = {}
        for conversation_id, *columns in await self._rows(
            tenant, "answer_sources", conversations=list(conversation_ids)
        ):
            sources.setdefault(conversation_id, []).append(AnswerSources(*columns))
        return sources

    async def begin(self, exchange: Exchange) -> int:
        """Stores the question in its conversation, which is created if necessary; returns the answer's ordinal."""
        if exchange.conversation_id is None:
            raise ValueError("the exchange has no conversation")
        rows = await self._rows(
            exchange.tenant,
            "begin_new" if exchange.creates else "begin_next",
            plan_once=True,
            exchange=exchange.exchange_id,
            conversation=exchange.conversation_id,
            profile=exchange.profile,
            title=title_of(exchange.question),
            content=exchange.question,
        )
        if not rows:  # deleted since the exchange was opened
            raise conversation_not_found(exchange.conversation_id)
        return int(rows[0][0])

    async def close(self, exchange: Exchange, closing: Closing) -> None:
        """Closes the exchange, stores its last events and writes the answer, in one transaction.

        Raises:
            Aborted: It is a stored run, and others have declared it lost (`RUN_LOST`).
        """
        async with tenant_transaction(self._pool, exchange.tenant) as connection:
            for batch in closing.events:
                await add_batch(connection, exchange.tenant, exchange.exchange_id, batch)
            cursor = await connection.execute(
                SQL["close_exchange"],
                _names(exchange.tenant)
                | {
                    "exchange": exchange.exchange_id,
                    "state": closing.state,
                    "reason": closing.reason,
                    "provider": closing.provider,
                    "model": closing.model,
                    "embedding_model": closing.embedding_model,
                    "embedding_tokens": closing.embedding_tokens,
                    "prompt_tokens": closing.usage.prompt_tokens,
                    "completion_tokens": closing.usage.completion_tokens,
                    "estimated": closing.usage.estimated,
                    "first_token_ms": closing.first_token_ms,
                    "keep": exchange.keep_seconds,
                },
            )
            if exchange.shown is not None and cursor.rowcount == 0:
                raise run_lost()
            # If the caller is cancelled while `begin` commits, the ordinal isn't known although the question is stored.
            if exchange.conversation_id is not None and (closing.discard or closing.ordinal is not None):
                await _write_answer(connection, exchange, closing)
        RUNS.labels(closing.state).inc(cursor.rowcount)  # none if the sweeper declared it lost

    async def list_conversations(
        self, tenant: Tenant, *, shared: bool = False, part: str = "", page_size: int, page_token: str
    ) -> tuple[list[Conversation], str]:
        """Lists the user's conversations, latest first, and the token of the next page ("" on the last one).

        A searched text is found in answers that the user may not read, too: see `ConversationReader.find`.

        Args:
            tenant: The user.
            shared: Whether to list conversations shared with the user instead of the user's own.
            part: Text contained in the title or, for the user's own, in a message, ignoring case.
            page_size: Maximum number on a page.
            page_token: Token from the previous page.
        """
        before, before_id = _read_cursor(page_token)
        query = "list_shared_conversations" if shared else "list_conversations"
        rows = await self._rows(tenant, query, before=before, before_id=before_id, part=part, limit=page_size + 1)
        page = [Conversation(*row) for row in rows[:page_size]]
        return page, cursor_of(page[-1]) if len(rows) > page_size else ""

    async def get_conversation(
        self, tenant: Tenant, conversation_id: UUID, *, page_size: int, after: int
    ) -> tuple[Conversation, list[StoredMessage], bool]:
        """Returns a conversation, messages after ordinal `after`, and whether more follow.

        It is the user's own, or shared with the user. The messages are unfiltered: see `ConversationReader`.
        """
        values = _names(tenant) | {"conversation": conversation_id, "after": after, "limit": page_size + 1}
        async with tenant_transaction(self._pool, tenant) as connection:
            row = await (await connection.execute(SQL["get_conversation"], values)).fetchone()
            if row is None:
                raise conversation_not_found(conversation_id)
            rows = await (await connection.execute(SQL["list_messages"], values)).fetchall()
        return Conversation(*row), [_message(row) for row in rows[:page_size]], len(rows) > page_size

    async def get_exchange(self, tenant: Tenant, exchange_id: UUID) -> StoredExchange:
        """Returns question and answer of one of the user's exchanges, unfiltered.

        Raises:
            NotFound: There is none, or it isn't stored (`RUN_NOT_FOUND`).
        """
        rows = await self._rows(tenant, "get_exchange", exchange=exchange_id)
        if not rows:
            raise no_such_run(exchange_id)
        (conversation_id, last), messages = rows[0][:2], [StoredMessage(*row[2:]) for row in rows]
        answer = next((message for message in messages if message.role == "assistant"), None)
        return StoredExchange(conversation_id, messages[0].content, answer, last=messages[-1].ordinal >= last)

    async def delete_exchange(self, tenant: Tenant, exchange_id: UUID) -> bool:
        """Deletes the last question of one of the user's conversations with its answer, and then an empty conversation.

        Returns false and deletes nothing if there are later questions, because their answers may repeat it.
        """
        values = _names(tenant) | {"exchange": exchange_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            rows = await (await connection.execute(SQL["get_exchange"], values)).fetchall()
            if not rows:
                raise no_such_run(exchange_id)
            values["conversation"] = rows[0][0]
            await _hold(connection, values)  # blocks further questions meanwhile
            if (await connection.execute(SQL["delete_last_exchange"], values)).rowcount == 0:
                return False
            await connection.execute(SQL["delete_empty_conversation"], values)
            await connection.execute(RUNS_SQL["delete_run_events"], values)
        return True

    async def rated_answers(
        self, tenant: Tenant, answers: Collection[tuple[UUID, int]]
    ) -> dict[tuple[UUID, int], AskedAnswer]:
        """Returns existing answers by conversation and ordinal, of anybody in the organisation."""
        conversations, ordinals = [each for each, _ in answers], [at for _, at in answers]
        rows = await self._rows(tenant, "list_answers", conversations=conversations, ordinals=ordinals)
        return {(row[0], row[3]): AskedAnswer(row[1], row[2], StoredMessage(*row[3:])) for row in rows}

    async def rename_conversation(self, tenant: Tenant, conversation_id: UUID, title: str) -> Conversation:
        """Changes a conversation's title."""
        rows = await self._rows(tenant, "rename_conversation", conversation=conversation_id, title=title)
        if not rows:
            raise conversation_not_found(conversation_id)
        return Conversation(*rows[0])

    async def readers(self, tenant: Tenant, conversation_id: UUID) -> Readers:
        """Returns who may read one of the user's conversations."""
        values = _names(tenant) | {"conversation": conversation_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            await _hold(connection, values)
            rows = await (await connection.execute(SQL["list_shares"], values)).fetchall()
        named = {kind: [reader for each, reader in rows if each == kind] for kind in ("user", "group")}
        return Readers(named["user"], named["group"], ("organisation", "") in rows)

    async def share(self, tenant: Tenant, conversation_id: UUID, readers: Readers) -> None:
        """Sets who may read one of the user's conversations from the next request on, replacing earlier readers."""
        shares = [("user", name) for name in readers.users] + [("group", name) for name in readers.groups]
        shares += [("organisation", "")] if readers.organisation else []
        values = _names(tenant) | {"conversation": conversation_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            await _hold(connection, values)
            await connection.execute(SQL["delete_shares"], values)
            kinds, names = [kind for kind, _ in shares], [name for _, name in shares]
            await connection.execute(SQL["add_shares"], values | {"kinds": kinds, "readers": names})

    async def delete_conversation(self, tenant: Tenant, conversation_id: UUID) -> None:
        """Deletes a conversation and its messages; the usage of its chats stays."""
        values = _names(tenant) | {"conversation": conversation_id}
        async with tenant_transaction(self._pool, tenant) as connection:
            if await (await connection.execute(SQL["delete_conversation"], values)).fetchone() is None:
                raise conversation_not_found(conversation_id)
            await connection.execute(RUNS_SQL["delete_conversation_events"], values)

    async def _rows(
        self,
        tenant: Tenant,
        query: str,
        *,
        plan_once: bool = False,
        **values: Any,  # noqa: ANN401 # of any type
    ) -> list[tuple[Any, ...]]:
        """Returns a query's rows, in a tenant's transaction."""
        return await (await self._execute(tenant, query, plan_once=plan_once, **values)).fetchall()

    async def _execute(
        self,
        tenant: Tenant,
        query: str,
        *,
        plan_once: bool,
        **values: Any,  # noqa: ANN401 # of any type
    ) -> AsyncCursor[tuple[Any, ...]]:
        return await tenant_statement(self._pool, tenant, SQL[query], _names(tenant) | values, plan_once=plan_once)

    async def sweep(self, most: int = 1000) -> None:
        """Closes exchanges that lost their gateway, and deletes old responses."""
        async with transaction(self._pool) as connection:
            row = await (await connection.execute(SQL["sweep"], {"most": most})).fetchone()
        if row is not None and any(row):
            RUNS.labels("lost").inc(row[0])
            log.info("swept", exchanges=row[0], idempotency_keys=row[1])


def _message(row: Sequence[Any]) -> StoredMessage:
    message, (rating, reasons, comment, updated_at) = StoredMessage(*row[:7]), row[7:]
    return message if rating is None else replace(message, feedback=Feedback(rating, reasons, comment, updated_at))


async def _write_answer(connection: Connection, exchange: Exchange, closing: Closing) -> None:
    values = _names(exchange.tenant) | {
        "conversation": exchange.conversation_id,
        "exchange": exchange.exchange_id,
    }
    if closing.discard:
        await connection.execute(SQL["discard_conversation" if exchange.creates else "discard_question"], values)
        return
    state = "complete" if closing.state == "done" else closing.state
    values |= {
        "ordinal": closing.ordinal,
        "content": closing.answer,
        "state": state,
        "details": Jsonb(dict(closing.details)),
    }
    await connection.execute(SQL["add_answer"], values)


async def _hold(connection: Connection, values: Mapping[str, Any]) -> None:
    if await (await connection.execute(SQL["hold_conversation"], values)).fetchone() is None:
        raise conversation_not_found(values["conversation"])


def _names(tenant: Tenant) -> dict[str, Any]:
    return {"org": tenant.org_id, "user": tenant.user_id, "groups": list(tenant.groups)}


def cursor_of(last: Conversation) -> str:
    """Returns the token of the page that follows a conversation."""
    text = f"{last.updated_at.isoformat()} {last.conversation_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_cursor(token: str) -> tuple[datetime | None, UUID | None]:
    if not token:
        return None, None
    try:
        parts: Sequence[str] = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode().split(" ")
        when, which = parts
        return datetime.fromisoformat(when), UUID(which)
    except (ValueError, binascii.Error) as exc:
        raise InvalidArgument(
            "the page token didn't come from this list",
            reason="INVALID_PAGE_TOKEN",
            violations=[FieldViolation("page_token", "must be the next_page_token of the previous page")],
        ) from exc


def title_of(question: str) -> str:
    """Returns a conversation's title: its first question on one line, cut at the end of a word."""
    line = " ".join(question.split())
    if len(line) <= _TITLE_CHARS:
        return line
    cut = line[: _TITLE_CHARS - 1]
    head, space, _ = cut.rpartition(" ")
    return f"{head if space and len(head) > _TITLE_CHARS // 2 else cut}…"


def chat_message(role: str, content: str, pictures: Iterable[str] = ()) -> generator_pb2.Message:
    """Returns a message of a conversation; `role` is `user` or `assistant`, `pictures` are the URLs of images."""
    proto_role = generator_pb2.ROLE_USER if role == "user" else generator_pb2.ROLE_ASSISTANT
    images = [generator_pb2.Image(url=url) for url in pictures]
    return generator_pb2.Message(role=proto_role, content=content, images=images)
