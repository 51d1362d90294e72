"""Queries over tables in confined processes: the same answers, within limits, and no process outlives its caller."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import psutil
import pytest
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.tabular import TableQueryError
from planted_parser import plant
from proof_scale import PrintTable, ProofScale
from table_oracle import answer_of, make_query, make_table
from waiting import wait_until
from zip_packages import docx, paragraph

RULES = SandboxRules(
    seconds=120,
    cpu_seconds=60,
    cpu_seconds_per_mib=0,
    memory_mib=2048,
    files=1000,
    limits=ParseLimits(),
    tables=True,
    confinement="available",
)
ROWS = [("Item", "Cost"), ("a", "1.50"), ("b", "2.25")]
COUNT = pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT)])


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox.open(RULES, processes=2) as opened:
        yield opened


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


async def test_answers_come_out_of_confinement(sandbox: Sandbox, tmp_path: Path, proof: ProofScale) -> None:
    chance = proof.random()
    for _ in range(proof.pick(scaled_down=6, full=60)):
        table = make_table(chance, 20)
        path = write(tmp_path, table.name, table.data)
        query = make_query(chance, table)
        answer = await sandbox.query_table(path, table.name, "", query)
        shown = [[value.text if value.HasField("text") else None for value in row.values] for row in answer.rows]
        assert shown == [row for row, _ in answer_of(table, query)[0]], query
        listed = await sandbox.list_tables(path, table.name, "")
        assert [column.name for column in listed.tables[0].columns] == [column.name for column in table.columns]


async def test_tables_of_texts_come_out_of_confinement(sandbox: Sandbox, tmp_path: Path) -> None:
    cells = "".join(f"<w:tr><w:tc>{paragraph(a)}</w:tc><w:tc>{paragraph(b)}</w:tc></w:tr>" for a, b in ROWS)
    files = {
        "a.md": "\n".join(["| Item | Cost |", "|---|---|", *(f"| *{a}* | `{b}` |" for a, b in ROWS[1:])]).encode(),
        "a.html": f"<html><table>{''.join(f'<tr><td>{a}<td>{b}' for a, b in ROWS)}</table></html>".encode(),
        "a.docx": docx(f"<w:tbl>{cells}</w:tbl>"),
    }
    query = pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="cost")])
    for name, data in files.items():
        answer = await sandbox.query_table(write(tmp_path, name, data), name, "", query)
        assert answer.rows[0].values[0].text == "3.75", name


async def test_refusals_come_out_of_confinement(sandbox: Sandbox, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b"Item,Cost\na,1.50\n")
    with pytest.raises(TableQueryError) as refused:
        await sandbox.query_table(path, "a.csv", "", pb.TableQuery(columns=["Price"]))
    assert (refused.value.field, "Item, Cost" in refused.value.message) == ("query.columns[0]", True)
    with pytest.raises(IngestError) as caught:
        await sandbox.query_table(write(tmp_path, "a.xlsx", b"PK\3\4nonsense"), "a.xlsx", "", COUNT)
    assert caught.value.code is IngestCode.CORRUPT


async def test_cancelling_a_query_ends_its_process(sandbox: Sandbox, tmp_path: Path) -> None:
    lines = b"".join(b"name %d,%d.50\n" % (number, number) for number in range(300_000))
    path = write(tmp_path, "a.csv", b"Item,Cost\n" + lines)
    (server,) = [child for child in psutil.Process().children() if "tables" in child.cmdline()]
    task = asyncio.create_task(sandbox.query_table(path, "a.csv", "", COUNT))
    await wait_until(lambda: bool(server.children()))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert server.children() == []


@pytest.mark.parametrize(
    "reply",
    [
        {"message": "zz"},
        {"message": "ff" * 20},
        {"message": 7},
        {"field": "query.columns[0]"},
        {"refusal": 7, "field": ""},
        ["message"],
    ],
)
async def test_a_malformed_answer_of_a_hostile_process_is_refused(
    reply: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, tmp_path, f"server._read = lambda *_: {reply!r}\nplanted = None")
    async with Sandbox.open(replace(RULES, tables=False), processes=1) as sandbox:
        with pytest.raises(IngestError) as caught:
            await sandbox.query_table(write(tmp_path, "a.csv", b"Item,Cost\na,1.50\n"), "a.csv", "", COUNT)
    assert caught.value.code is IngestCode.CORRUPT


async def test_long_tables(sandbox: Sandbox, tmp_path: Path, proof: ProofScale, print_table: PrintTable) -> None:
    rows = proof.pick(scaled_down=20_000, full=1_000_000)
    regions = ("North", "South", "East", "West")
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("Number,Name,Region,Amount,Share,Day\n")
        for number in range(rows):
            place, day = regions[number % 4], f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}"
            file.write(f"{number},name {number},{place},{number}.25,{number % 100}%,{day}\n")
    query = pb.TableQuery(
        group_by=[pb.TableGroup(column="Region")],
        aggregates=[
            pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Amount"),
            pb.TableAggregate(function=pb.TABLE_FUNCTION_AVG, column="Share"),
        ],
        filters=[pb.TableFilter(column="Day", op=pb.TABLE_OPERATOR_GE, values=["2026-07-01"])],
    )
    started = time.perf_counter()
    answer = await sandbox.query_table(path, "a.csv", "", query)
    seconds = time.perf_counter() - started
    for row in answer.rows:
        numbers = [n for n in range(rows) if regions[n % 4] == row.values[0].text and n % 12 >= 6]
        assert row.row_count == len(numbers)
        assert Decimal(row.values[1].text) == sum(numbers) + len(numbers) / Decimal(4)
    title = "a query over a long CSV of six columns"
    print_table(title, ["rows", "MB", "seconds"], [[rows, path.stat().st_size // 10**6, f"{seconds:.1f}"]])
