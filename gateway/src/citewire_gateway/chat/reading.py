"""Withholds answers written from documents that a conversation's reader may not see."""

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Final, cast
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_accounts.tenants.feedback import RatedAnswer
from citewire_gateway.chat.answer import passage_messages
from citewire_gateway.chat.records import AnswerSources, AskedAnswer, Conversation, StoredExchange, StoredMessage
from citewire_gateway.chat.store import ChatStore, chat_message, cursor_of
from citewire_gateway.clients.retriever import Retriever
from citewire_kit.errors import CitewireError, NotFound
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_kit.user_rows import UserRow

log = get_logger(__name__)

_PAGE: Final = 100
_GUARD_SECONDS: Final = 1.0
_MOST_CHUNKS: Final = 200
"""Maximum number per call."""
_LINK: Final = re.compile(r"(?i)https?://|/")
WITHHELD: Final = "_This answer is withheld: it was written from documents that you may not see, or that were deleted._"
_KEPT_DETAILS: Final = (
    "schema_version",
    "usage",
    "provider",
    "model",
    "finish_reason",
    "not_found",
    "history",
    "request",
)


@dataclass(frozen=True, slots=True)
class ConversationReader:
    """Reads conversations as currently visible to their reader. All methods raise as `ChatStore` and `Retriever`."""

    store: ChatStore
    retriever: Retriever

    async def find(
        self, tenant: Tenant, *, shared: bool, part: str, page_size: int, page_token: str
    ) -> tuple[list[Conversation], str]:
        """Lists as `ChatStore.list_conversations`; a text isn't found in answers that are withheld from the user."""
        if shared or not part:
            return await self.store.list_conversations(
                tenant, shared=shared, part=part, page_size=page_size, page_token=page_token
            )
        matches, token, more = list[Conversation](), page_token, True
        while more and len(matches) <= page_size:
            page, token = await self.store.list_conversations(tenant, part=part, page_size=_PAGE, page_token=token)
            more = bool(token)
            by_answer = [conversation.conversation_id for conversation in page if conversation.found_in]
            withheld = await self._withheld(tenant, by_answer) if by_answer else {}
            matches += [
                conversation
                for conversation in page
                if not conversation.found_in or {*conversation.found_in} - withheld[conversation.conversation_id]
            ]
        return matches[:page_size], cursor_of(matches[page_size - 1]) if len(matches) > page_size else ""

    async def get(
        self, tenant: Tenant, conversation_id: UUID, *, page_size: int, after: int
    ) -> tuple[Conversation, list[StoredMessage], bool]:
        """Returns a conversation, messages after ordinal `after`, and whether more follow."""
        conversation, messages, more = await self.store.get_conversation(
            tenant, conversation_id, page_size=page_size, after=after
        )
        withheld = (await self._withheld(tenant, [conversation_id]))[conversation_id]
        return conversation, [_shown(message, withheld) for message in messages], more

    async def rated(self, tenant: Tenant, rated: Sequence[RatedAnswer]) -> list[tuple[RatedAnswer, AskedAnswer]]:
        """Returns rated answers of the organisation with their questions, as visible to an admin."""
        answers = await self.store.rated_answers(tenant, [(entry.conversation_id, entry.ordinal) for entry in rated])
        withheld = await self._withheld(tenant, {conversation_id for conversation_id, _ in answers})
        return [
            (entry, replace(answer, message=_shown(answer.message, withheld[entry.conversation_id])))
            for entry in rated
            if (answer := answers.get((entry.conversation_id, entry.ordinal))) is not None  # else deleted meanwhile
        ]

    async def export(self, tenant: Tenant, user_id: str) -> AsyncGenerator[UserRow, None]:
        """Yields all messages of a user as visible to the tenant, who may be an admin."""
        user, token, more_pages = replace(tenant, user_id=user_id), "", True
        while more_pages:
            page, token = await self.store.list_conversations(user, page_size=_PAGE, page_token=token)
            more_pages = bool(token)
            for number in (conversation.conversation_id for conversation in page):
                after, more = 0, True
                while more:
                    try:
                        _, messages, more = await self.get(user, number, page_size=_PAGE, after=after)
                    except NotFound:  # deleted meanwhile
                        break
                    for message in messages:
                        after = message.ordinal
                        record = {"conversation_id": str(number)} | asdict(replace(message, feedback=None))
                        del record["feedback"]  # exported as a separate row of the user
                        record |= {
                            "created_at": message.created_at.isoformat(),
                            "exchange_id": str(message.exchange_id),
                        }
                        yield UserRow("chat.messages", record)

    async def exchange(self, tenant: Tenant, exchange_id: UUID) -> StoredExchange:
        """Returns question and answer of one of the user's exchanges."""
        stored = await self.store.get_exchange(tenant, exchange_id)
        withheld = (await self._withheld(tenant, [stored.conversation_id]))[stored.conversation_id]
        return replace(stored, answer=stored.answer and _shown(stored.answer, withheld))

    async def history(
        self, tenant: Tenant, conversation_id: UUID, most: int, *, passages: bool = False
    ) -> Sequence[generator_pb2.Message]:
        """Returns the last complete messages of one of the user's conversations, oldest first.

        With `passages`, a question has those of its prompt, as far as they still exist.
        """
        rows = await self.store.history(tenant, conversation_id, most)
        if not rows:
            return []
        withheld = (await self._withheld(tenant, [conversation_id]))[conversation_id]
        held = [chunk_ids for ordinal, _, _, chunk_ids in rows if ordinal not in withheld]
        by_chunk = await self._passages(list(dict.fromkeys(chain(*held)))) if passages else {}
        messages: list[generator_pb2.Message] = []
        for ordinal, role, content, chunk_ids in rows:
            if messages and messages[-1].role == generator_pb2.ROLE_USER and ordinal not in withheld:
                messages[-1].passages.extend(by_chunk[chunk_id] for chunk_id in chunk_ids if chunk_id in by_chunk)
            if content:  # an answer with only tool calls has none
                messages.append(chat_message(role, WITHHELD if ordinal in withheld else content))
        return messages

    async def _passages(self, chunk_ids: Sequence[int]) -> dict[int, generator_pb2.Passage]:
        """Returns chunks' passages. If there are too many, the first are dropped in blocks: prompts rarely change."""
        excess = max(0, len(chunk_ids) - _MOST_CHUNKS)
        ids = chunk_ids[-(-excess // (_MOST_CHUNKS // 2)) * (_MOST_CHUNKS // 2) :]
        if not ids:
            return {}
        try:
            chunks = (await self.retriever.get_chunks(retriever_pb2.GetChunksRequest(chunk_ids=ids))).chunks
        except CitewireError as exc:  # some no longer exist: earlier answers are then used without them
            log.info("passages_not_kept", reason=exc.reason)
            return {}
        passages = passage_messages([retriever_pb2.SearchResult(chunk=chunk) for chunk in chunks])
        return {passage.chunk_id: passage for passage in passages}

    async def may_read(self, document_ids: Collection[int]) -> bool:
        """Whether the caller may see all of these documents."""
        return not document_ids or set(document_ids) <= await self.retriever.find_documents(document_ids)

    async def may_read_answer(self, tenant: Tenant, run_id: UUID) -> bool:
        """Whether a run's answer, if it is in one of the user's conversations, isn't withheld from the user."""
        try:
            answer = (await self.exchange(tenant, run_id)).answer
        except NotFound:
            return True
        return answer is None or not answer.details.get("withheld")

    def guard(self, tenant: Tenant, run_id: UUID | None) -> "RunGuard":
        """Returns the guard of one reading of a run; None: of events whose run isn't known."""
        return RunGuard(self, tenant, run_id)

    async def _withheld(self, tenant: Tenant, conversation_ids: Collection[UUID]) -> dict[UUID, set[int]]:
        """Returns, for each conversation, the ordinals of the answers that the tenant may not read."""
        sources = await self.store.answer_sources(tenant, conversation_ids)
        named = {
            document_id for answers in sources.values() for answer in answers for document_id in answer.document_ids
        }
        visible = await self.retriever.find_documents(named) if named else set[int]()
        return {number: withheld_answers(sources.get(number, ()), visible) for number in conversation_ids}


class RunGuard:
    """Decides for each part of a run whether its user may read it, by the documents named so far.

    Nor may the run's answer be withheld: it can repeat an earlier one of its conversation without naming its documents.
    A decision counts for a second, unless further documents are named.
    """

    def __init__(self, reader: ConversationReader, tenant: Tenant, run_id: UUID | None) -> None:
        self._reader = reader
        self._tenant = tenant
        self._run_id = run_id
        self._named = set[int]()
        self._decided_at = float("-inf")

    async def __call__(self, entries: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the user may read further entries."""
        named, now = documents_in(list(entries)), asyncio.get_running_loop().time()
        if named <= self._named and now - self._decided_at < _GUARD_SECONDS:
            return True
        self._named |= named
        self._decided_at = now
        if not await self._reader.may_read(self._named):
            return False
        return self._run_id is None or await self._reader.may_read_answer(self._tenant, self._run_id)


def withheld_answers(answers: Iterable[AnswerSources], visible: Collection[int]) -> set[int]:
    """Returns the ordinals of the answers that a reader who sees these documents may not read.

    Those whose model was given a passage of another document, cited or not; and later ones whose model had read
    the conversation, or may have, because they may repeat it.

    Args:
        answers: Answers of one conversation, in order.
        visible: Ids of visible documents.
    """
    withheld = set[int]()
    for answer in answers:
        repeats = withheld and answer.history != 0
        if repeats or not all(document_id in visible for document_id in answer.document_ids):
            withheld.add(answer.ordinal)
    return withheld


def documents_in(value: object) -> set[int]:
    """Returns the ids of all documents anywhere in a stored answer's JSON."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        named = {int(str(member)) for name, member in members.items() if name == "document_id" and member}
        return named.union(*map(documents_in, members.values()))
    return set[int]().union(*map(documents_in, cast("list[object]", value))) if isinstance(value, list) else set()


def _shown(message: StoredMessage, withheld: Collection[int]) -> StoredMessage:
    return withhold(message) if message.ordinal in withheld else _without_scripts(message)


def _without_scripts(message: StoredMessage) -> StoredMessage:
    """Returns an answer without URLs that aren't web pages, which were stored before this was checked."""
    citations = cast("list[dict[str, object]]", message.details.get("citations") or [])
    if all(_LINK.match(str(citation.get("url") or "/")) for citation in citations):
        return message
    citations = [
        {name: value for name, value in citation.items() if name != "url" or _LINK.match(str(value))}
        for citation in citations
    ]
    return replace(message, details={**message.details, "citations": citations})


def withhold(message: StoredMessage) -> StoredMessage:
    """Returns an answer without its text and quotes; its usage and outcome stay."""
    details = {name: message.details[name] for name in _KEPT_DETAILS if name in message.details}
    details |= {"citations": [], "cited": [], "steps": [], "withheld": True}
    return replace(message, content=WITHHELD, details=details)
