"""Each file is read in a separate process: whatever it does to that, the worker goes on."""

import asyncio
import contextlib
import json
import os
import random
import signal
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from citewire.common.v1.place_pb2 import Place

from citewire_kit.errors import Internal, StartupError
from citewire_retriever.ingest import fork_server
from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.confined.calls import ALLOWED, FATAL, MACHINES, MAPPING, REFUSED, SIGNAL_ITSELF
from citewire_retriever.ingest.confined.filters import filter_code
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.fork_server import ServerLostError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from citewire_retriever.ingest.parsers.samples import FILES
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.wire import decode_boxes, decode_document, encode_document
from hostile_files import HOSTILE
from ingest_files import make_pdf, prose_page
from planted_parser import plant
from waiting import BUSY_SECONDS

RULES = SandboxRules(
    seconds=300,
    cpu_seconds=20,
    cpu_seconds_per_mib=10,
    memory_mib=1024,
    files=1000,
    limits=ParseLimits(),
    confinement="available",
)
MARKDOWN = "# Größe 🙂\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n"
LIMITS = ParseLimits()


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox.open(RULES, processes=2) as opened:
        yield opened


OTHERS: set[int] = set()
"""Processes of other tests of the same run that still run: a database, a stack."""


@pytest.fixture(autouse=True)
def others() -> None:
    OTHERS.clear()
    OTHERS.update(child.pid for child in psutil.Process().children())


def servers() -> list[psutil.Process]:
    """The fork server, if it runs."""
    return [child for child in psutil.Process().children() if child.pid not in OTHERS]


def processes() -> set[int]:
    """The fork server and its children."""
    pids: set[int] = set()
    for server in servers():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end meanwhile
            pids |= {server.pid, *(child.pid for child in server.children(recursive=True))}
    return pids


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


async def test_a_document_comes_back_unchanged(sandbox: Sandbox, tmp_path: Path) -> None:
    for name, data in (
        ("a.md", MARKDOWN),
        ("a.pdf", make_pdf([prose_page("T", [["Some text."]])])),
        ("a.py", "def f(): 1"),
    ):
        path = write(tmp_path / name, data)
        assert await sandbox.parse(path, name, "") == parse(path.read_bytes(), name)


async def test_progress_by_page_is_reported(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fork_server, "_TELL_SECONDS", 0)
    path = write(tmp_path / "a.pdf", make_pdf([prose_page(f"Page {number}", [["Text."]]) for number in range(40)]))
    progress: list[tuple[int, int]] = []

    async def told(done: int, total: int) -> None:
        progress.append((done, total))

    assert (await sandbox.parse(path, "a.pdf", "", told=told)).pages == 40
    assert progress == [(0, 40), (16, 40), (32, 40)]
    monkeypatch.setattr(fork_server, "_TELL_SECONDS", 3600)
    await sandbox.parse(path, "a.pdf", "", told=told)
    assert progress[3:] == [(0, 40)]


async def test_a_process_can_report_only_limited_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path, "def planted(*_):\n    import os\n    while True: os.write(3, b'\\xff' * 8)")
    progress: list[tuple[int, int]] = []

    async def told(done: int, total: int) -> None:
        progress.append((done, total))

    async with Sandbox.open(replace(RULES, limits=replace(LIMITS, max_pages=3)), processes=1) as sandbox:
        with pytest.raises(IngestError) as caught:
            await sandbox.parse(write(tmp_path / "a.txt", "text"), "a.txt", "", told=told)
    assert caught.value.code is IngestCode.TOO_LARGE
    assert progress == [(2**31 - 1, 2**31 - 1)], "values too large for the store are never reported"


async def test_reporting_progress_does_not_count_as_reading_time() -> None:
    async with asyncio.timeout(BUSY_SECONDS) as limit:
        before = limit.when() or 0.0

        async def told(_done: int, _total: int) -> None:
            assert limit.when() is None
            await asyncio.sleep(0.01)

        await fork_server.now_and_then(told, limit)(1, 2)
        assert (limit.when() or 0.0) >= before + 0.01


