"""Records who did what: `note` from anywhere in a request, and the trail that writes it.

An edge (the gateway's middleware, a server's audit stage) enters an `AuditRecord` for each request, and notes the
request's own event when it has ended. Code inside may name the objects that it touched, or note an event of its own.
The trail keeps events in memory and writes them once a second, as the next block of the process's chain; see
`audit_chain`.
"""

import asyncio
import time
import uuid
from collections import Counter as Counts
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Literal

from prometheus_client import Counter, Gauge

from citewire_kit.audit_chain import FIRST_PREV, Block, make_block
from citewire_kit.audit_events import (
    NOBODY,
    Action,
    AuditEvent,
    Outcome,
    bounded_agent,
    bounded_objects,
    bounded_reason,
    own_event,
)
from citewire_kit.errors import CitewireError, Unavailable
from citewire_kit.ids import uuid7
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, current_request_id, find_tenant

log = get_logger(__name__)

AuditMode = Literal["on", "required", "off"]
Write = Callable[[Block, Sequence[AuditEvent]], Awaitable[None]]
"""Writes a block with its events; may be repeated with the same block."""

BLOCK_SECONDS: Final = 1.0
MAX_WAITING: Final = 20_000
"""Events in memory, about ten megabytes; further ones are dropped, or their requests rejected beforehand."""
MAX_BLOCK: Final = 1_000
"""Events per block."""

_RETRY_SECONDS: Final = (0.5, 1.0, 2.0, 5.0)
_CLOSE_SECONDS: Final = 5.0
_HEAD_SECONDS: Final = 60.0

EVENTS = Counter("citewire_audit_events_total", "Events of the audit trail that were written.")
DROPPED = Counter("citewire_audit_dropped_total", "Events of the audit trail that couldn't be written and were lost.")
WAITING = Gauge("citewire_audit_waiting", "Events of the audit trail that aren't written yet.")


class AuditTrail:
    """The audit trail of a process.

    While the database is unreachable, events are kept in memory as long as there is room. After that they are dropped,
    and their number is recorded as an event. With `required`, requests are rejected instead.

    Args:
        write: See `Write`; None records nothing.
        process: The process's name.
        required: Reject requests while there is no room for their events.
        max_waiting: Events that may wait.
        max_block: Events per block.
    """

    def __init__(
        self,
        write: Write | None,
        *,
        process: str,
        required: bool = False,
        max_waiting: int = MAX_WAITING,
        max_block: int = MAX_BLOCK,
    ) -> None:
        self._write = write
        self._process = process
        self._process_id = uuid7()
        self._required = required
        self._max_waiting = max_waiting
        self._max_block = max_block
        self._waiting: list[AuditEvent] = []
        self._dropped: Counts[str] = Counts()
        self._pending: tuple[Block, Sequence[AuditEvent]] | None = None
        self._next = (0, FIRST_PREV)
        self._head_logged = float("-inf")
        self._flushing = asyncio.Lock()

    @property
    def process_id(self) -> uuid.UUID:
        """Id of this run of the process, and of its chain."""
        return self._process_id

    def check(self) -> None:
        """Rejects a request whose event couldn't be stored, if the trail is required.

        Raises:
            Unavailable: The trail has had no room for too long (`DATABASE_UNAVAILABLE`).
        """
        if self._required and len(self._waiting) >= self._max_waiting:
            raise Unavailable(
                "the audit trail can't be written, and nothing may be done without it",
                reason="DATABASE_UNAVAILABLE",
                retry_after=_RETRY_SECONDS[-1],
            )

    def add(self, event: AuditEvent) -> None:
        """Takes an event; it is written within about a second."""
        if self._write is None:
            return
        if len(self._waiting) >= self._max_waiting:
            DROPPED.inc()
            self._dropped[event.org_id] += 1
            return
        self._waiting.append(event)

    async def run(self) -> None:
        """Writes once a second, until cancelled."""
        tries = 0
        while True:
            await asyncio.sleep(_RETRY_SECONDS[min(tries - 1, len(_RETRY_SECONDS) - 1)] if tries else BLOCK_SECONDS)
            try:
                await self.flush()
            except CitewireError as exc:
                tries += 1
                log.warning("audit_not_written", reason=exc.reason, waiting=len(self._waiting), tries=tries)
            except Exception:
                tries += 1
                log.exception("audit_not_written", waiting=len(self._waiting), tries=tries)
            else:
                tries = 0

    async def flush(self) -> None:
        """Writes all waiting events. If writing fails, its error is raised and the unwritten events keep waiting."""
        async with self._flushing:
            try:
                while self._pending is not None or self._waiting or self._dropped:
                    block, events = self._pending = self._pending or self._take()
                    if self._write is not None:
                        await self._write(block, events)
                    self._pending = None
                    self._next = (block.seq + 1, block.hash)
                    EVENTS.inc(len(events))
                    self._log_head(block)
            finally:
                WAITING.set(len(self._waiting) + (len(self._pending[1]) if self._pending else 0))

    async def close(self) -> None:
        """Writes the waiting events, and logs how many couldn't be written."""
        self._head_logged = float("-inf")  # the last one is always logged
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.flush()
        except Exception:
            lost = len(self._waiting) + (len(self._pending[1]) if self._pending else 0)
            DROPPED.inc(lost)
            log.exception("audit_events_lost", events=lost)

    def _take(self) -> tuple[Block, Sequence[AuditEvent]]:
        now = datetime.now(UTC)
        lost = [
            own_event(
                org_id,
                Action.AUDIT_DROPPED,
                (f"events:{count}",),
                outcome=Outcome.FAILED,
                reason="DATABASE_UNAVAILABLE",
            )
            for org_id, count in self._dropped.items()
        ]
        self._dropped.clear()
        events = [*lost, *self._waiting[: self._max_block]]
        del self._waiting[: self._max_block]
        seq, prev = self._next
        return make_block(self._process_id, self._process, seq, prev, now, events), events

    def _log_head(self, block: Block) -> None:
        now = time.monotonic()
        if now - self._head_logged >= _HEAD_SECONDS:
            self._head_logged = now
            log.info("audit_head", process_id=str(block.process_id), seq=block.seq, hash=block.hash.hex())


