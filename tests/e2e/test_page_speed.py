"""Counts the page's work for each piece of an answer in a real Chromium; `benchmarks.page` measures its time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from axe_script import axe_script, violations
from devtools import Chromium, DrivenPage
from local_stack import LocalStack
from page_steps import IN_FULL, watched_page

pytestmark = pytest.mark.system(program="chromium", package="chromium")

STREAM = """
    const asked = window.fetch, encoder = new TextEncoder()
    const frames = () => new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)))
    window.sent = 0
    window.fetch = (...what) => {
        if (String(what[0]).includes('/v1/conversations/long?')) return Promise.resolve(Response.json(stored))
        if (!String(what[0]).endsWith('/v1/chat')) return asked(...what)
        window.sent++
        return Promise.resolve(new Response(new ReadableStream({start: control => (window.stream = control)})))
    }
    window.tell = (event, data) =>
        window.stream.enqueue(encoder.encode(`event: ${event}\\ndata: ${JSON.stringify(data)}\\n\\n`))
    window.grow = async (begin, piece, count) => {
        let written = 0, away = 0
        const main = document.querySelector('#main')
        const observer = new MutationObserver(records => {
            for (const { type, target, addedNodes } of records) {
                if (type === 'characterData') written += target.data.length
                for (const node of addedNodes) written += node.textContent.length
            }
        })
        observer.observe(main, {subtree: true, childList: true, characterData: true})
        tell('token', {text: begin})
        for (let number = 0; number < count; number++) {
            tell('token', {text: piece.replaceAll('#', number)})
            await frames()
            away = Math.max(away, main.scrollHeight - main.scrollTop - main.clientHeight)
        }
        observer.disconnect()
        return [written, away]
    }
"""
"""Replaces the network, so that answers come from a stream that the test writes."""


@pytest.fixture
async def page(stack: LocalStack, chromium: Chromium) -> AsyncIterator[DrivenPage]:
    async with watched_page(chromium, stack.base_url, "Page", "Runtime") as driven:
        await driven.call("Page.addScriptToEvaluateOnNewDocument", source=STREAM)
        await driven.call("Page.reload")
        await driven.wait_for("!!window.grow && !!document.querySelector('.composer option')")
        yield driven


async def begin(page: DrivenPage) -> None:
    """Asks a question; the test writes the answer."""
    await page.run("location.hash = '#/'; document.querySelector('#question').focus()")
    await page.type_text("How much is it?")
    await page.press("Enter")
    await page.wait_for("!!document.querySelector('.answer[aria-busy=true]')")


async def end(page: DrivenPage) -> None:
    await page.run("tell('done', {}); stream.close()")
    await page.wait_for("!document.querySelector('.answer[aria-busy=true]')")


async def grow_answer(page: DrivenPage, first: str, piece: str, count: int) -> list[int]:
    """Returns how many characters a growing answer wrote into the page, and the most pixels below the visible part."""
    await begin(page)
    taken: list[int] = await page.run(f"grow({json.dumps(first)}, {json.dumps(piece)}, {count})")
    await end(page)
    return taken


async def test_enter_sends_the_question_at_once(page: DrivenPage) -> None:
    await page.run("location.hash = '#/'; document.querySelector('#question').focus()")
    await page.type_text("How much is it?")
    enter = "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true})"
    # A script's own event runs no promises until it returns.
    script = f"(() => {{ document.querySelector('#question').dispatchEvent({enter}); return sent }})()"
    assert await page.run(script) == 1
    await page.wait_for("!!document.querySelector('.answer[aria-busy=true]')")
    await end(page)


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        ("```python\n", "allowance(#)  # what is paid for each day abroad\n" * 16),
        ("```\n", "allowance # of what is paid for each day abroad, " * 16),
        ("", "Some words of one paragraph, with number #. " * 16),
        ("- item\n\n  | a | b |\n  |---|---|\n", "  | # | what is paid for each day abroad |\n" * 16),
    ],
    ids=["lines of code", "one line of code", "one paragraph", "table in a list"],
)
async def test_twice_the_text_takes_twice_the_writing(page: DrivenPage, first: str, piece: str) -> None:
    less, _ = await grow_answer(page, first, piece, 25)
    more, away = await grow_answer(page, first, piece, 50)
    assert more / less < 2.6
    assert away < 120, "the end stays in sight"


async def test_the_page_does_not_scroll_while_a_reader_is_above_the_end(page: DrivenPage) -> None:
    await begin(page)
    await page.run("grow('', 'A paragraph of it.\\n\\n', 30)")
    await page.run("document.querySelector('#main').scrollTop = 100; new Promise(requestAnimationFrame)")
    await page.run("grow('', 'A paragraph of it.\\n\\n', 30)")
    assert await page.run("document.querySelector('#main').scrollTop") == 100
    await end(page)


async def test_a_long_conversation_is_rendered_over_several_frames(page: DrivenPage) -> None:
    answer = {"role": "assistant", "content": "A paragraph of the answer.\n\n" * 300, "state": "complete"}
    messages = [{"role": "user", "content": f"Question {n // 2}?"} if n % 2 == 0 else answer for n in range(80)]
    stored = {"id": "long", "title": "Long", "messages": messages, "next_page_token": ""}
    count = "document.querySelectorAll('.turn').length"
    await page.run(
        f"window.stored = {json.dumps(stored)}; window.counts = [];"
        f"(function look() {{ const now = {count}; if (now !== counts.at(-1)) counts.push(now);"
        " if (now < 40) requestAnimationFrame(look) })(); location.hash = '#/c/long'"
    )
    await page.wait_for(f"{count} === 40")
    counts: list[int] = await page.run("new Promise(requestAnimationFrame).then(() => counts)")
    assert max(after - before for before, after in pairwise(counts)) <= 4, "two per frame, and a frame may be missed"
    asked = await page.run("[...document.querySelectorAll('.question')].map(question => question.textContent)")
    assert asked == [f"Question {number}?" for number in range(40)]


async def accessible(page: DrivenPage) -> tuple[list[str], str]:
    """Returns the roles and the text that Chromium gives to screen readers once all answers are laid out."""
    await page.wait_for(IN_FULL)
    tree = await page.call("Accessibility.getFullAXTree")
    nodes = [node for node in tree["nodes"] if not node["ignored"]]
    texts = [node["name"]["value"] for node in nodes if node["role"]["value"] == "StaticText"]
    return [node["role"]["value"] for node in nodes], "".join(texts)


LAID_OUT = """(selector, side) => {
    const [each] = [...document.querySelectorAll(selector)].slice(-1), times = []
    for (let pixels = 1; pixels <= 20; pixels++) {
        each.style[side] = `${pixels}px`
        const began = performance.now()
        void document.querySelector('#main').offsetHeight
        times.push(performance.now() - began)
    }
    each.style[side] = ''
    return Math.min(...times)
}"""
"""The least milliseconds that a layout takes after the last element's size has changed."""


