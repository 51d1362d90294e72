"""How the local stack is found: by CITEWIRE_URL, wherever its data is, or else by the data folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from citewire_cli.settings import DEFAULT_URL, ClientSettings, load_client_settings
from citewire_cli.stack.layout import FolderLock, Layout
from citewire_cli.stack.running import running_stack

URL = "http://127.0.0.1:18099"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Path]:
    """The data folder of a running stack, as `up` writes it, relative to the gateway's working directory."""
    layout = Layout(tmp_path / "one" / "data")
    layout.create()
    package = tmp_path / "packages" / "citewire_gateway"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys\nprint('runs', flush=True)\nsys.stdin.read()\n")
    environ = {**os.environ, "PYTHONPATH": str(package.parent), "CITEWIRE_DATA_DIR": "data"}
    command = [sys.executable, "-m", "citewire_gateway"]
    with FolderLock(layout):
        layout.write_run({"url": URL, "processes": {"gateway": {"metrics_port": 1}}})
        with subprocess.Popen(
            command, cwd=tmp_path / "one", env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as gateway:
            assert gateway.stdout is not None
            assert gateway.stdout.readline() == b"runs\n"
            yield layout.data_dir
            gateway.communicate()


def test_a_stack_is_found_by_its_address_from_any_folder(stack: Path, tmp_path: Path) -> None:
    state = running_stack(ClientSettings(URL, None, tmp_path / "elsewhere"))
    assert state is not None
    assert state["processes"] == {"gateway": {"metrics_port": 1}}
    assert running_stack(ClientSettings(URL, None, stack)) == state
    assert running_stack(ClientSettings("http://127.0.0.1:18098", None, stack)) is None
    assert running_stack(ClientSettings("https://citewire.example.com", None, stack)) is None


def test_the_stack_of_the_data_folder_is_the_default(stack: Path) -> None:
    assert load_client_settings({"CITEWIRE_DATA_DIR": str(stack)}).url == URL
    given = {"CITEWIRE_DATA_DIR": str(stack), "CITEWIRE_URL": "http://127.0.0.1:1"}
    assert load_client_settings(given).url == "http://127.0.0.1:1"
    assert load_client_settings({"CITEWIRE_DATA_DIR": str(stack)}, url="http://127.0.0.1:2").url == "http://127.0.0.1:2"


def test_a_run_file_without_a_lock_is_ignored(tmp_path: Path) -> None:
    Layout(tmp_path).write_run({"url": URL})
    assert load_client_settings({"CITEWIRE_DATA_DIR": str(tmp_path)}).url == DEFAULT_URL
