"""Generates the Python stubs of every contract beside its .proto, or checks that the committed ones are current.

`_pb2.py` and `_pb2.pyi` are protoc's own; `_pb2_grpc.py` is gRPC's and `_pb2_grpc.pyi` mypy-protobuf's, for the asyncio
API only: a servicer that lacks an RPC, or has a wrong type, is a type error.

Usage: python scripts/proto.py [--check]
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROTOS = Path(__file__).resolve().parent.parent / "protos"
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
# only_async: our servers and clients are grpc.aio. readable_stubs: plain names instead of mangled ones.
GRPC_STUB_OPTIONS = "quiet,readable_stubs,only_async"
# mypy-protobuf parametrises a servicer's context with the method's request and response; its read() and write() take
# single messages. Without this every annotated servicer is an incompatible override.
WRAPPED_MESSAGE = re.compile(r"\babc\.(?:AsyncIterator|Awaitable)\[([\w.]+)\]")


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit status: 1 if `--check` finds a difference or protoc fails."""
    parser = argparse.ArgumentParser(description="Generate the stubs of protos/, or check the committed ones.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a stub is not current")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory(prefix="cw-proto-") as folder:
        fresh = Path(folder)
        if (code := _generate(fresh)) != 0:
            return code
        return _compare(fresh) if check else _replace(fresh)


def _generate(target: Path) -> int:
    plugin = Path(sys.executable).with_name("protoc-gen-mypy_grpc")
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("citewire/**/*.proto"))
    code = subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            f"--proto_path={PROTOS}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            f"--plugin=protoc-gen-mypy_grpc={plugin}",
            f"--mypy_grpc_out={GRPC_STUB_OPTIONS}:{target}",
            *sources,
        ],
        check=False,
    ).returncode
    if code == 0:
        for path in target.rglob("*_pb2_grpc.pyi"):
            path.write_text(_unwrap_contexts(path.read_text(encoding="utf-8")), encoding="utf-8")
    return code


def _unwrap_contexts(stub: str) -> str:
    lines = stub.splitlines(keepends=True)
    return "".join(
        WRAPPED_MESSAGE.sub(r"\1", line) if "context: aio.ServicerContext[" in line else line for line in lines
    )


def _stubs(root: Path) -> dict[Path, Path]:
    """Every stub below `root`, by its path relative to it."""
    return {
        path.relative_to(root): path
        for path in sorted((root / "citewire").rglob("*.py*"))
        if path.name.endswith(SUFFIXES) and _says_something(path)
    }


def _says_something(path: Path) -> bool:
    """False for gRPC stubs of files without a service, for which both generators write empty ones."""
    return not path.name.endswith(SUFFIXES[2:]) or "Servicer" in path.read_text(encoding="utf-8")


def _replace(fresh: Path) -> int:
    new = _stubs(fresh)
    for relative, path in new.items():
        target = PROTOS / relative
        if not target.exists() or target.read_bytes() != path.read_bytes():
            shutil.copyfile(path, target)
            sys.stdout.write(f"wrote protos/{relative}\n")
    for relative, path in _committed().items():
        if relative not in new:
            path.unlink()
            sys.stdout.write(f"removed protos/{relative}\n")
    sys.stdout.write(f"{len(new)} stubs are current\n")
    return 0


def _compare(fresh: Path) -> int:
    new, old = _stubs(fresh), _committed()
    stale = 0
    for relative in sorted(new.keys() | old.keys()):
        before = old[relative].read_text(encoding="utf-8") if relative in old else ""
        after = new[relative].read_text(encoding="utf-8") if relative in new else ""
        if before != after:
            stale += 1
            names = (f"protos/{relative} (committed)", f"protos/{relative} (generated)")
            difference = difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names, n=1)
            sys.stdout.writelines(list(difference)[:20])
    if stale:
        sys.stdout.write(f"{stale} of {len(new)} stubs are not current: run `make proto` and commit them\n")
        return 1
    sys.stdout.write(f"{len(new)} stubs are current\n")
    return 0


def _committed() -> dict[Path, Path]:
    return {p.relative_to(PROTOS): p for p in sorted((PROTOS / "citewire").rglob("*.py*")) if p.name.endswith(SUFFIXES)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
