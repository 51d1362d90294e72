"""Side-by-side measurements. Each is a command, `python -m benchmarks.NAME`, that prints its tables from one run."""

import sys
from pathlib import Path

# The embedded Postgres of the tests serves benchmarks too.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
