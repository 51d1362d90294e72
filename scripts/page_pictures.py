"""Takes the screenshots of the page for the README, in a real Chromium on a running stack with the sample library.

Usage: make pictures

Writes docs/pictures/*.webp. Look at them before you commit them, and commit only those that look different: each one
stays in the history.
"""

from __future__ import annotations

import asyncio
import base64
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from devtools import DrivenPage, driven_page
from local_stack import local_stack
from page_steps import MARKED, READY, ask, press_named

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
MOST_BYTES = 150_000
WIDTH, HEIGHT, SHARPNESS, QUALITY = 1280, 760, 1.5, 80


async def main() -> int:
    """Takes all screenshots; returns 1 if one is too large to be loaded with the README."""
    with tempfile.TemporaryDirectory() as folder, local_stack(Path(folder, "stack"), arguments=()) as stack:
        async with driven_page(Path(folder, "profile")) as page:
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SHARPNESS, "mobile": False}
            await page.call("Emulation.setDeviceMetricsOverride", **size)
            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
            await page.go(f"{stack.base_url}/")
            await page.wait_for(READY)
            await ask(page, "How much is the meal allowance per day abroad?")
            await page.click(".badge")
            await page.wait_for("!!document.querySelector('.card mark')")
            sizes = [await take(page, "answer")]
            await page.go(f"{stack.base_url}/#/")
            await page.wait_for("!!document.querySelector('.hello')")
            await ask(page, "How often is an abandon-ship drill held?")
            await page.click(".badge")
            await page.wait_for("!!document.querySelector('.card mark')")
            await press_named(page, ".card-actions button", "Open the original")
            await page.wait_for(MARKED)
            sizes.append(await take(page, "original"))
            await page.press("Escape")
            await page.go(f"{stack.base_url}/#/library")
            await page.wait_for("document.querySelectorAll('.documents .ready').length > 3")
            sizes.append(await take(page, "library"))
    return int(max(sizes) > MOST_BYTES)


async def take(page: DrivenPage, name: str) -> int:
    """Writes a screenshot of the window once it stops changing; returns the file's bytes."""
    before, now = b"", b"-"
    while before != now:
        await asyncio.sleep(0.5)
        before, now = now, base64.b64decode((await page.call("Page.captureScreenshot"))["data"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{name}.webp"
    with Image.open(io.BytesIO(now)) as picture:
        picture.convert("RGB").save(target, "WEBP", quality=QUALITY, method=6)
    sys.stdout.write(f"{target.name}: {target.stat().st_size} bytes\n")
    return target.stat().st_size


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
