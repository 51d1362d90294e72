"""Files are read in a process of its own: whatever they do to it, the worker goes on."""

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest import sandbox as module
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.wire import decode_document, encode_document
from ingest_files import make_pdf, prose_page

RULES = SandboxRules(seconds=30, memory_mib=1024, jobs=100, limits=ParseLimits())
MARKDOWN = "# Größe 🙂\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox.open(RULES, processes=2) as opened:
        yield opened


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes parsing processes run a script instead of the parser; returns where it is written."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    monkeypatch.setattr(module, "_ARGUMENTS", ("-I", str(folder / "script.py")))
    return folder / "script.py"


def processes() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


async def test_a_document_comes_back_as_it_was_read(sandbox: Sandbox, tmp_path: Path) -> None:
    for name, data in (
        ("a.md", MARKDOWN),
        ("a.pdf", make_pdf([prose_page("T", [["Some text."]])])),
        ("a.py", "def f(): 1"),
    ):
        path = write(tmp_path / name, data)
        assert await sandbox.parse(path, name, "") == parse(path, name)


async def test_errors_come_back_with_code_and_message(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        await sandbox.parse(write(tmp_path / "a.pdf", "text"), "a.pdf", "")
    assert (caught.value.code, "isn't a PDF" in caught.value.message) == (IngestCode.CORRUPT, True)


async def test_a_process_reads_many_files_and_is_replaced_after_its_share(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    before = processes()
    rules = SandboxRules(seconds=30, memory_mib=1024, jobs=3, limits=ParseLimits())
    async with Sandbox.open(rules, processes=1) as sandbox:
        seen: list[set[int]] = []
        for _ in range(4):
            await sandbox.parse(path, "a.txt", "")
            seen.append(processes() - before)
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1
    assert seen[2] == set()
    assert seen[3]
    assert seen[3] != seen[0]
    assert processes() <= before


async def test_a_crash_is_an_answer_after_a_second_try(sandbox: Sandbox, hostile: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(
        hostile,
        f"import os, sys\nopen({str(log)!r}, 'a').write('started\\n')\nsys.stdin.readline()\n"
        "os.kill(os.getpid(), 11)\n",
    )
    with pytest.raises(IngestError) as caught:
        await sandbox.parse(tmp_path, "a.pdf", "")
    assert caught.value.code is IngestCode.CORRUPT
    assert log.read_text() == "started\n" * 2


async def test_a_file_that_takes_too_long_is_given_up_and_its_process_ended(hostile: Path, tmp_path: Path) -> None:
    write(hostile, "import sys\nsys.stdin.readline()\nwhile True: pass\n")
    before = processes()
    rules = SandboxRules(seconds=0.5, memory_mib=1024, jobs=3, limits=ParseLimits())
    async with Sandbox.open(rules, processes=1) as sandbox:
        with pytest.raises(IngestError) as caught:
            await sandbox.parse(tmp_path, "a.pdf", "")
        assert caught.value.code is IngestCode.TIMEOUT
        assert processes() <= before


async def test_an_answer_that_claims_to_be_endless_is_cut_by_the_clock(hostile: Path, tmp_path: Path) -> None:
    write(
        hostile,
        "import sys\nsys.stdin.readline()\nout = sys.stdout.buffer\n"
        "out.write(b'\\xff' * 9)\nout.flush()\nsys.stdin.read()\n",
    )
    rules = SandboxRules(seconds=0.5, memory_mib=1024, jobs=3, limits=ParseLimits())
    async with Sandbox.open(rules, processes=1) as sandbox:
        with pytest.raises(IngestError) as caught:
            await sandbox.parse(tmp_path, "a.pdf", "")
        assert caught.value.code in {IngestCode.TIMEOUT, IngestCode.CORRUPT}


async def test_a_cancelled_reading_leaves_no_process(hostile: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    write(hostile, f"import sys\nsys.stdin.readline()\nopen({str(started)!r}, 'w').close()\nsys.stdin.read()\n")
    before = processes()
    async with Sandbox.open(RULES, processes=1) as sandbox:
        reading = asyncio.create_task(sandbox.parse(tmp_path, "a.pdf", ""))
        async with asyncio.timeout(20):
            while not started.exists():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert processes() <= before


async def test_the_process_is_told_nothing_of_the_workers_environment(
    sandbox: Sandbox, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITEWIRE_WORKER_DSN", "postgresql://secret")
    seen = tmp_path / "seen"
    write(hostile, f"import os, sys, json\nopen({str(seen)!r}, 'w').write(json.dumps(dict(os.environ)))\n")
    with pytest.raises(IngestError):
        await sandbox.parse(tmp_path, "a.pdf", "")
    assert "CITEWIRE_WORKER_DSN" not in json.loads(seen.read_text())


async def test_memory_is_bounded(tmp_path: Path) -> None:
    # Rows of many columns become far more text than the file holds.
    path = write(tmp_path / "a.csv", ",".join("c" * 190 for _ in range(400)) + "\n" + ("1," * 399 + "1\n") * 5000)
    rules = SandboxRules(seconds=60, memory_mib=400, jobs=3, limits=ParseLimits(max_chars=10**10))
    async with Sandbox.open(rules, processes=1) as sandbox:
        with pytest.raises(IngestError) as caught:
            await sandbox.parse(path, "a.csv", "")
        assert caught.value.code in {IngestCode.TOO_LARGE, IngestCode.CORRUPT}
        assert "memory" in caught.value.message
        assert (await sandbox.parse(write(tmp_path / "b.txt", "fine"), "b.txt", "")).text == "fine"


def test_documents_survive_the_wire() -> None:
    inner = Block(BlockKind.PARAGRAPH, 1, 2, place=Place(page=1, row=2, start_line=3, end_line=4))
    document = ParsedDocument(
        Format.PDF, "application/pdf", "abc", (Block(BlockKind.LIST, 0, 3, text="t", children=(inner,)),), "T", 3, True
    )
    values = json.loads(json.dumps(encode_document(document)))
    assert decode_document(values) == document


def test_what_postgres_cannot_store_does_not_pass_the_wire() -> None:
    block = Block(BlockKind.ROW, 0, 3, label="a\0b", text="x\0y")
    values = encode_document(ParsedDocument(Format.TEXT, "text/plain", "a\0b", (block,), "t\0"))
    document = decode_document(values)
    assert document.text == "a b"
    assert "\0" not in f"{document.title}{document.blocks[0].label}{document.blocks[0].text}"


def test_the_test_process_has_no_children_left() -> None:
    assert not [
        child for child in psutil.Process(os.getpid()).children() if "parse_process" in " ".join(child.cmdline())
    ]


async def test_mutilated_files_are_read_or_refused_but_never_our_defect(sandbox: Sandbox, tmp_path: Path) -> None:
    whole: list[tuple[str, bytes]] = [
        ("a.pdf", make_pdf([prose_page("Title", [["Some text (in brackets)."] * 5])] * 3, outline=[("Title", 0)] * 3)),
        ("a.md", MARKDOWN.encode() * 5),
        ("a.html", b"<html><h1>T</h1><table><tr><th>a<th>b<tr><td>1<td>2</table><ul><li>x<li>y</ul>" * 5),
        ("a.csv", b'a;b\n"x;1";2\n3;"y\nz"\n' * 5),
        ("a.ts", b"export class A {\n  f() { return `${1}`; }\n}\nfunction g() {}\n" * 5),
    ]
    choices = random.Random(7)
    for _ in range(60):
        name, data = choices.choice(whole)
        damaged = bytearray(data)
        for _ in range(choices.randint(1, 5)):
            place = choices.randrange(len(damaged))
            damaged[place : place + choices.randint(0, 30)] = choices.randbytes(choices.randint(0, 5))
        try:
            await sandbox.parse(write(tmp_path / name, bytes(damaged)), name, "")
        except IngestError as error:
            refused = error.code
        else:
            continue
        assert refused not in {IngestCode.INTERNAL, IngestCode.TIMEOUT}, damaged
