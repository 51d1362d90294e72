"""The data folder: its lock, its run file, and a socket whose path is short enough."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from citewire_cli.errors import CliError
from citewire_cli.stack.layout import SOCKET_NAME, FolderLock, Layout, socket_folder
from citewire_cli.stack.ports import PORTS
from citewire_cli.stack.postgres import Postgres
from citewire_cli.stack.spec import StackSpec
from citewire_remote.sealing import Keyring

ME = {os.getuid()}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "data")
    layout.create()
    return layout


def test_a_second_up_reports_who_holds_the_folder(layout: Layout) -> None:
    with FolderLock(layout):
        layout.write_run({"pid": 4711, "url": "http://127.0.0.1:8080"})
        with pytest.raises(CliError) as caught, FolderLock(layout):
            pass
    text = str(caught.value)
    assert "already running on this folder" in text
    assert f"{layout.data_dir} is used by process 4711, at http://127.0.0.1:8080" in text
    assert "kill 4711" in text
    assert "CITEWIRE_DATA_DIR" in text


def test_lock_of_a_killed_process_is_gone(layout: Layout) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from citewire_cli.stack.layout import FolderLock, Layout\n"
        "with FolderLock(Layout(pathlib.Path(sys.argv[1]))):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(layout.data_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert layout.is_locked()
        holder.kill()
        holder.wait(10)
    assert not layout.is_locked()
    with FolderLock(layout):
        assert layout.is_locked()


def test_run_file_counts_only_while_the_folder_is_held(layout: Layout) -> None:
    assert layout.read_run() is None
    layout.write_run({"pid": 1})
    assert layout.read_run() is None
    with FolderLock(layout):
        assert layout.read_run() == {"pid": 1}
        layout.run_file.write_text(json.dumps([]))
        assert layout.read_run() is None


def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match="CITEWIRE_DATA_DIR"):
        Layout(tmp_path / "file" / "data").create()


def test_socket_lies_in_the_data_folder(layout: Layout) -> None:
    folder = socket_folder(layout, ME)
    assert folder == layout.data_dir / "run"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []
    assert socket_folder(layout, ME) == folder


def test_deep_data_folder_gets_a_short_socket_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    folders: list[Path] = []
    for name in ("a", "b"):
        layout = Layout(tmp_path / ("x" * 60) / ("y" * 60) / name)
        layout.create()
        folders.append(socket_folder(layout, ME))
        assert socket_folder(layout, ME) == folders[-1]
    try:
        assert len(set(folders)) == 2
        for folder in folders:
            assert len(os.fsencode(folder / SOCKET_NAME)) <= 107
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        for folder in folders:
            folder.rmdir()


def test_socket_folder_that_others_own_or_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    layout = Layout(tmp_path / ("x" * 120))
    layout.create()
    runtime = Path(tempfile.mkdtemp(prefix="cw"))  # pytest's folders can be too deep for a socket
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    request.addfinalizer(lambda: shutil.rmtree(runtime))
    folder = socket_folder(layout, ME)
    assert folder.parent == runtime
    folder.chmod(0o777)
    fallback = socket_folder(layout, ME)
    try:
        assert fallback.parent == Path("/tmp")  # noqa: S108 # the folder is what is tested
        assert fallback.stat().st_uid == os.getuid()
        folder.chmod(0o700)
        with pytest.raises(CliError, match="No place"):
            socket_folder(layout, {os.getuid() + 1})
    finally:
        fallback.rmdir()


def test_the_master_key_is_made_once_and_readable_only_by_us(layout: Layout) -> None:
    layout.make_master_key()
    made = layout.master_keys.read_text()
    assert Keyring.parse(made).ids
    assert stat.S_IMODE(layout.master_keys.stat().st_mode) == 0o600
    layout.make_master_key()
    assert layout.master_keys.read_text() == made
    assert sorted(path.name for path in layout.data_dir.glob("master-keys*")) == ["master-keys"]


async def test_only_processes_that_call_providers_get_the_master_keys(layout: Layout) -> None:
    environ = {"CITEWIRE_MASTER_KEYS": "", "PATH": ""}
    ports = {spec.variable: 1 for spec in PORTS}
    postgres = Postgres(layout, Path("/bin"), layout.data_dir, None, search_anywhere=False)
    async with httpx.AsyncClient() as http:
        spec = StackSpec(postgres, ports, environ, http, layout.master_keys, layout.callers)
        for name in ("embedder", "generator"):
            assert spec.service(name).environ["CITEWIRE_MASTER_KEYS_FILE"] == str(layout.master_keys)
        for name in ("gateway", "retriever", "worker"):
            assert not any("MASTER" in key for key in spec.service(name).environ)
        own = replace(spec, environ={"CITEWIRE_MASTER_KEYS": "k1:…"})
        assert "CITEWIRE_MASTER_KEYS_FILE" not in own.service("embedder").environ
        assert "CITEWIRE_MASTER_KEYS" not in own.service("gateway").environ
        assert spec.service("generator").environ["CITEWIRE_SEALED_APART"] == "true"
        several = replace(spec, environ={"CITEWIRE_AUTH": "keys"})
        assert "CITEWIRE_SEALED_APART" not in several.service("generator").environ