async def test_errors_come_back_with_their_code_and_message(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        await sandbox.parse(write(tmp_path / "a.pdf", "text"), "a.pdf", "")
    assert (caught.value.code, "isn't a PDF" in caught.value.message) == (IngestCode.CORRUPT, True)


async def test_each_file_has_its_own_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(
        monkeypatch,
        tmp_path,
        "seen = []\ndef planted(data, *_):\n    import os\n    seen.append(data)\n"
        "    return say(f'{os.getpid()} {len(seen)}')",
    )
    path = write(tmp_path / "a.txt", "text")
    async with Sandbox.open(RULES, processes=1) as sandbox:
        results = [(await sandbox.parse(path, "a.txt", "")).text.split() for _ in range(3)]
        assert len(processes()) == 1
    assert len({pid for pid, _ in results}) == 3
    assert {count for _, count in results} == {"1"}


def outcome(data: bytes, file_name: str) -> object:
    try:
        document = parse(data, file_name)
    except IngestError as error:
        return error.code
    return document.text, len(document.blocks), document.title


async def test_everything_that_parsers_need_is_preloaded(sandbox: Sandbox, tmp_path: Path) -> None:
    for file_name, data in [*FILES.items(), *(make(3000) for make in HOSTILE.values())]:
        expected = outcome(data, file_name)
        try:
            document = await sandbox.parse(write(tmp_path / "file", data), file_name, "")
        except IngestError as error:
            result: object = error.code
        else:
            result = document.text, len(document.blocks), document.title
        assert result == expected, data[:50]


async def test_a_rare_encoding_is_read_without_opening_its_codec(sandbox: Sandbox, tmp_path: Path) -> None:
    for encoding in ("shift_jis", "gb18030", "big5", "euc_kr", "koi8_r", "cp1250", "iso8859_7"):
        text = "日本語の文章。这是中文的文章。Ελληνικά και άλλα. Příliš žluťoučký. 한국어 문장. Русский текст. "
        data = (text * 40).encode(encoding, errors="ignore")
        assert (await sandbox.parse(write(tmp_path / "a.txt", data), "a.txt", "")).text == parse(data, "a.txt").text


async def test_the_fork_server_is_replaced_after_a_number_of_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    before = processes()
    async with Sandbox.open(replace(RULES, files=2), processes=1) as sandbox:
        seen: list[set[int]] = []
        for _ in range(3):
            await sandbox.parse(path, "a.txt", "")
            seen.append(processes() - before)
    assert seen[0] == seen[1]
    assert seen[2] != seen[1]
    assert [len(pids) for pids in seen] == [1, 1, 1]
    assert processes() <= before


async def priorities(reading: asyncio.Task[ParsedDocument]) -> set[int]:
    """Returns the niceness, relative to this process, of the processes that read a file, until it is read."""
    seen: set[int] = set()
    mine = psutil.Process().nice()
    while not reading.done():
        for server in servers():
            with contextlib.suppress(psutil.NoSuchProcess):
                seen |= {int(child.nice()) - int(mine) for child in server.children()}
        await asyncio.sleep(0.01)
    return seen


async def test_a_short_file_is_read_with_full_priority_and_a_long_one_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(
        monkeypatch,
        tmp_path,
        "def planted(data, *_):\n    import time\n    time.sleep(float(data))\n    return say('')",
    )
    async with Sandbox.open(RULES, processes=1) as sandbox:

        async def read(seconds: str) -> set[int]:
            path = write(tmp_path / "a.txt", seconds)
            return await priorities(asyncio.create_task(sandbox.parse(path, "a.txt", "")))

        assert await read("0.6") == {0, 5}
        # On a busy machine, a short file may take long.
        assert any([await read("0.05") == {0} for _ in range(5)])


async def test_a_crash_is_reported_as_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path, "def planted(*_):\n    import ctypes\n    ctypes.string_at(1)")
    path = write(tmp_path / "a.txt", "text")
    async with Sandbox.open(RULES, processes=1) as sandbox:
        with pytest.raises(IngestError, match="crashes the reader") as caught:
            await sandbox.parse(path, "a.txt", "")
        assert caught.value.code is IngestCode.CORRUPT


