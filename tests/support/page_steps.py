"""Common steps of tests with the page in Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from devtools import Chromium, DrivenPage

READY = "!!document.querySelector('#question')"
QUIET = "document.querySelectorAll('.answer').length > 0 && !document.querySelector('.answer[aria-busy=true]')"
IN_FULL = "!document.querySelector(':is(.blocks, .prose li, .prose .lines, .long > tbody):not(.in-full)')"
"""True once no part of the answers is left out of layout, and so hidden from screen readers."""

MARKED = "document.querySelectorAll('.quote-box').length > 0 && document.querySelectorAll('.page-text span').length > 1"
COVERED = """(() => {
  const marks = [...document.querySelectorAll('.quote-box')].map(mark => mark.getBoundingClientRect());
  const spans = [...document.querySelectorAll('.page-text span[role=presentation]')];
  return spans.filter(span => {
    const {left, right, top, bottom} = span.getBoundingClientRect();
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    return marks.some(mark => mark.left <= x && x <= mark.right && mark.top <= y && y <= mark.bottom);
  }).map(span => span.textContent).join(' ');
})()"""
"""The part of the page's text that the quote's marks cover; `MARKED`: both exist."""


@asynccontextmanager
async def watched_page(chromium: Chromium, url: str, *domains: str) -> AsyncGenerator[DrivenPage]:
    """The ready page of a stack; at the end it checks that the policy blocked nothing and no script failed."""
    async with chromium.page() as driven:
        for domain in domains:
            await driven.call(f"{domain}.enable")
        await driven.go(f"{url}/")
        await driven.wait_for(READY)
        await driven.run("addEventListener('securitypolicyviolation', event => (window.violated = event.blockedURI))")
        yield driven
        assert await driven.run("window.violated") is None
        assert [event for event in driven.events if event["method"] == "Runtime.exceptionThrown"] == []


async def ask(page: DrivenPage, question: str) -> None:
    """Types a question and presses Enter; waits until the answer is complete."""
    await page.run("document.querySelector('#question').focus()")
    await page.type_text(question)
    # Not by their number: earlier answers may still be disappearing or appearing.
    await page.run("document.querySelectorAll('.answer').forEach(answer => (answer.dataset.known = 'yes'))")
    await page.press("Enter")
    last = "[...document.querySelectorAll('.answer')].at(-1)"
    await page.wait_for(f"{last} !== undefined && {last}.dataset.known === undefined && {QUIET}")


async def text(page: DrivenPage, selector: str) -> str:
    """The text of an element, once it exists."""
    return await page.wait_for(f"document.querySelector({json.dumps(selector)})?.textContent")


async def press_named(page: DrivenPage, selector: str, name: str) -> None:
    """Presses the button with that text or label, once it is enabled."""
    is_named = "button => !button.disabled && (button.textContent.trim() === NAME || button.ariaLabel === NAME)"
    button = f"[...document.querySelectorAll({json.dumps(selector)})].find({is_named})"
    press = f"const NAME = {json.dumps(name)}; const button = {button}; button?.focus(); button?.click()"
    script = f"(() => {{ {press}; return !!button }})()"
    await page.wait_for(script)


async def fill(page: DrivenPage, selector: str, value: str) -> None:
    """Replaces the content of a field by typing."""
    await page.wait_for(f"!!document.querySelector({json.dumps(selector)})")
    await page.run(f"document.querySelector({json.dumps(selector)}).focus()")
    await page.run(f"document.querySelector({json.dumps(selector)}).select()")
    await page.type_text(value)


async def choose(page: DrivenPage, selector: str, value: str) -> None:
    """Chooses an option by its value."""
    await page.wait_for(f"!!document.querySelector({json.dumps(selector)})")
    change = "choice.dispatchEvent(new Event('change', {bubbles: true}))"
    choose_it = f"const choice = document.querySelector({json.dumps(selector)}); choice.value = {json.dumps(value)}"
    await page.run(f"(() => {{ {choose_it}; {change} }})()")
