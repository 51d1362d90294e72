"""What tests do with the page in Chromium."""

from __future__ import annotations

import json

from devtools import DrivenPage

READY = "!!document.querySelector('#question')"
QUIET = "document.querySelectorAll('.answer').length > 0 && !document.querySelector('.answer[aria-busy=true]')"


async def ask(page: DrivenPage, question: str) -> None:
    """Types a question and presses Enter; waits until the answer is whole."""
    await page.run("document.querySelector('#question').focus()")
    await page.type_text(question)
    count = await page.run("document.querySelectorAll('.answer').length")
    await page.press("Enter")
    await page.wait_for(f"document.querySelectorAll('.answer').length === {count + 1} && {QUIET}")


async def text(page: DrivenPage, selector: str) -> str:
    """What an element says, once it is there."""
    return await page.wait_for(f"document.querySelector({json.dumps(selector)})?.textContent")
