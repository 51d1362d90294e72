"""The audit chain: every change, removal, insertion and move of a row is detected."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citewire_kit.audit_chain import FIRST_PREV, Block, ChainCheck, Head, Report, cut_object, cuts_of, make_block
from citewire_kit.audit_events import Action, AuditEvent, bounded_objects

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Row:
    """An event as stored in the database."""

    process_id: uuid.UUID
    seq: int
    event: AuditEvent


def event(org: str, number: int, at: datetime = START, **values: str) -> AuditEvent:
    plain = AuditEvent(
        at, org, "ada", "key_1", "", "search", (f"document:{number}",), "ok", "", "127.0.0.1", "curl", "r1"
    )
    return replace(plain, **values)  # type: ignore[arg-type] # texts only


def make_chain(sizes: list[list[int]], process: int = 1) -> tuple[list[Block], list[Row]]:
    """A chain of blocks; `sizes` has the number of events of each organisation in each block."""
    process_id, prev = uuid.UUID(int=process), FIRST_PREV
    blocks: list[Block] = []
    rows: list[Row] = []
    for seq, counts in enumerate(sizes):
        at = START + timedelta(seconds=seq)
        events = [
            event(f"org{org}", seq * 100 + number, at) for org, count in enumerate(counts) for number in range(count)
        ]
        blocks.append(make_block(process_id, "gateway", seq, prev, at, events))
        prev = blocks[-1].hash
        rows += [Row(process_id, seq, of_block) for of_block in events]
    return blocks, rows


def check(
    blocks: list[Block], rows: list[Row], cuts: dict[str, datetime] | None = None, heads: list[Head] | None = None
) -> Report:
    checking = ChainCheck(cuts or {}, heads or [])
    for block in blocks:
        checking.add(block, [row.event for row in rows if (row.process_id, row.seq) == (block.process_id, block.seq)])
    return checking.finish()


def heads_of(*chains: list[Block]) -> list[Head]:
    return [Head(chain[-1].process_id, chain[-1].seq, chain[-1].hash.hex()) for chain in chains]


SIZES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(any), min_size=1, max_size=6)


@settings(deadline=None)
@given(SIZES, SIZES)
def test_an_unchanged_chain_is_valid(first: list[list[int]], second: list[list[int]]) -> None:
    (blocks, rows), (more_blocks, more_rows) = make_chain(first), make_chain(second, process=2)
    report = check(blocks + more_blocks, rows + more_rows, heads=heads_of(blocks, more_blocks))
    assert report.problems == []
    assert (report.chains, report.blocks, report.events) == (2, len(first) + len(second), len(rows) + len(more_rows))
    assert report.heads == heads_of(blocks, more_blocks)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SIZES, st.data())
def test_any_tampering_with_a_row_is_detected(sizes: list[list[int]], data: st.DataObject) -> None:
    blocks, rows = make_chain(sizes)
    heads = heads_of(blocks)
    at = data.draw(st.integers(0, len(rows) - 1))
    row, other = rows[at], data.draw(st.integers(0, len(rows) - 1))
    match data.draw(st.sampled_from(["change", "remove", "insert", "reorder", "move", "block", "drop", "cut_tail"])):
        case "change":
            name = data.draw(st.sampled_from(list(AuditEvent.__dataclass_fields__)))
            value: object = getattr(row.event, name)
            changed = {"at": row.event.at + timedelta(microseconds=1), "objects": ()}.get(name, f"{value}x")
            rows[at] = replace(row, event=replace(row.event, **{name: changed}))  # type: ignore[arg-type] # by its name
        case "remove":
            del rows[at]
        case "insert":
            rows.insert(at, replace(row, event=replace(row.event, user_id="eve")))
        case "reorder":
            if rows[other].seq != row.seq or rows[other].event.org_id != row.event.org_id or other == at:
                return
            rows[at], rows[other] = rows[other], rows[at]
        case "move":
            if rows[other].seq == row.seq:
                return
            rows[at] = replace(row, seq=rows[other].seq)
        case "block":
            wrong = data.draw(st.sampled_from(["at", "process", "prev", "hash", "digests", "seq"]))
            block = blocks[row.seq]
            changes: dict[str, object] = {
                "at": block.at - timedelta(seconds=1),
                "process": "retriever",
                "prev": bytes([1]) * 32,
                "hash": bytes([2]) * 32,
                "digests": {"org9": next(iter(block.digests.values()))},
                "seq": block.seq + 1,
            }
            blocks[row.seq] = replace(block, **{wrong: changes[wrong]})  # type: ignore[arg-type] # by its name
        case "drop":
            blocks = [block for block in blocks if block.seq != row.seq]
            rows = [entry for entry in rows if entry.seq != row.seq]
        case _:
            # All later blocks are rewritten consistently: only the logged head reveals it.
            events = [replace(entry.event, user_id="eve") for entry in rows if entry.seq == row.seq]
            prev = blocks[row.seq - 1].hash if row.seq else FIRST_PREV
            blocks = [*blocks[: row.seq], make_block(row.process_id, "gateway", row.seq, prev, START, events)]
            rows = [entry for entry in rows if entry.seq < row.seq]
            rows += [Row(row.process_id, row.seq, of_block) for of_block in events]
    assert check(blocks, rows, heads=heads).problems


def test_a_block_whose_events_were_cut_still_counts() -> None:
    blocks, rows = make_chain([[2, 1], [1, 1], [2]])
    before = blocks[1].at
    left = [row for row in rows if row.event.org_id != "org0" or row.seq >= 1]
    notice = event("org0", 0, START + timedelta(days=1), action=Action.AUDIT_CUT)
    cuts = cuts_of([replace(notice, objects=(cut_object(before),))])
    report = check(blocks, left, cuts)
    assert report.problems == []
    assert report.cut_events == 2
    assert check(blocks, left).problems  # without the notice
    assert check(blocks, left[1:], cuts).problems  # another organisation's
    assert check(blocks, [row for row in left if row.seq != 1 or row.event.org_id != "org0"], cuts).problems  # too late


def test_a_part_of_a_block_is_never_cut() -> None:
    blocks, rows = make_chain([[2], [1]])
    assert check(blocks, rows[1:], {"org0": START + timedelta(days=9)}).problems


def test_a_cut_covers_no_later_blocks() -> None:
    notice = event("org0", 0, START, action=Action.AUDIT_CUT)
    assert cuts_of([replace(notice, objects=(cut_object(START + timedelta(days=1)), "before:never"))]) == {}
    assert cuts_of([replace(notice, action="search", objects=(cut_object(START),))]) == {}


def test_objects_are_bounded() -> None:
    assert bounded_objects(("document:1", "document:1", "document:2")) == ("document:1", "document:2")
    many = bounded_objects(tuple(f"document:{number}" for number in range(1000)))
    assert len(many) == 51
    assert many[-1] == "…"
    assert bounded_objects(("collection:a\x00b\ud800" + "x" * 1000,))[0].startswith("collection:a?b?xxx")
    assert len(bounded_objects(("x" * 1000,))[0]) == 300
