"""The clients of the search benchmarks are separate processes, whose calls the measured retriever accepts."""

import subprocess
import sys
from pathlib import Path

import callers

ROOT = Path(__file__).resolve().parents[3]


def test_a_client_process_signs_with_the_key_that_the_retriever_knows() -> None:
    command = [sys.executable, "-c", "import benchmarks.search_ways, callers; print(callers.KEY)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert Path(done.stdout.strip()) == callers.KEY
    assert callers.KEY.exists(), "the client must not delete the keys"
