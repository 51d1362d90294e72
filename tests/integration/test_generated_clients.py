"""Clients generated from our OpenAPI document, in TypeScript and Python, pass their type checkers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from npm_clients import npm_folder
from scripts.tool_environment import install_tool

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "openapi.json"  # `make lint` holds it to what the gateway serves
USE = """
import type { components, paths } from "./api";
type Schemas = components["schemas"];
type Found = paths["/v1/search"]["post"]["responses"][200]["content"]["application/json"];
export const page = (found: Found): number | undefined => found.results[0].page_number;
export const title = (document: Schemas["Document"]): string => document.title;
export function read(event: Schemas["ChatEvent"]): string {
  switch (event.event) {
    case "token": return event.data.text;
    case "citation": return event.data.verdict;
    case "citations": return event.data.citations.map((citation) => citation.ref).join();
    default: return "";
  }
}
"""


@pytest.fixture(scope="session")
def typescript() -> Path:
    """A folder with the generator and the compiler."""
    return npm_folder("openapi-typescript", "typescript") / "node_modules" / ".bin"


@pytest.mark.client("openapi-typescript", "Types of all routes, strict, with a type for each chat event")
@pytest.mark.system(program="npm", package="npm")
def test_types_for_typescript_are_strict(typescript: Path, tmp_path: Path) -> None:
    subprocess.run([typescript / "openapi-typescript", DOCUMENT, "-o", tmp_path / "api.d.ts"], check=True, timeout=60)
    (tmp_path / "use.ts").write_text(USE)
    done = subprocess.run(
        [typescript / "tsc", "--noEmit", "--strict", "api.d.ts", "use.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.client("openapi-python-client", "A client of all routes that passes pyright")
def test_a_python_client_passes_pyright(tmp_path: Path) -> None:
    requirements = Path(__file__).parent / "python-client-requirements.txt"
    generator = install_tool("openapi-python-client", "openapi-python-client", requirements)
    config = tmp_path / "config.yaml"
    config.write_text("post_hooks: []\ncontent_type_overrides: {application/x-ndjson: text/plain}\n")
    output = tmp_path / "citewire_api"
    command = [generator, "generate", "--path", DOCUMENT, "--output-path", output, "--meta", "none"]
    done = subprocess.run(
        [*command, "--config", config, "--fail-on-warning"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout[-3000:]
    # The generator's environment has the packages that the generated code imports.
    home = generator.parent.parent
    settings = {"include": ["."], "typeCheckingMode": "standard", "venvPath": str(home.parent), "venv": home.name}
    (output / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = Path(sys.executable).parent / "pyright"
    done = subprocess.run([pyright, "-p", output], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
