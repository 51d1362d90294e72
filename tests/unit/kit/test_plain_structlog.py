"""structlog without rich, which would render its tracebacks."""

import subprocess
import sys

PROGRAM = """
import sys
import citewire_kit.telemetry
print("rich" in sys.modules)
import rich
print(rich.__name__)
"""


def test_logging_does_not_import_rich_and_does_not_hide_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "rich"], done.stderr
