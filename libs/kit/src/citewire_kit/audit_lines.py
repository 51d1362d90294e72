"""The audit trail of a process without a place of its own for it: a line of its log for each block of its chain.

The log collector keeps it; `citewire audit verify --lines` checks it (docs/adr/0029-audit-lines.md).
"""

import json
import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from citewire_kit.audit_chain import Block, ChainCheck, Head, Report, make_block
from citewire_kit.audit_events import AuditEvent
from citewire_kit.telemetry import get_logger

BLOCK_LINE: Final = "audit_block"
"""The event name of the line."""

LINE_EVENTS: Final = 50
"""Events per block, so that log collectors accept the line."""

log = get_logger(__name__)


async def write_line(block: Block, events: Sequence[AuditEvent]) -> None:
    """Writes a block as a line of the log, whatever the log's level."""
    logging.getLogger(__name__).setLevel(logging.INFO)
    log.info(
        BLOCK_LINE,
        process_id=str(block.process_id),
        process=block.process,
        seq=block.seq,
        at=block.at.isoformat(),
        prev=block.prev.hex(),
        hash=block.hash.hex(),
        events=[event.lines() for event in events],
    )


def check_lines(lines: Iterable[str], heads: Iterable[Head] = ()) -> Report:
    """Checks the chains in a log, whose lines may be in any order; other lines are ignored.

    Args:
        lines: Lines of JSON. A line that is there twice counts once.
        heads: The last blocks of chains at an earlier time, stored elsewhere.

    Raises:
        ValueError: A line claims to be a block, but isn't one.
    """
    blocks: dict[tuple[str, int, str], tuple[Block, list[AuditEvent]]] = {}
    for number, line in enumerate(lines, 1):
        if BLOCK_LINE not in line:
            continue
        try:
            values: object = json.loads(line)
        except (ValueError, RecursionError):
            continue  # another event, or a block that will be reported as missing
        if not isinstance(values, dict) or cast("dict[str, Any]", values).get("event") != BLOCK_LINE:
            continue
        try:
            block, events = _read(cast("dict[str, Any]", values))
        except (ValueError, TypeError, KeyError) as exc:
            raise ValueError(f"line {number} isn't a block of an audit trail") from exc
        blocks[str(block.process_id), block.seq, block.hash.hex()] = block, events
    checking = ChainCheck({}, heads)
    for _, (block, events) in sorted(blocks.items()):
        checking.add(block, events)
    return checking.finish()


def _read(values: dict[str, Any]) -> tuple[Block, list[AuditEvent]]:
    """A block with the hash given in the line, and the digests computed from its events."""
    events = [_event(row) for row in values["events"]]
    at = datetime.fromisoformat(values["at"]).astimezone(UTC)
    prev, line_hash = bytes.fromhex(values["prev"]), bytes.fromhex(values["hash"])
    made = make_block(uuid.UUID(values["process_id"]), values["process"], int(values["seq"]), prev, at, events)
    return replace(made, hash=line_hash), events


def _event(row: list[Any]) -> AuditEvent:
    at, org_id, user_id, key_id, issuer, action, objects, *rest = row
    return AuditEvent(datetime.fromisoformat(at), org_id, user_id, key_id, issuer, action, tuple(objects), *rest)