NO_TRAIL: Final = AuditTrail(None, process="")
"""Records nothing."""


@asynccontextmanager
async def running_trail(trail: AuditTrail) -> AsyncGenerator[AuditTrail]:
    """Writes the trail's events during the block, and the remaining ones at its end."""
    task = asyncio.create_task(trail.run(), name="audit")
    try:
        yield trail
    finally:
        await end(task)
        await trail.close()


@dataclass(slots=True)
class AuditRecord:
    """The known facts about the running request."""

    trail: AuditTrail
    address: str
    agent: str
    tenant: Tenant | None = None
    """Set by the edge when it knows the caller."""
    objects: list[str] = field(default_factory=list[str])
    reason: str = ""
    """Why it failed; "" if it hasn't."""
    issuer: str = ""
    """The issuer that identified the caller; "" if it was this process."""
    concerned: str = ""
    """Another organisation whose trail also records the request, without its address; "" for none."""

    def add(self, action: Action, outcome: Outcome, objects: Sequence[str] = (), reason: str = "") -> None:
        """Records an event of this request's caller."""
        tenant = self.tenant or find_tenant()
        event = AuditEvent(
            datetime.now(UTC),
            tenant.org_id if tenant is not None else NOBODY,
            tenant.user_id if tenant is not None else "",
            tenant.key_id if tenant is not None else "",
            self.issuer,
            action,
            bounded_objects(tuple(objects)),
            outcome,
            bounded_reason(reason),
            self.address,
            self.agent,
            current_request_id(),
        )
        self.trail.add(event)
        if self.concerned:
            self.trail.add(replace(event, org_id=self.concerned, address="", agent=""))


_record: ContextVar[AuditRecord | None] = ContextVar("citewire_audit_record", default=None)


@contextmanager
def use_record(trail: AuditTrail, address: str, agent: str) -> Generator[AuditRecord]:
    """Creates the running request's record for the duration of the block."""
    record = AuditRecord(trail, address, bounded_agent(agent))
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def current_record() -> AuditRecord | None:
    """Returns the running request's record; None outside of one."""
    return _record.get()


def note(action: Action, *objects: str, outcome: Outcome = Outcome.OK, reason: str = "") -> None:
    """Records an event besides the request's own: one of several changes that a request makes, such as a grant.

    Outside a request it does nothing: a process's own actions are recorded with `AuditTrail.add`.

    Args:
        action: What was done or tried.
        objects: What it was done to, each as `kind:id`; never content.
        outcome: How it ended.
        reason: The error's reason.
    """
    record = _record.get()
    if record is not None:
        record.add(action, outcome, objects, reason)


def touch(*objects: str) -> None:
    """Adds objects to the running request's own event, each as `kind:id`: created, read, or used for its answer."""
    record = _record.get()
    if record is not None:
        record.objects += objects


def concern(org_id: str) -> None:
    """Records the running request also in the trail of the existing organisation that it changes."""
    record = _record.get()
    if record is not None:
        record.concerned = org_id


def fail(reason: str) -> None:
    """Sets why the running request failed, if its status doesn't show it; the first reason counts."""
    record = _record.get()
    if record is not None:
        record.reason = record.reason or reason
