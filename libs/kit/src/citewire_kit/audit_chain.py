"""The chain of an audit trail: what is hashed, and what a check finds.

A process puts the events of a second into a block. The block holds a digest for each organisation in it, and the hash
of the previous block, so that no event can be changed, left out, added or moved without breaking its chain: a block's
hash covers everything before it. An organisation's events can still be removed when their time is over, as the
digest stays; their removal, and its date limit, is an event of the chain itself.

An attacker who can write everything can make a new chain. The hashes that processes log (`audit_head`) show that: they
are kept elsewhere.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from citewire_kit.audit_events import Action, AuditEvent

FIRST_PREV: Final = bytes(32)
"""The previous hash of a chain's first block."""

CUT_BEFORE: Final = "before:"
"""Prefix of the object in an event that records a cut; the time follows."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class OrgDigest:
    """The events of one organisation in one block."""

    events: int
    digest: str
    """SHA-256 of their canonical lines, in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Block:
    """A link of a process's chain."""

    process_id: uuid.UUID
    """Id of one run of one process."""
    process: str
    """Its name, such as `gateway`."""
    seq: int
    """From 0, without gaps."""
    at: datetime
    """When it was created, to the second."""
    prev: bytes
    """Hash of the previous block."""
    digests: Mapping[str, OrgDigest]
    """By organisation."""
    hash: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The last block of a chain at some time."""

    process_id: uuid.UUID
    seq: int
    hash: str


@dataclass(slots=True)
class Report:
    """The result of a check."""

    chains: int = 0
    blocks: int = 0
    events: int = 0
    cut_events: int = 0
    """Events removed at the end of their retention; their digests remain."""
    problems: list[str] = field(default_factory=list[str])
    heads: list[Head] = field(default_factory=list[Head])


def digest_of(events: Sequence[AuditEvent]) -> OrgDigest:
    """Returns the digest of an organisation's events, in their order."""
    lines = "\n".join(_canonical(event.lines()) for event in events)
    return OrgDigest(len(events), hashlib.sha256(lines.encode()).hexdigest())


def make_block(
    process_id: uuid.UUID, process: str, seq: int, prev: bytes, at: datetime, events: Iterable[AuditEvent]
) -> Block:
    """Creates the block that follows the one with the hash `prev`."""
    digests = {org_id: digest_of(of_org) for org_id, of_org in by_org(events).items()}
    second = at.astimezone(UTC).replace(microsecond=0)
    return Block(
        process_id, process, seq, second, prev, digests, _hash(process_id, process, seq, second, prev, digests)
    )


def by_org(events: Iterable[AuditEvent]) -> dict[str, list[AuditEvent]]:
    """Returns events by organisation, in their order."""
    groups: dict[str, list[AuditEvent]] = {}
    for event in events:
        groups.setdefault(event.org_id, []).append(event)
    return groups


class ChainCheck:
    """Checks a trail, given all blocks in the order of their chains, with their stored events.

    Args:
        cuts: Times before which organisations' events were removed by policy, as the trail itself says.
        heads: Where chains were at an earlier time, kept outside of the database.
    """

    def __init__(self, cuts: Mapping[str, datetime], heads: Iterable[Head] = ()) -> None:
        self.report = Report()
        self._cuts = cuts
        self._heads = {(head.process_id, head.seq): head for head in heads}
        self._last: Block | None = None

    def add(self, block: Block, events: Iterable[AuditEvent]) -> None:
        """Checks the next block."""
        where = f"{block.process} {block.process_id} block {block.seq}"
        last = self._last
        if last is not None and last.process_id != block.process_id:
            self._end(last)
            last = None
        self._check_link(where, block, last)
        groups = by_org(events)
        for org_id, digest in block.digests.items():
            self._check_events(f"{where} of {org_id}", org_id, block, digest, groups.pop(org_id, []))
        for org_id in groups:
            self.report.problems.append(f"{where}: {len(groups[org_id])} events of {org_id} were added")
        self._check_head(where, block)
        self.report.blocks += 1
        self._last = block

    def finish(self) -> Report:
        """Returns the result, after the last block."""
        if self._last is not None:
            self._end(self._last)
            self._last = None
        for head in self._heads.values():
            self.report.problems.append(f"{head.process_id} block {head.seq}: is missing, but was logged as written")
        self._heads.clear()
        return self.report

    def _end(self, last: Block) -> None:
        self.report.chains += 1
        self.report.heads.append(Head(last.process_id, last.seq, last.hash.hex()))

    def _check_link(self, where: str, block: Block, last: Block | None) -> None:
        seq, prev = (0, FIRST_PREV) if last is None else (last.seq + 1, last.hash)
        if block.seq != seq:
            self.report.problems.append(f"{where}: expected block {seq}: blocks are missing or were moved")
        elif block.prev != prev:
            self.report.problems.append(f"{where}: doesn't follow the previous block")
        if block.hash != _hash(block.process_id, block.process, block.seq, block.at, block.prev, block.digests):
            self.report.problems.append(f"{where}: was changed")

    def _check_events(
        self, where: str, org_id: str, block: Block, digest: OrgDigest, events: Sequence[AuditEvent]
    ) -> None:
        cut = self._cuts.get(org_id)
        if not events and digest.events and cut is not None and block.at < cut:
            self.report.cut_events += digest.events
        elif len(events) != digest.events:
            self.report.problems.append(f"{where}: has {len(events)} events instead of {digest.events}")
        elif digest_of(events) != digest:
            self.report.problems.append(f"{where}: events were changed or moved")
        self.report.events += len(events)

    def _check_head(self, where: str, block: Block) -> None:
        head = self._heads.pop((block.process_id, block.seq), None)
        if head is not None and head.hash != block.hash.hex():
            self.report.problems.append(f"{where}: isn't the block that was logged: the chain was rewritten")


def cut_object(before: datetime) -> str:
    """Returns the object of an event that records a cut."""
    return CUT_BEFORE + before.astimezone(UTC).isoformat(timespec="seconds")


def cuts_of(events: Iterable[AuditEvent]) -> dict[str, datetime]:
    """Returns the time up to which each organisation's events were cut, according to the trail's own events.

    Only cuts before the event count: an event can't explain what is missing after it.
    """
    cuts: dict[str, datetime] = {}
    for event in events:
        if event.action != Action.AUDIT_CUT:
            continue
        for name in event.objects:
            before = _cut_time(name)
            if before is not None and before <= event.at + timedelta(seconds=1):
                cuts[event.org_id] = max(before, cuts.get(event.org_id, before))
    return cuts


def _cut_time(name: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(name.removeprefix(CUT_BEFORE)) if name.startswith(CUT_BEFORE) else None
    except ValueError:
        return None
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=UTC)


def _hash(
    process_id: uuid.UUID, process: str, seq: int, at: datetime, prev: bytes, digests: Mapping[str, OrgDigest]
) -> bytes:
    groups = [[org_id, digest.events, digest.digest] for org_id, digest in sorted(digests.items())]
    second = at.astimezone(UTC).isoformat(timespec="seconds")
    text = _canonical([_FORMAT, str(process_id), process, seq, second, prev.hex(), groups])
    return hashlib.sha256(text.encode()).digest()


def _canonical(values: list[object]) -> str:
    """Returns canonical JSON on one line: equal values give equal text."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