@pytest.mark.parametrize(
    "answer",
    ["{}", "[]", '{"document":{}}', '{"error":{"code":"?","message":1}}', "[" * 50_000, '{"document":' + "9" * 50],
)
async def test_an_invalid_answer_of_the_process_is_blamed_on_the_file(
    answer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(
        monkeypatch,
        tmp_path,
        f"def planted(*_):\n    import os\n    data = {answer!r}.encode()\n"
        "    os.write(3, len(data).to_bytes(8, 'big') + data)\n    os._exit(0)",
    )
    async with Sandbox.open(RULES, processes=1) as sandbox:
        with pytest.raises(IngestError) as caught:
            await sandbox.parse(write(tmp_path / "a.txt", "text"), "a.txt", "")
        assert caught.value.code is IngestCode.CORRUPT


async def test_a_file_that_takes_too_long_is_given_up_and_its_process_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch, tmp_path, "def planted(*_):\n    import time\n    time.sleep(60)")
    path = write(tmp_path / "a.txt", "text")
    async with Sandbox.open(replace(RULES, seconds=0.5), processes=1) as sandbox:
        with pytest.raises(IngestError, match="longer than 0 seconds") as caught:
            await sandbox.parse(path, "a.txt", "")
        assert caught.value.code is IngestCode.TIMEOUT
        assert len(processes()) == 1


def test_the_cpu_budget_grows_with_the_file() -> None:
    mib = 1024 * 1024
    rules = replace(RULES, seconds=300, cpu_seconds=30, cpu_seconds_per_mib=10)
    assert [rules.cpu_budget(size) for size in (0, mib, 2 * mib, 11 * mib, 256 * mib)] == [30, 30, 40, 130, 300]


async def test_a_file_over_the_cpu_budget_names_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path, "def planted(*_):\n    while True: pass")
    async with Sandbox.open(replace(RULES, cpu_seconds=1), processes=1) as sandbox:
        with pytest.raises(IngestError, match=r"more than 1 seconds of CPU time.*file of 0\.1 MiB") as caught:
            await sandbox.parse(write(tmp_path / "a.txt", "text"), "a.txt", "")
    assert caught.value.code is IngestCode.TIMEOUT


async def test_cancelling_leaves_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, tmp_path, "def planted(*_):\n    import time\n    time.sleep(60)")
    path = write(tmp_path / "a.txt", "text")
    async with Sandbox.open(RULES, processes=1) as sandbox:
        reading = asyncio.create_task(sandbox.parse(path, "a.txt", ""))
        async with asyncio.timeout(20):
            while len(processes()) < 2:  # noqa: ASYNC110 - another process forks it
                await asyncio.sleep(0.01)
        start = time.perf_counter()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert time.perf_counter() - start < BUSY_SECONDS
        assert len(processes()) == 1


