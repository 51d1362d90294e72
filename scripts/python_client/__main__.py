"""Usage: python -m scripts.python_client [--check].

Models are made by datamodel-code-generator, methods here; what blocks is made of what awaits by unasync. Both tools
stand in an environment of their own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from scripts.python_client.blocking import blocking
from scripts.python_client.models import models_module
from scripts.python_client.operations import operations_module
from scripts.python_client.tools import PACKAGE, ROOT, formatted

DOCUMENT = ROOT / "docs" / "reference" / "openapi.json"


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit status."""
    files = generated(json.loads(DOCUMENT.read_text(encoding="utf-8")))
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        sys.stdout.writelines(f"{path.relative_to(ROOT)} isn't current: run `make openapi`\n" for path in stale)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    return 0


def generated(document: dict[str, Any]) -> dict[Path, str]:
    """Returns the text of each generated file."""
    operations = formatted(operations_module(document), "operations.py")
    files = {PACKAGE / "models.py": models_module(document), PACKAGE / "_async" / "operations.py": operations}
    return files | blocking({PACKAGE / "_async" / "operations.py": operations})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
