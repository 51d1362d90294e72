"""Reads hostile files in processes of their own: bounded time, bounded memory, and a crash is an answer too."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from citewire_kit.telemetry import get_logger
from citewire_retriever.ingest.document import ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.wire import PREFIX_BYTES, decode_document

log = get_logger(__name__)

_ARGUMENTS = ("-I", "-X", "utf8", "-m", "citewire_retriever.ingest.parse_process")
_TRIES = 2


class _CrashedError(Exception):
    """The process ended without an answer."""


@dataclass(frozen=True, slots=True)
class SandboxRules:
    """What a parsing process may use."""

    seconds: float
    """Longest that one file may take."""
    memory_mib: int
    """Address space."""
    jobs: int
    """Files that it reads before it is replaced."""
    limits: ParseLimits
    """Bounds on the document."""


class Sandbox:
    """A pool of parsing processes, started when they are needed. One file at a time each.

    Example:
        async with Sandbox.open(rules, processes=2) as sandbox:
            document = await sandbox.parse(path, "report.pdf", "application/pdf")
    """

    def __init__(self, rules: SandboxRules, *, processes: int) -> None:
        self._rules = rules
        self._free = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, rules: SandboxRules, *, processes: int) -> AsyncGenerator["Sandbox"]:
        """A sandbox whose idle processes end with the block; all files must be read by then."""
        sandbox = cls(rules, processes=processes)
        try:
            yield sandbox
        finally:
            for process in sandbox._idle:
                await process.kill()

    async def parse(self, path: Path, file_name: str, media_type: str) -> ParsedDocument:
        """Reads a file.

        Raises:
            IngestError: With any code; TIMEOUT if it took too long, CORRUPT if it crashes the parser, INTERNAL for a
                defect of ours.
        """
        job = {
            "path": str(path),
            "file_name": file_name,
            "media_type": media_type,
            "seconds": self._rules.seconds,
            "limits": asdict(self._rules.limits),
        }
        async with self._free:
            for _ in range(_TRIES):
                with contextlib.suppress(_CrashedError):
                    # A second try in a fresh process: the first may have been ended for another's sake.
                    return await self._parse_once(job)
        raise IngestError(
            IngestCode.CORRUPT, "The file can't be read: it crashes the reader, or needs more memory than is allowed."
        )

    async def _parse_once(self, job: dict[str, Any]) -> ParsedDocument:
        process = self._idle.pop() if self._idle else await _Process.start(self._rules.memory_mib)
        try:
            async with asyncio.timeout(self._rules.seconds):
                answer = await process.ask(job)
        except TimeoutError:
            await process.kill()
            raise IngestError(
                IngestCode.TIMEOUT, f"Reading the file took longer than {self._rules.seconds:.0f} seconds: split it."
            ) from None
        except BaseException:
            # Cancelled or crashed: what the process is doing now is nobody's business any more.
            await process.kill()
            raise
        if process.jobs < self._rules.jobs:
            self._idle.append(process)
        else:
            await process.kill()
        return await asyncio.to_thread(_decode, answer)


class _Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.jobs = 0

    @classmethod
    async def start(cls, memory_mib: int) -> "_Process":
        # No environment: what the worker was told, its database's address above all, isn't for this process.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_ARGUMENTS,
            str(memory_mib),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        return cls(process)

    async def ask(self, job: dict[str, Any]) -> bytes:
        """Sends a job and waits for its answer.

        Raises:
            _CrashedError: There is none.
        """
        self.jobs += 1
        sender, receiver = self._process.stdin, self._process.stdout
        if sender is None or receiver is None:
            raise _CrashedError
        try:
            sender.write(json.dumps(job).encode() + b"\n")
            await sender.drain()
            length = int.from_bytes(await receiver.readexactly(PREFIX_BYTES), "big")
            return await receiver.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._process.wait()
            log.warning("parser_crashed", exit_status=code)
            raise _CrashedError from None

    async def kill(self) -> None:
        """Ends the process at once, and waits for its end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.shield(self._process.wait())


def _decode(data: bytes) -> ParsedDocument:
    answer: dict[str, Any] = json.loads(data)
    if "defect" in answer:
        log.error("parser_defect", traceback=answer["defect"])
        raise IngestError(IngestCode.INTERNAL, "The file couldn't be read because of a defect of ours.")
    if "error" in answer:
        raise IngestError(IngestCode(answer["error"]["code"]), answer["error"]["message"])
    return decode_document(answer["document"])
