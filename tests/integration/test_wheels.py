"""The wheels of all members build, and work in an environment with nothing else from this repository."""

from __future__ import annotations

import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".uv" / "bin" / "uv"
MEMBERS = {
    tomllib.loads(path.read_text())["project"]["name"]: path.parent
    for pattern in ("protos", "libs/*", "services/*", "gateway", "cli", "clients/*", "evaluation")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
}
RESERVED = {"citewire"}  # the stubs' namespace


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "--quiet", "--all-packages", "--wheel", "--out-dir", folder], cwd=ROOT, check=True)
    return sorted(folder.glob("*.whl"))


def test_every_member_is_a_wheel_with_our_prefix_and_the_same_version(wheels: list[Path]) -> None:
    names = [wheel.name.split("-")[0].replace("_", "-") for wheel in wheels]
    assert names == sorted(MEMBERS)
    assert len({wheel.name.split("-")[1] for wheel in wheels}) == 1
    assert all(name.startswith("citewire-") for name in names)
    assert RESERVED.isdisjoint(names)


def test_no_two_wheels_contain_the_same_file(wheels: list[Path]) -> None:
    files = [name for wheel in wheels for name in zipfile.ZipFile(wheel).namelist()]
    assert len(files) == len(set(files))
    assert {name.split("/")[0] for name in files if ".dist-info" not in name} == {
        "citewire" if name == "citewire-protos" else name.replace("-", "_") for name in MEMBERS
    }


def test_they_work_in_an_environment_of_their_own(wheels: list[Path], tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    exported = subprocess.run(
        [UV, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-workspace", "--no-hashes"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    (tmp_path / "locked.txt").write_bytes(exported.stdout)
    # The workspace's pyproject.toml lists what is left out, and why.
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["override-dependencies"]
    (tmp_path / "overrides.txt").write_text("\n".join(overrides))
    subprocess.run(
        [UV, "venv", "--quiet", "--python", ROOT / ".venv" / "bin" / "python", tmp_path / "venv"], check=True
    )
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--python", python, "--constraint", "locked.txt",
         "--overrides", "overrides.txt", *wheels],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    modules = [name.replace("-", "_") for name in MEMBERS if name != "citewire-protos"]
    imports = "\n".join(f"import {module}" for module in modules)
    mains = "\n".join(f"import {module}.__main__" for module in modules if (_source(module) / "__main__.py").exists())
    code = f"{imports}\n{mains}\nprint({modules[0]}.__file__)"
    done = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
    shown = subprocess.run([python.with_name("citewire"), "--help"], cwd=tmp_path, capture_output=True, check=True)
    assert b"ingest" in shown.stdout


def _source(module: str) -> Path:
    return MEMBERS[module.replace("_", "-")] / "src" / module
