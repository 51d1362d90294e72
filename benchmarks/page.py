"""The page's performance for its reader, in a real Chromium on a running stack.

- *long answers*: 10,000 pieces of text with 50 citations, once in each shape. For the longest task of the page's main
  thread it gives CPU time, which other processes don't lengthen, and wall-clock time: none of ours may
  take 50 ms. It is measured until the answer is laid out in full, for screen readers.
- *many answers*: 50 answers, each in its own conversation: the heap and the nodes after garbage collection.
- *first token*: from Enter to the frame with the first text, compared with the same request by a bare `fetch` in the
  same browser, in turns, which shows a full stop in the next frame: the difference may be 30 ms at most.

Usage: python -m benchmarks.page [--only long,many,first] [--pause 0.002]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.ratios import median_ratio
from benchmarks.tables import describe_machine, format_table
from devtools import DrivenPage, driven_page
from local_stack import LocalStack, local_stack
from page_steps import IN_FULL, QUIET, READY, ask
from scripted_model import ScriptedModel, scripted_model

TOKENS, CITATIONS, ANSWERS, ROUNDS = 10_000, 50, 50, 20
QUESTION = "What is the meal allowance per day abroad?"
SENTENCE = "Abroad, the meal allowance is 62 euros per day."
POLICY = f"# Travel\n\n## Meals\n\nNo receipts are needed.\n{SENTENCE} Half of it is paid on the first day.\n"
_EVERY = TOKENS // CITATIONS
SHAPES = {
    "paragraphs": ("", "\n\n"),
    "one paragraph": ("", " "),
    "lines": ("", "\n"),
    "one list": ("- ", "\n- "),
    "one table": ("| a | b |\n|---|---|\n| x | ", " |\n| x | "),
    "code between": ("", "\n\n```python\nprint('between')\n```\n\n"),
    "one code block": ("```python\n", "\n"),
    "one line of code": ("```\n", " "),
    "one quote": ("> ", "\n> "),
    "one table in a list": ("- item\n\n  | a | b |\n  |---|---|\n  | x | ", " |\n  | x | "),
    "one table in quotes": ("> > > | a | b |\n> > > |---|---|\n> > > | x | ", " |\n> > > | x | "),
    "one list in lists": ("- a\n  - b\n    - ", "\n    - "),
    "code in one item": ("1. item\n\n   ```\n   x\n   ```\n\n   ", "\n\n   ```\n   x\n   ```\n\n   "),
    "many lists": ("- ", "\n\ntext\n\n- "),
    "many tables": ("| a | b |\n|---|---|\n| x | ", "\n\n| a | b |\n|---|---|\n| x | "),
}
"""The beginning of an answer, and the text between its sentences."""
_FIRST_TEXT = """new Promise(resolve => {
    const field = document.querySelector('#question'), count = document.querySelectorAll('.answer').length
    const decoder = new TextDecoder(), now = () => performance.now()
    let began = 0, sent = 0, came = 0
    window.watched = async (...asked) => {
        if (!String(asked[0]).endsWith('/v1/chat')) return ownFetch(...asked)
        sent = now()
        const response = await ownFetch(...asked)
        const transform = (chunk, out) => {
            if (!came && decoder.decode(chunk).includes('event: token')) came = now()
            out.enqueue(chunk)
        }
        return new Response(response.body.pipeThrough(new TransformStream({transform})), response)
    }
    field.addEventListener('keydown', event => (began = event.timeStamp), {once: true, capture: true})
    const observer = new MutationObserver(() => {
        if (!document.querySelectorAll('.answer .prose')[count]?.textContent) return
        observer.disconnect()
        window.watched = undefined
        // The page writes in a frame's callback: it is painted after this, and before the message is read.
        const { port1, port2 } = new MessageChannel()
        port1.onmessage = () => resolve([now() - began, sent - began, now() - came])
        port2.postMessage(0)
    })
    observer.observe(document.body, {subtree: true, childList: true, characterData: true})
})"""
_WATCH_FETCH = "window.ownFetch = fetch; window.fetch = (...asked) => (window.watched ?? ownFetch)(...asked)"
_BARE = """(async body => {
    const began = performance.now()
    const response = await ownFetch('/v1/chat', {method: 'POST', body, headers: {'Content-Type': 'application/json'}})
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let came = 0, painted = 0
    for (let text = ''; ; ) {
        const { done, value } = await reader.read()
        if (done) return [came, painted]
        text += value
        if (came || !text.includes('event: token')) continue
        came = performance.now() - began
        requestAnimationFrame(() => {
            document.querySelector('.prose').append('.')
            const { port1, port2 } = new MessageChannel()
            port1.onmessage = () => (painted = performance.now() - began)
            port2.postMessage(0)
        })
    }
})"""


def pieces(shape: str) -> list[str]:
    """An answer of this many pieces, of which every 200th is a citation marker at a sentence's end."""
    begin, between = SHAPES[shape]
    answer = [begin, *SENTENCE[:-1].replace(" ", " |").split("|")]
    for number in range(1, TOKENS - len(answer)):
        if number % _EVERY == 0:
            answer.append(f" [ref:1].{between}")
        elif number % 20 == 0:
            answer.append(f".{between}")
        else:
            answer.append(f" word{number % 97}")
    return answer


