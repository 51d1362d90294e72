"""Reads hostile files in confined processes: one per file, with limits, and a crash counts as an answer.

The counterpart of `confined` in the worker and the retriever: it passes an open file to the fork server, and reads the
answer from a pipe.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, astuple, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from citewire.retriever.v1 import table_pb2 as pb

from citewire_kit.errors import Internal, StartupError
from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest.boxes import PageBoxes, SoughtText
from citewire_retriever.ingest.confined import NOT_LOCKED, TABLES
from citewire_retriever.ingest.document import ParsedDocument, ParseLimits, SheetPosition
from citewire_retriever.ingest.errors import HOW_TO_HAVE_IT, IngestCode, IngestError
from citewire_retriever.ingest.fork_server import (
    AnswerTooLongError,
    ForkServer,
    ProcessEnd,
    ServerLostError,
    Told,
    now_and_then,
)
from citewire_retriever.ingest.recognition import (
    MOST_OUTPUT,
    DrawnPage,
    RecognisedPage,
    Recogniser,
    merge,
    nothing_yet,
)
from citewire_retriever.ingest.wire import decode_boxes, decode_document, decode_tables
from citewire_retriever.room import room_needed

log = get_logger(__name__)

Confinement = Literal["required", "available"]
_T = TypeVar("_T")
_Answer = TypeVar("_Answer", pb.ListTablesResponse, pb.TableAnswer, pb.ComputedAnswer)

_MIB: Final = 1024 * 1024
_LOG_CHARS: Final = 10_000
_MESSAGE_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class SandboxRules:
    """Limits of the process that reads a file."""

    seconds: float
    """Most seconds per file, by the clock."""
    cpu_seconds: float
    """CPU seconds for a file of at most 1 MiB."""
    cpu_seconds_per_mib: float
    """CPU seconds for each further MiB; never more than `seconds` in total."""
    memory_mib: int
    """Bytes of address space."""
    files: int
    """Files after which the fork server is replaced, since the processes it forks share its memory layout."""
    limits: ParseLimits
    """Limits on the document."""
    recogniser: Recogniser | None = None
    """Recognises text in pages that are pictures; None for no recognition."""
    tables: bool = False
    """Whether its processes query tables, which needs an optional package."""
    confinement: Confinement = "required"
    """`required`: a kernel without Landlock or seccomp is an error; `available`: whatever it has is used."""

    def cpu_budget(self, size: int) -> float:
        """CPU seconds for a file of `size` bytes."""
        return min(self.cpu_seconds + self.cpu_seconds_per_mib * max(0.0, size / _MIB - 1), self.seconds)

    @property
    def answer_bytes(self) -> int:
        """Most bytes of an answer: the text twice, plain and as rows of pairs, at four bytes per character."""
        return 8 * self.limits.max_chars + _MIB


class Sandbox:
    """Reads files in a limited number of processes.

    Example:
        async with Sandbox.open(rules, processes=2) as sandbox:
            document = await sandbox.parse(path, "report.pdf", "application/pdf")
    """

    def __init__(self, rules: SandboxRules, *, processes: int) -> None:
        self._rules = rules
        self._free = asyncio.Semaphore(processes)
        self._replacing = asyncio.Lock()
        self._server: ForkServer | None = None
        self._replaced: set[ForkServer] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, rules: SandboxRules, *, processes: int, at_once: bool = True) -> AsyncGenerator["Sandbox"]:
        """Opens a sandbox; its processes end with the block, by which time all files must be read.

        Args:
            rules: What a process may use.
            processes: Files at a time.
            at_once: Start the fork server now rather than with the first file.

        Raises:
            StartupError: No process can be forked, or the rules require locks that this kernel lacks.
        """
        sandbox = cls(rules, processes=processes)
        try:
            if at_once:
                await sandbox._open()
            yield sandbox
        finally:
            for server in [sandbox._server, *sandbox._replaced]:
                if server is not None:
                    await server.close()

    async def parse(
        self,
        path: Path,
        file_name: str,
        media_type: str,
        spent: Callable[[float], None] = lambda _: None,
        position: SheetPosition | None = None,
        told: Told | None = None,
    ) -> ParsedDocument:
        """Reads a file, or the part of a long table at a position.

        `spent` gets the CPU seconds used, even if the file can't be read; `told` gets, while a PDF is read, how
        many of its pages were read and how many there are, then the same of scanned pages, before each.

        Raises:
            IngestError: With any code; TIMEOUT if it took too long, CORRUPT if it crashes the parser, INTERNAL for a
                defect of ours.
            ServerLostError: The processes are repeatedly killed from outside.
            Internal: Processes can no longer be confined.
        """
        start = None if position is None else astuple(position)
        limits, recogniser = self._rules.limits, self._rules.recogniser
        job = {"file_name": file_name, "media_type": media_type, "limits": asdict(limits), "position": start}
        answer = await self._run(path, {**job, "finds_scans": recogniser is not None}, spent, told)
        offset = 0 if position is None else position.offset
        text = await asyncio.to_thread(_decode, answer, lambda each: _Text.read(each, limits, offset))
        if not text.scans:
            return text.document
        if recogniser is None:
            raise IngestError(IngestCode.NO_TEXT, HOW_TO_HAVE_IT)
        if len(text.scans) > recogniser.most_pages:
            raise IngestError(
                IngestCode.TOO_LARGE,
                f"The document has {len(text.scans):,} scanned pages, and text is recognised on up to "
                f"{recogniser.most_pages:,}: split it.",
            )
        pages: list[RecognisedPage] = []
        for number, scan in enumerate(text.scans):
            if told is not None:
                await told(number, len(text.scans))
            page = await self._recognise(recogniser, path, scan, spent)
            pages += [page] if page is not None else []
        document = await asyncio.to_thread(merge, text.document, pages, self._rules.limits)
        if not document.blocks:
            raise IngestError(IngestCode.NO_TEXT, "The file contains no text, and none was recognised in its images.")
        return document

    async def _recognise(
        self, recogniser: Recogniser, path: Path, page: int, spent: Callable[[float], None]
    ) -> RecognisedPage | None:
        """The text of a page that is a picture; None if recognition fails, as other pages may still work."""
        image = path.with_name(f"{path.name}.page")
        try:
            drawn = DrawnPage.read(await self._run(path, {"page": page}, spent))
            if drawn is None:
                return None
            with room_needed():
                await asyncio.to_thread(drawn.write, image)
            table = await self._run(image, recogniser.job(), spent)
            return await asyncio.to_thread(RecognisedPage.read, page, drawn, table)
        except (IngestError, ValueError, KeyError, TypeError) as error:
            log.warning("page_not_recognised", page=page, error=type(error).__name__)
            return None
        finally:
            image.unlink(missing_ok=True)

    async def find_boxes(self, path: Path, texts: Sequence[SoughtText]) -> list[PageBoxes]:
        """Finds texts on the pages of a PDF, in the order requested; otherwise like `parse`.

        Raises:
            StartupError: The fork server can't be started, as in `open`.
        """
        answer = await self._run(path, {"texts": [asdict(text) for text in texts]}, lambda _: None)
        return _decode(answer, lambda each: decode_boxes(each["pages"], len(texts)))

    async def list_tables(self, path: Path, file_name: str, media_type: str) -> pb.ListTablesResponse:
        """Lists a file's tables for computing; the rules must allow `tables`. Raises as `query_table`."""
        return await self._ask_tables(path, file_name, media_type, None, pb.ListTablesResponse)

    async def query_table(self, path: Path, file_name: str, media_type: str, query: pb.TableQuery) -> pb.TableAnswer:
        """Answers a query over one of a file's tables; the rules must allow `tables`.

        Raises:
            TableQueryError: The query doesn't fit the tables, or no exact answer can be given.
            StartupError: The fork server can't be started, as in `open`.
            IngestError, ServerLostError, Internal: As in `parse`.
        """
        return await self._ask_tables(path, file_name, media_type, query, pb.TableAnswer)

    async def answer_question(
        self, path: Path, file_name: str, media_type: str, question: str, today: date
    ) -> pb.ComputedAnswer:
        """Answers a plain question over the one table that it fits; empty if there is none. Raises as `query_table`."""
        job = {"question": question, "today": today.isoformat()}
        return await self._ask_tables(path, file_name, media_type, None, pb.ComputedAnswer, **job)

    async def answer_filled(
        self, path: Path, file_name: str, media_type: str, question: str, query: pb.TableQuery
    ) -> pb.ComputedAnswer:
        """Answers a question by a query that a model filled; empty if no row matches. Raises as `query_table`."""
        return await self._ask_tables(path, file_name, media_type, query, pb.ComputedAnswer, question=question)

    async def _ask_tables(  # the query and its target
        self, path: Path, file_name: str, media_type: str, query: pb.TableQuery | None, kind: type[_Answer], **more: str
    ) -> _Answer:
        limits = asdict(self._rules.limits)
        job = {"file_name": file_name, "media_type": media_type, "limits": limits, **more}
        answer = await self._run(path, {**job, "query": query and query.SerializeToString().hex()}, lambda _: None)
        return await asyncio.to_thread(_decode, answer, lambda each: decode_tables(each, kind))

    async def _run(
        self, path: Path, job: dict[str, Any], spent: Callable[[float], None], told: Told | None = None
    ) -> bytes:
        """A process's answer about a file."""
        async with self._free:
            try:
                return await self._run_once(path, job, spent, told)
            except (ServerLostError, _KilledError):
                # It may have been killed because of another file.
                log.warning("parser_killed")
            try:
                return await self._run_once(path, job, spent, told)
            except _KilledError:
                raise IngestError(
                    IngestCode.TOO_LARGE, "Reading the file needs more memory than is allowed: split it."
                ) from None

    async def _open(self) -> None:
        try:
            await self._current()
        except ServerLostError:
            raise StartupError("the process that reads files didn't start") from None

    async def _run_once(
        self, path: Path, job: dict[str, Any], spent: Callable[[float], None], told: Told | None
    ) -> bytes:
        server = await self._current()
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            recogniser = self._rules.recogniser if "program" in job else None
            budget = self._rules.cpu_budget(size) if recogniser is None else recogniser.cpu_seconds
            bounds = {"cpu_seconds": budget, "memory_mib": self._rules.memory_mib}
            reading = server.start({**job, **bounds}, file.fileno())
        answer: bytes | None = None
        try:
            async with asyncio.timeout(self._rules.seconds) as limit:
                if recogniser is not None:
                    answer = await reading.output(MOST_OUTPUT)
                else:
                    note = None if told is None else now_and_then(told, limit)
                    answer = await reading.answer(self._rules.answer_bytes, note, self._rules.limits.max_pages)
        except TimeoutError:
            raise IngestError(
                IngestCode.TIMEOUT, f"Reading the file took longer than {self._rules.seconds:.0f} seconds: split it."
            ) from None
        except AnswerTooLongError:
            raise IngestError(
                IngestCode.TOO_LARGE, "The document yields more text and rows than are allowed: split it."
            ) from None
        finally:
            # Answered, cancelled or crashed: the process is no longer needed.
            process_end = await reading.close()
            if process_end is not None:
                spent(process_end.cpu_seconds)
            await self._close_replaced()
        if answer is None:
            raise ServerLostError if process_end is None else _reason(process_end, size, budget)
        return answer

    async def _current(self) -> ForkServer:
        """The fork server; a new one if there is none, or it has ended or served its share of files."""
        async with self._replacing:
            server = self._server
            if server is not None and not server.ended and server.files < self._rules.files:
                return server
            if server is not None:
                self._replaced.add(server)
                await self._close_replaced()
            server = await ForkServer.open(*([TABLES] if self._rules.tables else []))
            if server.missing and self._rules.confinement == "required":
                await server.close()
                raise StartupError(_refusal(server.missing))
            if server.missing:
                log.warning("parser_partly_confined", missing=server.missing)
            self._server = server
            return server

    async def _close_replaced(self) -> None:
        """Ends replaced fork servers whose last process has ended."""
        for server in [each for each in self._replaced if each.idle]:
            self._replaced.discard(server)
            await server.close()


