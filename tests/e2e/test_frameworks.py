"""The packages for LangChain, LlamaIndex and Haystack as users install them: wheels, against the running stack.

Each framework's own standard tests and ours run in one process, in an environment with nothing else from this
repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from local_stack import LocalStack
from scripts.frameworks_environment import install
from tool_model import answering_tool_model

ROOT = Path(__file__).resolve().parents[2]
INTEGRATIONS = ROOT / "integrations"
PACKAGES = sorted(path.parent.name for path in INTEGRATIONS.glob("*/pyproject.toml"))
TESTED = [
    pytest.param(
        "haystack",
        marks=pytest.mark.client(
            "haystack-ai",
            "Pipelines, saved and run: retriever with its filters, chat generator with citations, embedders, writer",
        ),
    ),
    pytest.param(
        "langchain",
        marks=pytest.mark.client(
            "langchain-core",
            "Retriever, chat model with citations, embeddings, vector store, with `langchain-tests`; metadata stays",
        ),
    ),
    pytest.param(
        "llama-index",
        marks=pytest.mark.client(
            "llama-index-core",
            "Retriever, language model with citations, embeddings, in its engines; a reader's metadata stays",
        ),
    ),
]
ANSWERED_BY_A_MODEL = [
    pytest.param(
        "haystack",
        marks=pytest.mark.client(
            "haystack-ai",
            "Agents and pipelines with tools, streamed and saved; JSON replies for a class, each value cited",
        ),
    ),
    pytest.param(
        "langchain",
        marks=pytest.mark.client(
            "langchain-core",
            "Tools (`bind_tools`) and `with_structured_output`, each value cited, with `langchain-tests` and a model",
        ),
    ),
    pytest.param(
        "llama-index",
        marks=pytest.mark.client(
            "llama-index-core",
            "`FunctionAgent`, workflows and programs with tools, streamed; objects of a class, each value cited",
        ),
    ),
]
EXAMPLES = ROOT / "docs" / "how-to" / "frameworks.md"


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python with the frameworks."""
    return install()


@pytest.fixture(scope="module")
def wheels(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheels of the client and the packages."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    built, unpacked = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("unpacked")
    for project in (ROOT / "clients" / "python", *(INTEGRATIONS / name for name in PACKAGES)):
        subprocess.run([uv, "build", "--quiet", "--wheel", project, "--out-dir", built], check=True, timeout=120)
    install_wheels = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "--target", unpacked]
    subprocess.run([*install_wheels, *built.glob("*.whl")], check=True, timeout=120)
    return unpacked


def environment(stack: LocalStack, wheels: Path, python: Path) -> dict[str, str]:
    """Returns a user's environment variables; no telemetry is sent anywhere."""
    quiet = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false"}
    # One bytecode cache for all of them, away from the sources.
    quiet |= {"PYTHONPYCACHEPREFIX": str(python.parents[1] / "bytecode")}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(wheels), "CITEWIRE_URL": stack.base_url, **quiet}


def _run_tests(tests: Path, python: Path, environ: dict[str, str], folder: Path, *, least: int) -> None:
    command = [python, "-m", "pytest", "-c", INTEGRATIONS / "pytest.ini", "-q", "--benchmark-disable"]
    done = subprocess.run(
        [*command, tests, "--basetemp", folder / "base"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout[-2000:]
    assert int(passed[1]) >= least, done.stdout[-2000:]


def test_each_package_has_tests_with_and_without_a_model() -> None:
    for tested in (TESTED, ANSWERED_BY_A_MODEL):
        assert [parameter.values[0] for parameter in tested] == PACKAGES


@pytest.mark.parametrize("package", TESTED)
def test_a_package_passes_its_frameworks_tests_and_ours(
    package: str, python: Path, wheels: Path, egress_stack: LocalStack, tmp_path: Path
) -> None:
    _run_tests(INTEGRATIONS / package / "tests", python, environment(egress_stack, wheels, python), tmp_path, least=10)


@pytest.mark.parametrize("package", ANSWERED_BY_A_MODEL)
def test_a_package_works_with_a_model_that_has_tools(
    package: str, python: Path, wheels: Path, egress_stack: LocalStack, tmp_path: Path
) -> None:
    with answering_tool_model(egress_stack.base_url):
        _run_tests(
            INTEGRATIONS / package / "model_tests", python, environment(egress_stack, wheels, python), tmp_path, least=6
        )


def test_the_examples_of_the_documentation_run(
    python: Path, wheels: Path, egress_stack: LocalStack, tmp_path: Path
) -> None:
    examples = re.findall(r"```python\n(.*?)```", EXAMPLES.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    done = subprocess.run(
        [python, "-c", "\n".join(examples)],
        cwd=tmp_path,
        env=environment(egress_stack, wheels, python),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("supported") >= len(PACKAGES), done.stdout