async def longest_task(page: DrivenPage, doing: Awaitable[object]) -> tuple[float, float, str]:
    """CPU and wall-clock milliseconds of the longest tasks of the page's main thread during an action.

    Also the parts of the longest task that took more than 5 ms of CPU.
    """
    categories = ["toplevel", "devtools.timeline", "__metadata"]
    await page.call("Tracing.start", traceConfig={"includedCategories": categories}, transferMode="ReportEvents")
    await doing
    await page.call("Tracing.end")
    await page.event("Tracing.tracingComplete")
    events: list[dict[str, Any]] = []
    for message in page.events:
        if message["method"] == "Tracing.dataCollected":
            events += message["params"]["value"]
    page.events.clear()
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [event for event in events if (event["pid"], event["tid"]) in mains and event["ph"] == "X"]
    longest = max(tasks, key=lambda task: task.get("tdur", 0))
    ends = longest["ts"] + longest["dur"]
    parts = Counter[str]()
    for task in tasks:
        if task["tid"] == longest["tid"] and longest["ts"] <= task["ts"] < ends and task.get("tdur", 0) > 5000:
            parts[task["name"]] += task["tdur"] // 1000
    parts_text = ", ".join(f"{name} {ms}" for name, ms in parts.most_common())
    return longest["tdur"] / 1000, max(task["dur"] for task in tasks) / 1000, parts_text


async def long_answers(page: DrivenPage, model: ScriptedModel, shapes: Sequence[str]) -> None:
    """Prints the longest tasks of long answers."""
    rows: list[list[object]] = []
    for shape in shapes:
        model.say(*pieces(shape))
        await page.run("location.hash = '#/'")
        await page.wait_for(f"{READY} && !document.querySelector('.answer')")
        cpu, clock, parts = await longest_task(page, ask_in_full(page))
        badges = await page.run("document.querySelectorAll('.prose .badge').length")
        characters = await page.run("document.querySelector('.prose').textContent.length")
        again, clock_again, parts_again = await longest_task(page, open_again(page, characters))
        rows.append([shape, characters, badges, cpu, clock, parts, again, clock_again, parts_again])
        print(f"  {rows[-1]}", flush=True)
    headings = ["answer", "characters", "badges", "longest task: CPU ms", "by the clock, ms", "its parts"]
    print(format_table([*headings, "opened again: CPU ms", "by the clock, ms", "its parts"], rows))


async def ask_in_full(page: DrivenPage) -> None:
    """Asks, and waits until the whole answer is laid out."""
    await ask(page, QUESTION)
    await page.wait_for(IN_FULL)


async def open_again(page: DrivenPage, characters: int) -> None:
    """Leaves the conversation and opens it from the history."""
    place = await page.run("location.hash")
    await page.run("location.hash = '#/'")
    await page.wait_for(f"{READY} && !document.querySelector('.answer')")
    await page.run(f"location.hash = {json.dumps(place)}")
    await page.wait_for(f"document.querySelector('.prose')?.textContent.length >= {characters}")
    await page.wait_for(IN_FULL)


