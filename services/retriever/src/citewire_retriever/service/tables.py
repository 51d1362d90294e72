"""Computes answers over the tables of a version's original."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from cachetools import LRUCache
from citewire.retriever.v1.table_pb2 import (
    TABLE_TYPE_UNSPECIFIED,
    AnswerFromTablesResponse,
    ComputedAnswer,
    ListTablesResponse,
    QueryTableResponse,
    Table,
    TableInReach,
    TableQuery,
)

from citewire_kit.errors import FailedPrecondition, ResourceExhausted, Unavailable, invalid_field
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.sandbox import Sandbox
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.model import Original
from citewire_retriever.service.originals import OriginalReader
from citewire_retriever.store.content import PostgresContent
from citewire_retriever.tables import columns
from citewire_retriever.tables.questions import asks_to_compute, may_ask

log = get_logger(__name__)
_T = TypeVar("_T")

_REMEMBERED: Final = 200
_MOST_TEXT: Final = 20_000
_MOST_IN_REACH: Final = 10
"""Maximum number of tables described to a model."""
EXTRA: Final = "duckdb"
"""The package for computing."""


class TableReader(OriginalReader):
    """Has tables listed and queries answered by confined processes, which organisations share call by call.

    The lists of tables are cached, but permission is checked on every call.
    """

    most_waiting = 8
    too_many = "too many tables are being read at once"

    def __init__(
        self, content: PostgresContent, sandbox: Sandbox, folder: Path, *, processes: int, max_bytes: int
    ) -> None:
        super().__init__(content, sandbox, folder, processes=processes, max_bytes=max_bytes)
        self._tables: LRUCache[tuple[str, int, int], ListTablesResponse] = LRUCache(_REMEMBERED)

    async def list(self, tenant: Tenant, original: Original) -> ListTablesResponse:
        """The tables of a version that the caller may read. Raises as `query`."""
        key = (tenant.org_id, original.document_id, original.version)
        response = self._tables.get(key)
        if response is None:
            name, kind = original.file_name, original.media_type
            response = await self._read(tenant, original, lambda path: self._sandbox.list_tables(path, name, kind))
            response.version = original.version
            self._tables[key] = response
        return response

    async def query(self, tenant: Tenant, original: Original, query: TableQuery) -> QueryTableResponse:
        """The answer to a query over a table of a version that the caller may read.

        Raises:
            InvalidArgument: The query doesn't fit the tables.
            FailedPrecondition: No exact answer can be given (reason `TABLE_NOT_COMPUTED`).
            ResourceExhausted: The organisation has too many concurrent calls (reason `OVERLOADED`).
            Unavailable: Files can't be read in confinement here.
        """
        answer = await self._read(
            tenant,
            original,
            lambda path: self._sandbox.query_table(path, original.file_name, original.media_type, query),
        )
        return QueryTableResponse(version=original.version, answer=answer)

    async def answer_any(
        self,
        tenant: Tenant,
        document_ids: Sequence[int],
        find: Callable[[int], Awaitable[Original]],
        question: str,
        today: date,
        *,
        describe: bool,
    ) -> AnswerFromTablesResponse:
        """The answer over the one table of these documents that a question fits; empty if that isn't certain.

        If none fits, it describes on request the tables over which a model might turn the question into a query.
        Raises as `find`, which gets the original of a document.
        """
        answers: list[ComputedAnswer] = []
        in_reach: list[TableInReach] = []
        for document_id in document_ids:
            original = await find(document_id)
            try:
                answer = await self._answer(tenant, original, question, today)
                if describe:
                    in_reach += await self._in_reach(tenant, original, question)
            except (FailedPrecondition, ResourceExhausted, Unavailable) as exc:
                log.info("tables_not_asked", document_id=document_id, reason=exc.reason, error=exc.message)
                return AnswerFromTablesResponse()  # the question may fit this one
            answers += [answer] if answer is not None else []
        if not answers:
            return AnswerFromTablesResponse(tables=in_reach if len(in_reach) <= _MOST_IN_REACH else None)
        return AnswerFromTablesResponse(computed=answers[0] if len(answers) == 1 else None)

    async def answer_query(
        self, tenant: Tenant, original: Original, question: str, query: TableQuery
    ) -> AnswerFromTablesResponse:
        """The answer to the query that a model made of a question; empty if no exact answer can be given.

        Raises:
            InvalidArgument: The query doesn't fit the tables.
        """
        name, kind = original.file_name, original.media_type
        try:
            answer = await self._read(
                tenant, original, lambda path: self._sandbox.answer_filled(path, name, kind, question, query)
            )
        except (FailedPrecondition, ResourceExhausted, Unavailable) as exc:
            log.info("table_not_computed", document_id=original.document_id, reason=exc.reason, error=exc.message)
            return AnswerFromTablesResponse()
        return AnswerFromTablesResponse(computed=_of_version(answer, original))

    async def _answer(self, tenant: Tenant, original: Original, question: str, today: date) -> ComputedAnswer | None:
        """The answer to a plain question over the one table of a version that it fits; None if it fits none.

        Raises as `query`; FailedPrecondition also if it fits several.
        """
        listed = await self.list(tenant, original)
        if not any(may_ask(question, _without_values(table, original.file_name)) for table in listed.tables):
            return None
        answer = await self._read(
            tenant,
            original,
            lambda path: self._sandbox.answer_question(path, original.file_name, original.media_type, question, today),
        )
        return _of_version(answer, original)

    async def _in_reach(self, tenant: Tenant, original: Original, question: str) -> Sequence[TableInReach]:
        """The tables of a version to which a question that asks for a computation refers. Raises as `query`."""
        if not asks_to_compute(question):
            return []
        listed = await self.list(tenant, original)
        return [
            TableInReach(document_id=original.document_id, file_name=original.file_name, table=table)
            for table in listed.tables
            if not table.refusal and may_ask(question, _without_values(table, original.file_name))
        ]

    async def _read(self, tenant: Tenant, original: Original, ask: Callable[[Path], Awaitable[_T]]) -> _T:
        if find_spec(EXTRA) is None:
            raise _not_computed(
                "this server can't query tables: install its extra (pip install 'citewire-retriever[tables]')"
            )
        if original.size_bytes > self._max_bytes:
            raise _not_computed(f"the file is too large for table queries: the maximum is {self._max_bytes:,} bytes")
        try:
            return await self._confined(tenant, original, ask)
        except TableQueryError as error:
            if error.field:
                raise invalid_field(error.field, error.message) from None
            raise _not_computed(error.message) from None
        except IngestError as error:
            raise _not_computed(error.message) from error


def _of_version(answer: ComputedAnswer, original: Original) -> ComputedAnswer | None:
    if not answer.HasField("answer"):
        return None
    answer.document_id, answer.version = original.document_id, original.version
    answer.text = clean(answer.text)[:_MOST_TEXT]
    return answer


def _without_values(table: Table, file_name: str) -> columns.Table:
    described = tuple(columns.Column(column.name, column.type) for column in table.columns)
    # Unknown here which columns identify rows, so all may.
    described = (columns.Column("", TABLE_TYPE_UNSPECIFIED, unique=True), *described)
    return columns.Table(described, (table.sheet, file_name.rpartition(".")[0]))


def _not_computed(message: str) -> FailedPrecondition:
    return FailedPrecondition(message, reason="TABLE_NOT_COMPUTED")
