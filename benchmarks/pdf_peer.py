"""Reads PDF files with another tool, in that tool's environment; `pdf_quality` runs it.

Usage: python benchmarks/pdf_peer.py TOOL FILE…; prints a line of JSON for each file: its Markdown and the CPU seconds
taken.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module

Reader = Callable[[str], str]


def main() -> int:
    """Reads the files; returns the exit code."""
    tool, *files = sys.argv[1:]
    read = _TOOLS[tool]()
    read(files[0])  # loading the tool doesn't count for any file
    for file in files:
        start = time.process_time()
        text = read(file)
        sys.stdout.write(json.dumps({"markdown": text, "seconds": time.process_time() - start}) + "\n")
    return 0


def _kreuzberg() -> Reader:
    module = import_module("kreuzberg")
    options = module.PdfConfig(hierarchy=module.HierarchyConfig(enabled=True))
    config = module.ExtractionConfig(
        use_cache=False, output_format=module.OutputFormat.MARKDOWN, pdf_options=options, disable_ocr=True
    )
    return lambda file: module.extract_file_sync(file, config=config).content


def _markitdown() -> Reader:
    tool = import_module("markitdown").MarkItDown(enable_plugins=False)
    return lambda file: tool.convert(file).markdown


_TOOLS: dict[str, Callable[[], Reader]] = {"kreuzberg": _kreuzberg, "markitdown": _markitdown}


if __name__ == "__main__":
    raise SystemExit(main())