async def test_a_server_that_dies_is_replaced_and_the_file_read_again(sandbox: Sandbox, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    for _ in range(2):
        (server,) = processes()
        os.kill(server, signal.SIGKILL)
        assert (await sandbox.parse(path, "a.txt", "")).text == "text"


async def test_a_fork_server_that_dies_while_reading_is_not_the_files_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file isn't blamed: the job is retried later."""
    plant(monkeypatch, tmp_path, "def planted(*_):\n    import time\n    time.sleep(60)")
    path = write(tmp_path / "a.txt", "text")
    async with Sandbox.open(RULES, processes=1) as sandbox:
        reading = asyncio.create_task(sandbox.parse(path, "a.txt", ""))
        for _ in range(2):
            async with asyncio.timeout(20):
                while len(processes()) < 2:  # noqa: ASYNC110 - another process forks it
                    await asyncio.sleep(0.01)
            os.kill(servers()[0].pid, signal.SIGKILL)
            async with asyncio.timeout(20):
                while len(processes()) > 1 and not reading.done():  # noqa: ASYNC110 - the kernel ends it
                    await asyncio.sleep(0.01)
        with pytest.raises(ServerLostError):
            await reading


async def test_the_process_gets_nothing_of_the_workers_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CITEWIRE_WORKER_DSN", "postgresql://secret")
    plant(monkeypatch, tmp_path, "def planted(*_):\n    import os\n    return say(repr(dict(os.environ)) + ' ')")
    async with Sandbox.open(RULES, processes=1) as sandbox:
        text = (await sandbox.parse(write(tmp_path / "a.txt", "text"), "a.txt", "")).text
    assert "CITEWIRE" not in text
    assert "secret" not in text


async def test_without_confinement_the_worker_starts_only_if_that_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(
        monkeypatch,
        tmp_path,
        "import citewire_retriever.ingest.confined.locks as locks\nlocks._landlock = lambda program: False\n"
        "def planted(*_):\n    return say('read')",
    )
    with pytest.raises(StartupError, match=r"has no Landlock.*CITEWIRE_WORKER_CONFINEMENT=available"):
        async with Sandbox.open(replace(RULES, confinement="required"), processes=1):
            pass
    async with Sandbox.open(RULES, processes=1) as sandbox:
        assert (await sandbox.parse(write(tmp_path / "a.txt", "text"), "a.txt", "")).text == "read"


async def test_a_process_that_cannot_confine_itself_reads_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(
        monkeypatch,
        tmp_path,
        "usual = server.lock_in\n"
        "def broken(limits):\n    if limits.cpu_seconds < 20: raise server.NotLockedError\n    return usual(limits)\n"
        "server.lock_in = broken\n"
        f"def planted(*_):\n    open({str(tmp_path / 'read')!r}, 'w')",
    )
    async with Sandbox.open(replace(RULES, cpu_seconds=15), processes=1) as sandbox:
        with pytest.raises(Internal, match="couldn't be confined"):
            await sandbox.parse(write(tmp_path / "a.txt", "text"), "a.txt", "")
    assert not (tmp_path / "read").exists()


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_decides_by_number_and_arguments(name: str) -> None:
    machine = MACHINES[name]
    code = filter_code(machine, 77)
    verdicts = {"allow": 0x7FFF0000, "kill": 0x80000000, "refuse": 0x5000D, "unknown": 0x50026}

    def decide(number: int | None, *arguments: int, audit: int = machine.audit) -> int:
        assert number is not None
        data = struct.pack("=IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
        place, value = 0, 0
        while True:
            what, true, false, constant = code[place]
            place += 1
            if what == 0x06:
                return constant
            if what == 0x20:
                (value,) = struct.unpack_from("=I", data, constant)
            else:
                outcome = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[what]
                place += true if outcome else false

    for table, verdict in ((ALLOWED, "allow"), (REFUSED, "refuse"), (FATAL, "kill")):
        for call, numbers in table.items():
            if numbers[machine.column] is not None:
                assert decide(numbers[machine.column]) == verdicts[verdict], call
                assert decide(numbers[machine.column], audit=0x40000003) == verdicts["kill"], "another machine's calls"
    for call, numbers in MAPPING.items():
        assert decide(numbers[machine.column], 0, 4096, 3) == verdicts["allow"], call
        assert decide(numbers[machine.column], 0, 4096, 5) == verdicts["refuse"], call
    assert decide(SIGNAL_ITSELF[machine.column], 77, 78, 6) == verdicts["allow"]
    assert decide(SIGNAL_ITSELF[machine.column], 76, 76, 6) == verdicts["refuse"]
    assert decide(9999) == verdicts["unknown"]
    tables = (ALLOWED, REFUSED, FATAL, MAPPING)
    given = [numbers[machine.column] for table in tables for numbers in table.values()]
    assert len(set(given) - {None}) == len(given) - given.count(None), "a number occurs twice"


async def test_memory_is_bounded(tmp_path: Path) -> None:
    # Rows of many columns become far more text than is in the file.
    path = write(tmp_path / "a.csv", ",".join("c" * 190 for _ in range(400)) + "\n" + ("1," * 399 + "1\n") * 5000)
    rules = replace(RULES, memory_mib=400, limits=ParseLimits(max_chars=10**9))
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
    assert decode_document(values, LIMITS) == document


WRONG: list[dict[str, object]] = [
    {"text": 7},
    {"text": "abc\0"},
    {"text": "a\ud800bc"},
    {"blocks": [["list", 1, 9, 0, "", {}, None, []]]},
    {"blocks": [["list", 2, 1, 0, "", {}, None, []]]},
    {"blocks": [["list", -1, 1, 0, "", {}, None, []]]},
    {"blocks": [["list", 1, 2, 0, "", {}, None, []], ["list", 0, 1, 0, "", {}, None, []]]},
    {"blocks": [["list", 0, 1, 0, "", {}, None, [["paragraph", 2, 3, 0, "", {}, None, []]]]]},
    {"blocks": [["list", 0, 1, 0, "", {"page": "x"}, None, []]]},
    {"blocks": [["list", 0, 1, 0, "", {"odd": 1}, None, []]]},
    {"blocks": [["odd", 0, 1, 0, "", {}, None, []]]},
    {"blocks": [["row", 0, 1, 0, "", {}, None, []]] * 9},
    {"blocks": [["row", 0, 0, 0, "x" * 50, {}, None, []]]},
    {"pages": "many"},
]


@pytest.mark.parametrize("changes", WRONG)
def test_answers_that_no_parser_gives_are_refused(changes: dict[str, object]) -> None:
    values = {**encode_document(ParsedDocument(Format.TEXT, "text/plain", "abc", ())), **changes}
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_document(values, ParseLimits(max_chars=10, max_blocks=4))


def test_text_that_postgres_cannot_store_is_refused() -> None:
    block = Block(BlockKind.ROW, 0, 3, label="a\0b", text="x\0y")
    values = encode_document(ParsedDocument(Format.TEXT, "text/plain", "a\0b", (block,), "t\0"))
    document = decode_document(values, LIMITS)
    assert document.text == "a b"
    assert "\0" not in f"{document.title}{document.blocks[0].label}{document.blocks[0].text}"


async def test_mutilated_files_are_read_or_refused_without_internal_errors(sandbox: Sandbox, tmp_path: Path) -> None:
    whole: list[tuple[str, bytes]] = [
        ("a.pdf", make_pdf([prose_page("Title", [["Some text (in brackets)."] * 5])] * 3, outline=[("Title", 0)] * 3)),
        ("a.md", MARKDOWN.encode() * 5),
        ("a.html", b"<html><h1>T</h1><table><tr><th>a<th>b<tr><td>1<td>2</table><ul><li>x<li>y</ul>" * 5),
        ("a.csv", b'a;b\n"x;1";2\n3;"y\nz"\n' * 5),
        ("a.msg", FILES["a.msg"]),
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


async def test_quotes_are_found_in_confinement(sandbox: Sandbox, tmp_path: Path) -> None:
    data = make_pdf([prose_page("T", [["Größe: some text."]])])
    sought = [SoughtText(1, "some text"), SoughtText(1, "Größe 🙂" * 1000)]
    assert await sandbox.find_boxes(write(tmp_path / "a.pdf", data), sought) == find_boxes(data, sought)
    with pytest.raises(IngestError) as caught:
        await sandbox.find_boxes(write(tmp_path / "b.pdf", b"%PDF-1.7"), sought)
    assert caught.value.code is IngestCode.CORRUPT


NO_LINES: list[object] = []


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        [[1, 2]],
        [[1, 2, [[1, 2, 3]]]],
        [[1, 2, [["a", 2, 3, 4]]]],
        [[1, float("nan"), NO_LINES]],
        [[1, 2, [[0] * 4] * 501]],
    ],
)
def test_malformed_boxes_are_refused(values: list[object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        decode_boxes(values, 1)
