"""structlog, without what would draw its tracebacks."""

import subprocess
import sys

PROGRAM = """
import sys
import citewire_kit.telemetry
print("rich" in sys.modules)
import rich
print(rich.__name__)
"""


def test_logging_imports_no_rich_and_hides_it_from_nobody() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "rich"], done.stderr
