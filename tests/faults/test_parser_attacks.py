"""An attacker who has taken over the process that reads a file can do nothing.

Each attack runs in a real process of the fork server in place of the parser. As a control, the same attack runs in
such a process without confinement, and succeeds there: so it is the confinement that stops it in the other.
"""

import asyncio
import ctypes
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from PIL import Image

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.recognition import Recogniser
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.tabular import TableQueryError
from databases import HasDsn
from planted_parser import plant
from proof_scale import PrintTable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the confinement is Linux's")

SECRET = "postgresql://citewire_worker@127.0.0.1/secret"
RULES = SandboxRules(
    seconds=120,
    cpu_seconds=5,
    cpu_seconds_per_mib=0,
    memory_mib=1024,
    files=1000,
    limits=ParseLimits(max_chars=1_000_000),
    confinement="available",
)
SUPPORT = Path(__file__).resolve().parents[1] / "support"
ATTACKS = f"""
import sys
sys.path.append({str(SUPPORT)!r})
import parser_attacks


def planted(data, *_):
    return say(parser_attacks.attack(data[:]))
"""
COMPUTING = f"""
import sys
sys.path.append({str(SUPPORT)!r})
import parser_attacks
from citewire_retriever.ingest.tabular import TableQueryError, answer


def planted(*_):
    return say("")


def read_tables(data, *_):
    raise TableQueryError("", "got: " + parser_attacks.attack(data[:]).replace("\\0", " "))


answer.read_tables = read_tables
"""
"""Replaces the function that reads tables, which runs beside an open database."""
RECOGNISING = f"""
import os, sys
sys.path.append({str(SUPPORT)!r})
import parser_attacks
from citewire_retriever.ingest.errors import IngestCode, IngestError


def planted(*_):
    raise IngestError(IngestCode.NO_TEXT, "Only pictures.")


def run_program(*_):
    # The page's pixels encode the attack; its loot is returned in the table of words.
    loot = parser_attacks.attack(os.read(0, 65_536).partition(b" 255\\n")[2])
    os.write(1, ("5\\t1" + "\\t1" * 3 + "\\t1" + "\\t0" * 4 + "\\t99\\t" + loot).encode())
    os._exit(0)


server.run_program = run_program
"""
"""Replaces Tesseract."""
UNLOCKED = "\nserver.lock_in = lambda limits, program=None: []\nserver._try_locks = lambda: []\n"

IDLE_RECOGNISER = Recogniser(
    executables=("/bin/true",),
    libraries=("/etc/ld.so.cache",),
    folder="/usr/share/doc",
    languages=("eng",),
    finds_orientation=False,
    cpu_seconds=5,
    most_pages=10,
)
"""Files that the confinement permits to Tesseract. The attacks don't need them, as their Python is already loaded."""

LOOTING = (
    "parents_environment",
    "workers_environment",
    "workers_memory",
    "memory_by_proc",
    "write_memory",
    "write_memory_by_proc",
    "tcp",
    "udp",
    "unix_socket",
    "postgres_socket",
    "abstract_socket",
    "listen",
    "siblings_file",
    "etc_passwd",
    "list_folder",
    "file_status",
    "write_file",
    "fill_disk",
    "memory_file",
    "fork",
    "execute",
    "thread",
    "executable_memory",
    "trace",
    "signal_parent",
    "signal_worker",
    "signal_thread",
    "signal_by_descriptor",
    "steal_descriptor",
    "raise_limit",
    "io_uring",
    "user_namespace",
)
"""Attacks that succeed without confinement."""

PRIVILEGED = (
    "bpf",
    "mount",
    "keyring",
    "fault_handler",
    "set_namespace",
    "open_by_handle",
    "performance_events",
    "module",
)
"""Attacks that need more than a user's rights, or certain kernels: we only test that they fail under confinement."""


@dataclass(slots=True)
class Prey:
    """The targets of the attacks."""

    folder: Path
    buffer: ctypes.Array[ctypes.c_char]
    listener: socket.socket
    datagrams: socket.socket
    unix: socket.socket
    abstract: socket.socket
    postgres: str
    job: dict[str, object]

    def damage(self) -> list[str]:
        """Returns an attack's effects, as seen from outside."""
        marks: list[str] = []
        if self.buffer.value != SECRET.encode():
            marks.append("memory was written")
        for name in ("listener", "unix", "abstract"):
            try:
                getattr(self, name).accept()[0].close()
            except BlockingIOError:
                continue
            marks.append(f"{name} was reached")
        try:
            self.datagrams.recv(10)
        except BlockingIOError:
            pass
        else:
            marks.append("a datagram came")
        if (self.folder / "written").exists() or (self.folder / "executed").exists():
            marks.append("a file was written")
        return marks