@dataclass(frozen=True, slots=True)
class _Text:
    """The result of reading a file."""

    document: ParsedDocument
    """Without blocks if there is no text."""
    scans: tuple[int, ...] = ()
    """Pages, from 1, that are pictures."""

    @classmethod
    def read(cls, answer: dict[str, Any], limits: ParseLimits, offset: int) -> "_Text":
        """Decodes a process's answer about a file read from an offset. Raises as `decode_document`."""
        scans = tuple(sorted({int(page) for page in answer.get("scans", ())}))
        if any(not 1 <= page <= limits.max_pages for page in scans):
            raise ValueError("pages that no file has")
        if "error" in answer:
            return cls(nothing_yet(str(answer["media_type"]), int(answer["pages"])), scans)
        document = decode_document(answer["document"], limits)
        if document.following is not None and document.following.offset <= offset:
            raise ValueError("a part that doesn't end")
        return cls(document, scans)


class _KilledError(Exception):
    """A process was killed from outside: by the kernel for lack of memory, or by an operator."""


def _reason(process_end: ProcessEnd, size: int, budget: float) -> Exception:
    """Why a process ended without an answer."""
    status = process_end.status
    log.warning("parser_crashed", exit_status=status, cpu_seconds=process_end.cpu_seconds)
    if status == NOT_LOCKED:
        return Internal("a process that reads files couldn't be confined", reason="INTERNAL")
    if status == -signal.SIGXCPU or process_end.cpu_seconds >= budget:
        return IngestError(
            IngestCode.TIMEOUT,
            f"Reading the file took more than {budget:.0f} seconds of CPU time, the limit for a file of "
            f"{max(size / _MIB, 0.1):.1f} MiB: split it, or save it in a simpler form.",
        )
    if status == -signal.SIGSYS:
        log.error("parser_attacked")
        return IngestError(
            IngestCode.CORRUPT, "The file made the reader do something that no document needs, so reading was stopped."
        )
    if status == -signal.SIGKILL:
        return _KilledError()
    return IngestError(
        IngestCode.CORRUPT, "The file can't be read: it crashes the reader, or needs more memory than is allowed."
    )


def _refusal(missing: tuple[str, ...]) -> str:
    return (
        f"this kernel has no {' and no '.join(missing)}, so files can't be read in confinement: use one that has "
        "(Linux 5.13 or later, with both in its configuration and in the container's seccomp profile), or accept less "
        "with CITEWIRE_WORKER_CONFINEMENT=available"
    )


def _decode(data: bytes, read: Callable[[dict[str, Any]], _T]) -> _T:
    """Decodes a process's answer. The file may have taken it over, so anything unexpected is the file's fault."""
    try:
        answer: dict[str, Any] = json.loads(data)
        if "defect" in answer:
            log.error("parser_defect", traceback=str(answer["defect"])[:_LOG_CHARS])
            raise IngestError(IngestCode.INTERNAL, "The file couldn't be read because of an internal error.")
        if "error" in answer and not answer.get("scans"):
            raise _error(answer["error"])
        return read(answer)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        log.exception("parser_answer_wrong")
        raise IngestError(IngestCode.CORRUPT, "The file can't be read: it confuses the reader.") from None


def _error(values: dict[str, Any]) -> IngestError:
    return IngestError(IngestCode(values["code"]), str(values["message"])[:_MESSAGE_CHARS])