async def test_screen_readers_get_all_of_a_long_answer(page: DrivenPage) -> None:
    words = "of what is paid for each day abroad, "
    shapes = [f"Paragraph # {words}\n\n", f"- Item # {words}\n", f"> - Deep # {words}\n"]
    expected = [f"{shape.split('#')[0].lstrip('> -')}{number} of" for shape in shapes for number in range(60)]
    answer = "\n".join("".join(shape.replace("#", str(number)) for number in range(60)) for shape in shapes)
    await begin(page)
    await page.run(f"tell('token', {json.dumps({'text': answer})}); frames()")
    await end(page)
    _, read = await accessible(page)
    assert [piece for piece in expected if piece not in read] == []
    item, all_of_it = [
        await page.run(f"({LAID_OUT})('{selector}', 'paddingRight')") for selector in (".prose li", ".prose")
    ]
    assert item < all_of_it / 3, "only what changed is laid out again, not everything above it"
    await page.run("dispatchEvent(new Event('resize'))")
    _, read = await accessible(page)
    assert [piece for piece in expected if piece not in read] == [], "after the window is resized"
    messages = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": answer, "state": "complete"}]
    stored = {"id": "long", "title": "Long", "messages": messages, "next_page_token": ""}
    await page.run(f"window.stored = {json.dumps(stored)}; location.hash = '#/c/long'")
    await page.wait_for("document.querySelector('.question')?.textContent === 'Q?'")
    await page.wait_for("document.querySelectorAll('.prose li').length === 120")
    _, read = await accessible(page)
    assert [piece for piece in expected if piece not in read] == [], "after it is opened again"


@pytest.mark.parametrize("width", [390, 1280])
async def test_long_code_and_tables_are_whole_aligned_and_accessible(page: DrivenPage, width: int) -> None:
    await page.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    code = "".join(f"line {number}\n" for number in range(150))
    rows = "".join(f"| {number} | {'more ' * (number % 30)} | x |\n" for number in range(150))
    await begin(page)
    answer = f"```\n{code}```\n\n| a | b | c |\n|---|---|--:|\n{rows}\nAfter it."
    for at in range(0, len(answer), 400):
        await page.run(f"tell('token', {json.dumps({'text': answer[at : at + 400]})}); frames()")
    await end(page)
    assert await page.run("document.querySelector('.prose pre').textContent") == code.rstrip()
    cells: list[list[Any]] = await page.run(
        "[...document.querySelectorAll('.prose tbody tr')].map(row => [row.cells[0].textContent,"
        " ...[...row.cells].map(cell => cell.getBoundingClientRect().left)])"
    )
    assert [cell[0] for cell in cells] == [str(number) for number in range(150)]
    assert len({tuple(places) for _, *places in cells}) == 1, "columns are straight"
    roles, read = await accessible(page)
    assert (roles.count("row"), roles.count("columnheader")) == (151, 3)
    assert [f"line {number}" in read for number in range(150)] == [True] * 150
    await page.run(f"{axe_script()}; undefined")
    for scheme in ("light", "dark"):
        await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        assert await violations(page) == []
    assert await page.run("document.documentElement.scrollWidth - innerWidth") <= 0