@pytest.fixture
def prey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: HasDsn) -> Iterator[Prey]:
    monkeypatch.setenv("CITEWIRE_WORKER_DSN", SECRET)
    (tmp_path / "sibling").write_text(SECRET)
    listener, datagrams = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    # A short path: pytest's may be too long for a socket's address.
    with tempfile.TemporaryDirectory() as folder:
        unix.bind(f"{folder}/s")
        abstract.bind(f"\0{tmp_path.name}{os.getpid()}")
        for endpoint in (unix, abstract):
            endpoint.listen()
        for endpoint in (listener, datagrams, unix, abstract):
            endpoint.setblocking(False)
        buffer = ctypes.create_string_buffer(SECRET.encode())
        postgres = database.dsn("postgres")
        job: dict[str, object] = {
            "worker": os.getpid(),
            "thread": threading.get_native_id(),
            "address": ctypes.addressof(buffer),
            "length": len(SECRET),
            "folder": str(tmp_path),
            "tcp": listener.getsockname()[1],
            "udp": datagrams.getsockname()[1],
            "unix": f"{folder}/s",
            "abstract": f"{tmp_path.name}{os.getpid()}",
            "postgres": postgres,
        }
        try:
            yield Prey(tmp_path, buffer, listener, datagrams, unix, abstract, postgres, job)
        finally:
            for endpoint in (listener, datagrams, unix, abstract):
                endpoint.close()


async def attack(sandbox: Sandbox, prey: Prey, name: str, *, as_picture: bool = False) -> str:
    """Runs an attack and returns its loot; "" if it got nothing."""
    path = prey.folder / "job"
    job = json.dumps({**prey.job, "attack": name})
    if as_picture:
        Image.frombytes("L", (len(job), 1), job.encode()).save(path, "PNG")
    else:
        path.write_text(job)
    try:
        document = await sandbox.parse(path, "a.txt", "")
    except IngestError:
        return ""
    return document.text


@pytest.fixture
async def confined_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    plant(monkeypatch, tmp_path, ATTACKS)
    async with Sandbox.open(RULES, processes=1) as sandbox:
        yield sandbox


async def test_a_confined_parser_gets_nothing(confined_sandbox: Sandbox, prey: Prey, print_table: PrintTable) -> None:
    got: dict[str, str] = {}
    for name in (*LOOTING, *PRIVILEGED, "descriptors"):
        got[name] = await attack(confined_sandbox, prey, name)
        got[name] += ", ".join(prey.damage())
    print_table("attacks from inside of the parser", ["attack", "gets"], [[name, got[name] or "–"] for name in got])
    assert {name: loot for name, loot in got.items() if loot} == {}


async def query_attack(sandbox: Sandbox, prey: Prey, name: str) -> str:
    """Runs an attack in a process that queries tables and returns its loot; "" if it got nothing."""
    path = prey.folder / "job"
    path.write_text(json.dumps({**prey.job, "attack": name}))
    try:
        await sandbox.list_tables(path, "a.csv", "")
    except TableQueryError as error:
        return error.message.removeprefix("got: ")
    except IngestError:
        return ""
    return "an answer"


async def test_a_confined_table_reader_gets_nothing(
    prey: Prey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, print_table: PrintTable
) -> None:
    plant(monkeypatch, tmp_path, COMPUTING)
    got: dict[str, str] = {}
    async with Sandbox.open(replace(RULES, tables=True, memory_mib=2048), processes=1) as sandbox:
        for name in (*LOOTING, *PRIVILEGED, "descriptors"):
            got[name] = await query_attack(sandbox, prey, name) + ", ".join(prey.damage())
    print_table("attacks beside an open database", ["attack", "gets"], [[name, got[name] or "–"] for name in got])
    assert {name: loot for name, loot in got.items() if loot} == {}


