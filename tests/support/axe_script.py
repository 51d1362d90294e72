"""Accessibility checks with axe in a driven page."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from devtools import DrivenPage

ROOT = Path(__file__).resolve().parents[2]
_FILE = Path("node_modules", "axe-core", "axe.min.js")


def axe_script() -> str:
    """The script, cached between runs for each version of the lock."""
    lock = hashlib.sha256((ROOT / "web" / "package-lock.json").read_bytes()).hexdigest()
    home = ROOT / ".citewire-bench" / f"axe-core-{lock[:12]}"
    if not (home / _FILE).exists():
        command = [sys.executable, ROOT / "scripts" / "web.py", "--fetch", "axe-core", home]
        subprocess.run(command, check=True, timeout=240)
    return (home / _FILE).read_text(encoding="utf-8")


async def violations(page: DrivenPage) -> list[Any]:
    """axe's findings with their locations; the script already runs in the page."""
    return await page.run(
        "axe.run().then(result => result.violations.map(({id, nodes}) =>"
        " [id, nodes.map(node => node.html.slice(0, 200))]))"
    )


async def looks(page: DrivenPage) -> AsyncIterator[str]:
    """Shows the page in light and dark, narrow and wide variants, and yields their names."""
    for scheme in ("light", "dark"):
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await page.call("Emulation.setEmulatedMedia", features=features)
        for width in (390, 1280):
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            await page.call("Emulation.setDeviceMetricsOverride", **size)
            yield f"{scheme}, {width} wide"