async def many_answers(page: DrivenPage, model: ScriptedModel) -> None:
    """Prints the memory retained after answers."""
    rows: list[list[object]] = []
    model.say(*pieces("paragraphs")[:300])
    for number in range(1, ANSWERS + 1):
        await page.run("location.hash = '#/'")
        await page.wait_for(f"{READY} && !document.querySelector('.answer')")
        await ask(page, QUESTION)
        if number % 10 == 0:
            await page.call("HeapProfiler.collectGarbage")
            heap = (await page.call("Runtime.getHeapUsage"))["usedSize"] / 2**20
            counters = await page.call("Memory.getDOMCounters")
            rows.append([number, heap, counters["nodes"], counters["jsEventListeners"]])
    print(format_table(["answers", "heap, MiB", "nodes", "listeners"], rows))


async def first_token(page: DrivenPage, model: ScriptedModel) -> None:
    """Prints the time to the first text of the page and of the API."""
    model.say(*pieces("paragraphs")[:40])
    await page.call("Network.enable")
    rows: list[list[float]] = []
    for number in range(ROUNDS + 2):
        await page.run("location.hash = '#/'")
        await page.wait_for(f"{READY} && !document.querySelector('.answer')")
        page.events.clear()
        took = await measured_ask(page)
        sent = [event["params"]["request"] for event in page.events if event["method"] == "Network.requestWillBeSent"]
        body = next(request["postData"] for request in sent if request["url"].endswith("/v1/chat"))
        came, painted = await page.run(f"{_BARE}({json.dumps(body)})")
        if number >= 2:  # warms up connections and caches
            rows.append([*took, came, painted, took[0] - came, took[0] - painted])
    headings = [
        "Enter to painted text, ms", "Enter to request", "text's arrival to paint", "the API's own", "painted bare",
        "over the API's own", "over painted bare",
    ]  # fmt: skip
    medians = [median_ratio(column) for column in zip(*rows, strict=True)]
    values = [[ratio.median for ratio in medians], [f"{ratio.low:.1f}–{ratio.high:.1f}" for ratio in medians]]
    print(format_table(["", *headings], [["median", *values[0]], ["95 % interval", *values[1]]]))


async def measured_ask(page: DrivenPage) -> list[float]:
    """Asks through the page, like a person.

    Returns:
        Milliseconds from Enter until the first text is painted, from Enter to the request, and from the text's arrival.
    """
    await page.run("document.querySelector('#question').focus()")
    await page.type_text(QUESTION)
    await page.run(f"window.measured = {_FIRST_TEXT}; undefined")
    await page.press("Enter")
    took: list[float] = await page.run("window.measured")
    await page.wait_for(QUIET)
    return took


@contextlib.asynccontextmanager
async def open_page(stack: LocalStack, profile: Path) -> AsyncGenerator[DrivenPage]:
    """The page in Chromium."""
    async with driven_page(profile) as page:
        await page.call("Page.enable")
        await page.call("Runtime.enable")
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH_FETCH)
        await page.go(f"{stack.base_url}/")
        await page.wait_for(READY)
        yield page


async def measure(
    stack: LocalStack, model: ScriptedModel, only: Sequence[str], shapes: Sequence[str], folder: Path
) -> None:
    """Prints the tables."""
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        files = {"file": ("travel.md", POLICY.encode())}
        document = (await http.post("/v1/documents", files=files)).raise_for_status().json()["id"]
        while (await http.get(f"/v1/documents/{document}")).json()["status"] != "ready":  # noqa: ASYNC110 # there is no event to wait for
            await asyncio.sleep(0.1)
    print(f"{describe_machine()}\n")
    async with open_page(stack, folder / "profile") as page:
        if "first" in only:
            await first_token(page, model)
        if "many" in only:
            await many_answers(page, model)
        if "long" in only:
            await long_answers(page, model, shapes)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="first,many,long", help="measures, with commas between")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="of long answers, with commas between")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between two pieces of an answer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, scripted_model() as model:
        model.pause = options.pause
        environ = {
            "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
            "CITEWIRE_GENERATOR_MODEL": "scripted",
            "CITEWIRE_GENERATOR_API_BASE": model.url,
        }
        with local_stack(Path(name) / "stack", environ=environ) as stack:
            shapes = options.shapes.split(",")
            asyncio.run(measure(stack, model, options.only.split(","), shapes, Path(name)))


if __name__ == "__main__":
    main()