async def test_the_same_attacks_beside_a_database_succeed_without_confinement(
    prey: Prey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, tmp_path, COMPUTING + UNLOCKED)
    async with Sandbox.open(replace(RULES, tables=True, memory_mib=2048), processes=1) as sandbox:
        got = {name: await query_attack(sandbox, prey, name) for name in LOOTING}
    got["execute"] += "a file was written" if (tmp_path / "executed").exists() else ""
    assert [name for name, loot in got.items() if not loot] == []


FOR_ITS_LIBRARIES = {"executable_memory", "file_status"}
"""Permitted to a program that loads libraries, see `confined.calls`; neither lets it write or open files."""


async def test_a_confined_recogniser_gets_nothing(
    prey: Prey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, print_table: PrintTable
) -> None:
    plant(monkeypatch, tmp_path, RECOGNISING)
    got: dict[str, str] = {}
    async with Sandbox.open(replace(RULES, recogniser=IDLE_RECOGNISER), processes=1) as sandbox:
        assert await attack(sandbox, prey, "nothing", as_picture=True) == "read"
        for name in sorted({*LOOTING, *PRIVILEGED} - FOR_ITS_LIBRARIES):
            got[name] = await attack(sandbox, prey, name, as_picture=True) + ", ".join(prey.damage())
    print_table("attacks from inside of the recogniser", ["attack", "gets"], [[name, got[name] or "–"] for name in got])
    assert {name: loot for name, loot in got.items() if loot} == {}


async def test_the_same_attacks_by_a_recogniser_succeed_without_confinement(
    prey: Prey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, tmp_path, RECOGNISING + UNLOCKED)
    async with Sandbox.open(replace(RULES, recogniser=IDLE_RECOGNISER), processes=1) as sandbox:
        got = {name: await attack(sandbox, prey, name, as_picture=True) for name in LOOTING}
    got["execute"] += "a file was written" if (tmp_path / "executed").exists() else ""
    assert [name for name, loot in got.items() if not loot] == []


async def test_the_same_attacks_succeed_without_confinement(
    prey: Prey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, tmp_path, ATTACKS + UNLOCKED)
    async with Sandbox.open(RULES, processes=1) as sandbox:
        got = {name: await attack(sandbox, prey, name) for name in LOOTING}
    assert [name for name, loot in got.items() if not loot] == []
    assert len(prey.damage()) >= 5


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("compute", IngestCode.TIMEOUT, "1 seconds of CPU time"),
        ("compute_and_catch_the_signal", IngestCode.TIMEOUT, "1 seconds of CPU time"),
        ("fill_memory", IngestCode.TOO_LARGE, "memory"),
        ("write_without_end", IngestCode.CORRUPT, "can't be read"),
        ("claim_a_huge_answer", IngestCode.TOO_LARGE, "more text"),
        ("execute", IngestCode.CORRUPT, "something that no document needs"),
    ],
)
async def test_each_failure_has_its_reason_and_the_next_file_is_read(
    name: str, code: IngestCode, words: str, prey: Prey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, tmp_path, ATTACKS)
    path = tmp_path / "job"
    path.write_text(json.dumps({**prey.job, "attack": name}))
    before = psutil.Process().memory_info().rss
    rules = replace(RULES, cpu_seconds=1 if "comput" in name else 15)
    async with Sandbox.open(rules, processes=1) as sandbox:
        with pytest.raises(IngestError, match=words) as caught:
            await sandbox.parse(path, "a.txt", "")
        assert caught.value.code is code
        path.write_text(json.dumps({**prey.job, "attack": "nothing"}))
        assert (await sandbox.parse(path, "a.txt", "")).text == "read"
    assert psutil.Process().memory_info().rss - before < 100 * 1024 * 1024


async def test_the_fork_server_hides_from_processes_of_its_user(confined_sandbox: Sandbox, prey: Prey) -> None:
    """It isn't dumpable: without a capability, not even its own user can inspect it."""
    (server,) = [child for child in psutil.Process().children() if "planted.py" in " ".join(child.cmdline())]
    for path in (f"/proc/{server.pid}/environ", f"/proc/{server.pid}/mem"):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            # Drops all capabilities (capset with empty sets), then inspects the server.
            "import ctypes, struct, sys\n"
            "assert ctypes.CDLL(None).capset(struct.pack('II', 0x20080522, 0), bytes(24)) == 0\n"
            f"open({path!r}, 'rb').read(0)\n"
            f"print('read')\n",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
        assert b"read" not in out
        assert b"PermissionError" in errors
