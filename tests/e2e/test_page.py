"""The page in a real Chromium, on a running stack whose model answers what a test prescribes."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from axe_script import axe_script, violations
from devtools import Chromium, DrivenPage
from hostile_texts import HOSTILE, SCRIPT
from http_api import upload_bytes
from local_stack import LocalStack, local_stack, prepared
from page_steps import QUIET, READY, ask, choose, fill, press_named, text
from proof_scale import ProofScale
from scripted_model import ScriptedModel, scripted_model
from waiting import wait_until

pytestmark = pytest.mark.system(program="chromium", package="chromium")

QUOTE = "Abroad, the meal allowance is 62 euros per day."
POLICY = f"# Travel\n\n## Meals\n\nNo receipts are needed.\n{QUOTE} Half of it is paid on the first day.\n"
QUESTION = "How much is the meal allowance per day abroad?"
ANSWER = ("Abroad, the meal allowance ", "is 62 euros per day. [re", "f:1] It is paid in gold on Sundays.")
KEY = "sk-canary-page-4711"
COVERED_BADGE = """(() => {
  const [badge, card] = ['.badge', '.card'].map(selector => document.querySelector(selector).getBoundingClientRect());
  const isApart = card.bottom <= badge.top || badge.bottom <= card.top;
  return isApart && card.top >= 0 && card.bottom <= innerHeight ? '' : JSON.stringify([badge, card]);
})()"""
"""The boxes of the badge and its card if the card covers the badge or leaves the window, else ""."""

OPEN_GRANTS = """(() => {
  const choice = document.querySelector('main .tools select'), name = 'שכר';
  if (!document.querySelector('dialog') && [...(choice?.options ?? [])].some(option => option.value === name)) {
    if (choice.value === name) return document.querySelector('main .tools select + button')?.click();
    choice.value = name;
    choice.dispatchEvent(new Event('change', {bubbles: true}));
  }
})()"""
"""A step towards a collection's permissions; run until the dialog is open."""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[LocalStack]:
    environ = {
        "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
        "CITEWIRE_GENERATOR_MODEL": "scripted",
        "CITEWIRE_GENERATOR_API_BASE": model.url,
        "CITEWIRE_EGRESS_ALLOW": "127.0.0.1",
        "CITEWIRE_RETRIEVER_FETCH_ALLOW": "127.0.0.1",
    }
    with local_stack(prepared(tmp_path_factory.mktemp("page")), environ=environ) as running:
        with httpx.Client(base_url=running.base_url, trust_env=False, timeout=60) as http:
            http.post("/v1/documents", files={"file": ("travel.md", POLICY.encode())}).raise_for_status()
            running.wait(lambda: _all_ready(http), "the document isn't ready")
        yield running


def _all_ready(http: httpx.Client) -> bool | None:
    return all(document["status"] == "ready" for document in http.get("/v1/documents").json()["documents"]) or None


@pytest.fixture
async def page(stack: LocalStack, model: ScriptedModel, chromium: Chromium) -> AsyncIterator[DrivenPage]:
    """The open page. Afterwards, checks that only its own scripts ran, and that nothing left the origin."""
    model.say(*ANSWER)
    async with chromium.page() as driven:
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            await driven.call(f"{domain}.enable")
        await driven.go(f"{stack.base_url}/")
        await driven.wait_for(READY)
        yield driven
        assert await driven.run("window.hacked") is None
        told = [
            event
            for event in driven.events
            if event["method"] in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
        ]
        assert told == []
        urls: list[str] = [
            event["params"]["request"]["url"]
            for event in driven.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        assert {urlsplit(url).netloc for url in urls} == {urlsplit(stack.base_url).netloc}


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_script()


async def test_an_answer_with_its_proof(page: DrivenPage, model: ScriptedModel) -> None:
    model.cached_tokens = 64
    await ask(page, QUESTION)
    model.cached_tokens = 0
    assert "90 read, 12 written; 64 of those read came from the provider's cache" in await text(page, ".details dl")
    prose = await text(page, ".prose")
    assert "is 62 euros per day. ①" in prose
    assert "[" not in prose
    assert "It is paid in gold" in await text(page, ".uncited")
    assert await page.run("document.querySelector('[role=status]').textContent") != ""
    # By keyboard: the card takes the focus, and Esc returns it.
    await page.run("document.querySelector('.badge').focus()")
    assert "Supported" in await page.run("document.activeElement.getAttribute('aria-label')")
    await page.press("Enter", "\r")
    assert await text(page, ".card mark") == QUOTE
    assert "The passage says this." in await text(page, ".card .verdict")
    assert "#" not in await text(page, ".card .passage"), "no Markdown heading signs"
    await page.wait_for("document.activeElement.getAttribute('role') === 'dialog'")
    await page.press("Escape")
    await page.wait_for("document.activeElement.className.includes('badge') && !document.querySelector('.card')")
    # By mouse: pointing shows the card, without taking the focus.
    await page.move_to(".badge")
    await page.wait_for("!!document.querySelector('.card')")
    assert await page.run("document.activeElement.className.includes('badge')")
    for height in (260, 340, 437, 700):  # whatever the height, the card doesn't cover its badge
        await page.call(
            "Emulation.setDeviceMetricsOverride", width=780, height=height, deviceScaleFactor=1, mobile=False
        )
        await page.wait_for(f"innerHeight === {height}")
        await page.run("new Promise(painted => requestAnimationFrame(() => setTimeout(painted)))")
        await page.move_to(".badge")  # the badge may have moved away from the mouse
        await page.wait_for("!!document.querySelector('.card')")
        assert await page.run(COVERED_BADGE) == "", f"in a window {height} pixels high"
    await page.call("Emulation.clearDeviceMetricsOverride")
    await page.click(".badge")
    await page.wait_for("document.activeElement.getAttribute('role') === 'dialog'")
    # The stored text beside the answer, at the quote.
    await page.run("document.querySelector('.card-actions button').click()")
    assert await text(page, ".reader mark") == QUOTE
    assert await page.run("document.querySelector('.reader pre').textContent") == POLICY
    await page.press("Escape")
    await page.wait_for("!document.querySelector('.reader')")
    # The original, as it was uploaded.
    await page.click(".badge")
    link = await page.wait_for("document.querySelector('.card-actions a')?.href")
    assert await page.run(f"fetch({json.dumps(link)}).then(response => response.text())") == POLICY


async def test_a_marker_that_is_cut_anywhere_never_shows(page: DrivenPage, model: ScriptedModel) -> None:
    marker = "[ref:1]"
    cuts = [(f"Abroad it is 62 euros, {cut}. ", marker[:cut], f"{marker[cut:]}\n\n") for cut in range(1, len(marker))]
    model.say(*(piece for cut in cuts for piece in cut), *"No markers: ", *"[re", "fs] [", "]")
    await page.run(
        "window.seen = ''; new MutationObserver(() => (seen += document.querySelector('.prose')?.textContent + '\\n'))"
        ".observe(document.body, {subtree: true, childList: true, characterData: true})"
    )
    model.pause = 0.05  # so that each piece is painted on its own
    await ask(page, QUESTION)
    model.pause = 0.01
    seen: str = await page.run("window.seen")
    assert len(seen.splitlines()) > len(cuts)
    assert "[" not in seen.split("No markers", 1)[0]
    assert "[ref:" not in seen
    assert "[refs] []" in await text(page, ".prose"), "what isn't a marker is shown"
    assert await page.run("document.querySelectorAll('.prose .badge').length") == len(cuts)


async def test_right_to_left(page: DrivenPage, stack: LocalStack, model: ScriptedModel) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        await upload_bytes(http, "אש.md", "# בטיחות\n\nמטף הכיבוי נמצא ליד הדלת האדומה.\n".encode())
    model.say(
        "מטף הכיבוי נמצא ליד הדלת האדומה. [ref:1]\n\n- ראשון\n- שני\n\n",
        "In English again.\n\n| א | b |\n|---|---|\n| ב | d |\n",
    )
    await ask(page, "היכן נמצא מטף הכיבוי?")
    directions = await page.run(
        "[...document.querySelectorAll('.question, .prose p, .prose li, .prose th')]"
        ".map(each => getComputedStyle(each).direction)"
    )
    assert directions == ["rtl", "rtl", "rtl", "rtl", "ltr", "rtl", "ltr"]
    first, second = [
        await page.run(f"document.querySelector('.prose th:nth-child({number})').getBoundingClientRect().x")
        for number in (1, 2)
    ]
    assert first > second, "a table that begins in Hebrew has its first column at the right"
    box = "document.querySelector('.prose p').getBoundingClientRect()"
    badge = "document.querySelector('.prose p .badge').getBoundingClientRect()"
    assert await page.run(f"{badge}.x < {box}.x + {box}.width / 2"), "the badge is at the end of the sentence: left"
    await page.click(".badge")
    assert await page.wait_for("getComputedStyle(document.querySelector('.card .passage')).direction") == "rtl"
    rooms = [
        f"parseFloat(getComputedStyle(document.querySelector('{selector}')).paddingRight)"
        for selector in (".prose ul", ".card h2")
    ]
    assert min(await page.run(f"[{', '.join(rooms)}]")) > 20, "there is room for the list's markers and for the button"


async def test_arabic_with_numbers_markers_and_code(page: DrivenPage, stack: LocalStack, model: ScriptedModel) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        await upload_bytes(http, "بدل.md", "# السفر\n\nبدل الطعام في الخارج 62 يورو في اليوم.\n".encode())
    model.say(
        "بدل الطعام في الخارج 62 يورو في اليوم. [re", "f:1] ويطلب من `GET /v1/usage?a=1` كل يوم (حتى 12.5 %).\n\n",
        "```sh\ncurl -N http://localhost # تعليق\n```\n\n1. أولا: `x = 1`\n2. ثانيا\n",
    )  # fmt: skip
    await ask(page, "كم يبلغ بدل الطعام في الخارج؟")
    styles = await page.run(
        "[...document.querySelectorAll('.question, .prose p, .prose p > code, .prose pre code, .prose li > code')]"
        ".map(element => getComputedStyle(element)).map(style => [style.direction, style.unicodeBidi])"
    )
    assert styles == [[direction, "isolate"] for direction in ("rtl", "rtl", "ltr", "ltr", "ltr")]
    places = [
        f"document.querySelector('.prose p > {selector}').getBoundingClientRect()"
        for selector in (".badge, .prose sup", "code")
    ]
    assert await page.run(f"{places[0]}.x > {places[1]}.x || {places[0]}.y < {places[1]}.y"), (
        "what follows is to its left"
    )
    assert "يورو في اليوم. ①" in await text(page, ".prose p")
    await page.click(".badge")
    assert "62 يورو" in await text(page, ".card mark")
    assert await page.run("getComputedStyle(document.querySelector('.card h2')).direction") == "rtl"


async def test_suggested_questions_are_asked_and_details_open(page: DrivenPage, model: ScriptedModel) -> None:
    model.say("Nothing says that. You could ask:\n\n", "- How much is a meal abroad?\n- <b>Who</b> approves it?\n")
    await ask(page, QUESTION)
    asked = "[...document.querySelectorAll('.suggestions button')].map(each => each.textContent)"
    assert await page.run(asked) == ["How much is a meal abroad?", "<b>Who</b> approves it?"]
    assert await page.run("document.querySelectorAll('.prose li').length") == 0, "the suggestions aren't shown twice"
    assert not await page.run("document.querySelector('.details').open")
    assert " tokens" in await text(page, ".details summary")
    await page.run("document.querySelector('.details summary').focus()")
    await page.press("Enter", "\r")
    await page.wait_for("document.querySelector('.details').open")
    assert "90 read, 12 written" in await text(page, ".details dl")
    model.say(*ANSWER)
    await press_named(page, ".suggestions button", "How much is a meal abroad?")
    await page.wait_for(f"document.querySelectorAll('.answer').length === 2 && {QUIET}")
    assert (
        await page.run("[...document.querySelectorAll('.question')].at(-1).textContent") == "How much is a meal abroad?"
    )


async def test_by_touch(page: DrivenPage) -> None:
    await page.call("Emulation.setDeviceMetricsOverride", width=390, height=780, deviceScaleFactor=1, mobile=True)
    await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    await ask(page, QUESTION)
    box = "document.querySelector('.badge').getBoundingClientRect()"
    x, y = await page.run(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
    await page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    await page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert await text(page, ".card mark") == QUOTE


async def test_a_reload_a_deep_link_and_the_history(page: DrivenPage, stack: LocalStack) -> None:
    await ask(page, QUESTION)
    address = await page.wait_for("location.hash.startsWith('#/c/') && location.href")
    await page.call("Page.reload")
    assert "62 euros per day. ①" in await text(page, ".prose")
    await page.go(f"{stack.base_url}/#/library")
    await page.wait_for("document.querySelectorAll('.documents a').length > 0")
    await page.go(address)
    assert "It is paid in gold" in await text(page, ".uncited")
    await page.wait_for("!!document.querySelector('.conversations .here .icon')")
    await page.click(".conversations .here .icon")
    await page.run("document.querySelector('.entry-menu button').click()")
    await page.wait_for("document.activeElement.matches('.conversations input')")
    await page.run("document.activeElement.select()")
    await page.type_text("Per diem")
    await page.press("Enter", "\r")
    await page.wait_for("document.querySelector('.conversations .here a')?.textContent === 'Per diem'")
    await page.run("document.querySelector('.sidebar input[type=search]').focus()")
    await page.type_text("diem")
    await page.wait_for("document.querySelectorAll('.conversations a').length === 1")
    await page.click(".conversations .here .icon")
    await page.run("document.querySelector('.entry-menu .danger').click()")
    await page.wait_for("!!document.querySelector('.entry-menu p')")
    await page.run("document.querySelector('.entry-menu .danger').click()")
    await page.wait_for("!location.hash.startsWith('#/c/') && !!document.querySelector('.hello')")


@pytest.mark.client("chromium", "Reads a run from its first event, without a gap")
async def test_an_answer_goes_on_after_a_reload(page: DrivenPage, model: ScriptedModel) -> None:
    model.say("Word after word, ", endless=True)
    await page.run("document.querySelector('#question').focus()")
    await page.type_text(QUESTION)
    await page.press("Enter")
    long = "document.querySelector('.prose')?.textContent.length > {}"
    await page.wait_for("location.hash.startsWith('#/c/') && " + long.format(200))
    before = await page.run("document.querySelector('.prose').textContent.length")
    await page.call("Page.reload")
    await page.wait_for(long.format(before + 200))
    assert not model.left_at
    assert await page.run("document.querySelector('.answer').getAttribute('aria-busy')") == "true"
    # Chromium's own EventSource reads the run from its first frame without a gap.
    numbers = await page.run(
        """fetch('/v1/conversations/' + location.hash.slice(4)).then(response => response.json()).then(page =>
        new Promise((resolve, reject) => {
            const source = new EventSource(`/v1/chat/${page.run_id}/events`), numbers = []
            const note = event => {
                numbers.push(Number(event.lastEventId))
                if (numbers.length == 60) { source.close(); resolve(numbers) }
            }
            for (const name of ['conversation', 'step', 'citations', 'token']) source.addEventListener(name, note)
            source.onerror = reject
        }))"""
    )
    assert numbers == list(range(1, 61))
    stopped = time.monotonic()
    await page.click(".composer .primary")
    await page.wait_for(QUIET)
    while not model.left_at:
        assert time.monotonic() < stopped + 5
        await page.run("1")
    assert model.left_at - stopped < 1
    await page.call("Page.reload")
    await page.wait_for(long.format(before))
    await page.wait_for("document.querySelector('.answer').getAttribute('aria-busy') === 'false'")


async def test_stopping_reaches_the_model(page: DrivenPage, model: ScriptedModel) -> None:
    model.say("Word after word, ", endless=True)
    await page.run("document.querySelector('#question').focus()")
    await page.type_text(QUESTION)
    await page.press("Enter")
    await page.wait_for("document.querySelector('.prose')?.textContent.includes('word, Word')")
    assert await page.run("document.querySelector('.answer').getAttribute('aria-busy')") == "true"
    assert await page.run("document.getAnimations().length") > 0
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    await page.call("Emulation.setEmulatedMedia", features=still)
    assert await page.run("document.getAnimations().length") == 0
    await page.click(".composer .primary")
    stopped = time.monotonic()
    await page.wait_for(QUIET)
    while not model.left_at:
        assert time.monotonic() < stopped + 5
        await page.run("1")
    assert model.left_at - stopped < 1
    assert "Stopped." in await text(page, ".answer > .quiet")
    model.say(*ANSWER)
    await page.click(".actions .link")
    await page.wait_for("document.querySelectorAll('.badge').length > 0")


async def test_a_failure_is_a_toast_and_can_be_tried_again(page: DrivenPage, model: ScriptedModel) -> None:
    model.status = 400
    await ask(page, QUESTION)
    assert await text(page, ".toast.error") != ""
    assert "The answer failed." in await text(page, ".fault")
    model.say(*ANSWER)
    await page.click(".actions .link")
    await page.wait_for("document.querySelectorAll('.badge').length > 0")
    assert await page.run("document.querySelectorAll('.fault').length") == 0


async def test_malformed_frames_are_passed_over(page: DrivenPage) -> None:
    await page.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/chat", "requestStage": "Response"}])
    await page.run("document.querySelector('#question').focus()")
    await page.type_text(QUESTION)
    await page.press("Enter")
    paused = await page.event("Fetch.requestPaused")
    got = await page.call("Fetch.getResponseBody", requestId=paused["requestId"])
    body = base64.b64decode(got["body"]).decode() if got["base64Encoded"] else got["body"]
    broken = body.replace(
        "event: token", 'event: token\ndata: {"text": \n\nevent: nonsense\ndata: 1\n\nevent: token', 1
    )
    broken = broken.replace("event: usage", "event: usage\ndata: [not json]\n\nevent: usage", 1)
    assert broken.count("\n") > body.count("\n") + 4
    await page.call(
        "Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=200,
        responseHeaders=[{"name": "Content-Type", "value": "text/event-stream"}],
        body=base64.b64encode(broken.encode()).decode(),
    )  # fmt: skip
    await page.wait_for(QUIET)
    assert "is 62 euros per day. ①" in await text(page, ".prose")
    assert await page.run("document.querySelectorAll('.toast').length") == 0


async def test_enter_in_an_input_method_sends_no_question(page: DrivenPage) -> None:
    await page.run("document.querySelector('#question').focus()")
    await page.type_text("東京の")
    for flags in ("{isComposing: true}", "{keyCode: 229}", "{shiftKey: true}"):
        event = f"new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true, ...{flags}}})"
        await page.run(f"document.activeElement.dispatchEvent({event})")
    await page.call("Input.imeSetComposition", text="かいぎ", selectionStart=3, selectionEnd=3)
    await page.press("Enter")  # as one confirms a word in an input method
    await page.type_text("会議は何時ですか")
    assert await page.run("document.querySelectorAll('.answer').length") == 0
    await page.press("Enter")
    await page.wait_for(QUIET)
    assert await text(page, ".question") == "東京の会議は何時ですか"
    # The history's search finds a word inside a text without spaces.
    for words, count in (("会議", 1), ("会館", 0)):
        await fill(page, ".sidebar input[type=search]", words)
        await page.wait_for(f"document.querySelectorAll('.conversations a').length === {count}")
    await fill(page, ".sidebar input[type=search]", "")


async def test_a_question_is_edited_and_answered_again_by_another_profile(page: DrivenPage) -> None:
    await ask(page, QUESTION)
    await press_named(page, ".asked button", "Edit and ask again")
    await page.wait_for("document.activeElement.matches('.editing textarea')")
    assert await page.run("document.activeElement.value") == QUESTION
    await fill(page, ".editing textarea", "How much is it\nat home?")
    await page.press("Escape")
    await page.wait_for("!document.querySelector('.editing')")
    await press_named(page, ".asked button", "Edit and ask again")
    await fill(page, ".editing textarea", "How much is it\nat home?")
    await press_named(page, ".editing button", "Ask")
    await page.wait_for(f"document.querySelectorAll('.answer').length === 2 && {QUIET}")
    await choose(page, ".composer select", "documents")
    await page.run("[...document.querySelectorAll('.turn:last-of-type .actions .link')][0].click()")
    await page.wait_for(f"document.querySelectorAll('.answer').length === 3 && {QUIET}")
    sent = [event["params"]["request"] for event in page.events if event["method"] == "Network.requestWillBeSent"]
    asked = [json.loads(request["postData"]) for request in sent if request["url"].endswith("/v1/chat")]
    assert [(body["question"], body["profile"]) for body in asked] == [
        (QUESTION, "grounded"), ("How much is it\nat home?", "grounded"), ("How much is it\nat home?", "documents"),
    ]  # fmt: skip
    assert len({body.get("conversation_id") for body in asked[1:]} - {None}) == 1, "all in one conversation"
    questions = "[...document.querySelectorAll('.question')].map(each => each.textContent)"
    assert await page.run(questions) == [body["question"] for body in asked]
    assert await page.run("getComputedStyle(document.querySelector('.question')).whiteSpaceCollapse") == "preserve"


async def test_files_are_added_with_progress_and_reasons(page: DrivenPage, stack: LocalStack, tmp_path: Path) -> None:
    (tmp_path / "tides.md").write_text("# Tides\n\nHigh water comes six hours after low water.\n")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of a file")
    await page.go(f"{stack.base_url}/#/library")
    await page.wait_for("!!document.querySelector('input[type=file]')")
    root = (await page.call("DOM.getDocument"))["root"]["nodeId"]
    field = await page.call("DOM.querySelector", nodeId=root, selector="input[type=file]")
    files = [str(tmp_path / name) for name in ("tides.md", "broken.pdf")]
    await page.call("DOM.setFileInputFiles", files=files, nodeId=field["nodeId"])
    state = "[...document.querySelectorAll('.rows:not(.documents) .state')].map(state => state.className)"
    await page.wait_for(f"{state}.filter(name => /ready|failed/.test(name)).length === 2")
    assert sorted(await page.run(state)) == ["state failed", "state ready"]
    assert await text(page, ".rows:not(.documents) .fault") != ""
    await page.wait_for("[...document.querySelectorAll('.documents a')].some(link => link.textContent === 'Tides')")
    await page.run("[...document.querySelectorAll('.documents a')].find(link => link.textContent === 'Tides').click()")
    assert "High water comes six hours" in await text(page, ".chunk")


READING = """(() => {
  const real = window.fetch, pages = {stage: 'parse', done: 12, total: 300};
  window.looks = 0;
  window.reading = true;
  window.fetch = async (...request) => {
    const response = await real(...request);
    if (new URL(response.url).pathname !== '/v1/documents') return response;
    window.looks += 1;
    if (!window.reading) return response;
    const body = await response.json();
    Object.assign(body.documents[0], {status: 'processing', progress: pages});
    return new Response(JSON.stringify(body), response);
  };
})()"""
"""Shows the newest listed document as one with 12 of 300 pages read, until `reading` is false."""


async def test_a_listed_document_shows_its_progress_until_it_is_ready(
    page: DrivenPage, stack: LocalStack, axe: str
) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        await upload_bytes(http, "tides.md", b"# Tides\n\nThey come twice a day.\n")
    await page.call("Page.addScriptToEvaluateOnNewDocument", source=READING)
    await page.call("Page.reload")
    await page.wait_for("window.reading === true")
    await page.go(f"{stack.base_url}/#/library")
    await page.wait_for("!!document.querySelector('.documents progress')")
    row = "document.querySelector('.documents > li:first-child')"
    assert await page.run(f"{row}.querySelector('.state').textContent") == "Processing, 12 of 300 pages"
    bar = await page.run(f"(bar => [bar.value, bar.max, bar.ariaValueText])({row}.querySelector('progress'))")
    assert bar == [12, 300, "Processing, 12 of 300 pages"]
    await page.run(f"{axe}; undefined")
    assert await violations(page) == []
    await page.wait_for("window.looks > 2")
    await page.run("window.reading = false")
    await page.wait_for(f"{row}.querySelector('.state').textContent === 'Ready'")
    assert await page.run("document.querySelectorAll('.documents progress').length") == 0


async def test_files_are_added_by_their_url(page: DrivenPage, stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        stored = await upload_bytes(http, "moon.md", b"# The moon\n\nIt pulls the sea.\n")
    await page.go(f"{stack.base_url}/#/library")
    await fill(page, "#from-address", "file:///etc/passwd")
    await press_named(page, ".page button", "Fetch")
    assert await page.run("document.querySelector('#from-address').matches(':invalid')")
    own = f"{stack.base_url}/v1/documents/{stored['id']}/content"
    for address, state in ((own, "ready"), ("http://10.0.0.1/report.pdf?<b>", "failed")):
        await fill(page, "#from-address", address)
        await fill(page, "#with-tags", "by address")
        await press_named(page, ".page button", "Fetch")
        await page.wait_for(f"!!document.querySelector('.rows:not(.documents) > li:first-child .{state}')")
        assert address in await text(page, ".rows:not(.documents) > li:first-child .name")
    assert "may not connect" in await text(page, ".rows:not(.documents) > li:first-child .fault")
    await page.wait_for("document.querySelector('.documents li .tag')?.textContent === 'by address'")
    assert await page.run("document.querySelector('#from-address').value") == ""
    assert await page.run("document.querySelectorAll('.rows:not(.documents) > li').length") == 2


async def test_own_models_are_tested_chosen_beside_the_question_and_removed(
    page: DrivenPage, stack: LocalStack, model: ScriptedModel
) -> None:
    await page.go(f"{stack.base_url}/#/account")
    for name in ("first-model", "second-model"):
        await page.wait_for("document.querySelectorAll('.add-provider input').length === 4")
        await choose(page, ".add-provider label:nth-child(2) select", "openai-compatible")
        for number, value in enumerate((name, model.url, KEY, name)):
            await page.run(f"document.querySelectorAll('.add-provider input')[{number}].focus()")
            await page.type_text(value)
        await press_named(page, ".add-provider button", "Test and save")  # wait until the first one is saved
        await page.wait_for(f"document.querySelector('.providers')?.textContent.includes('{name}')")
        assert await page.run("document.querySelectorAll('.add-provider input')[2].value") == "", "the key is cleared"
    states = "[...document.querySelectorAll('.providers > li')].map(row => row.textContent)"
    shown = await page.run(states)
    assert [("Works" in row, "In use" in row) for row in shown] == [(True, True), (True, False)]
    assert "second-model" in shown[0]
    assert KEY not in await page.run("document.documentElement.outerHTML")
    # A saved one is tested again: the page stores the result and shows it in words.
    model.status = 401
    await press_named(page, ".providers button", "Test second-model")
    await page.wait_for("document.querySelector('.providers [role=status] .fault')?.textContent.length > 20")
    assert "Test failed" in (await page.run(states))[0]
    model.status = 200
    await page.wait_for("!document.querySelector('.providers button:disabled')")
    await press_named(page, ".providers button", "Test second-model")
    await page.wait_for(f"{states}[0].includes('Works')")
    await page.go(f"{stack.base_url}/#/")
    choice = "[...document.querySelectorAll('.composer select')].at(-1)"
    await page.wait_for(f"{choice}?.value === 'second-model'")
    await ask(page, QUESTION)
    assert model.models[-1] == "second-model"
    await page.run(
        f"(() => {{ const choice = {choice}; choice.value = 'first-model';"
        " choice.dispatchEvent(new Event('change', {bubbles: true})) })()"
    )
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:

        async def is_active() -> bool:
            return (await http.get("/v1/providers/chat")).json()["name"] == "first-model"

        await wait_until(is_active)
    await ask(page, QUESTION)
    assert model.models[-1] == "first-model"
    await page.go(f"{stack.base_url}/#/account")
    assert "Tokens per day" in await page.wait_for("document.querySelector('.chart svg')?.ariaLabel")
    assert await page.run("document.querySelectorAll('.chart rect').length") >= 2, "a bar for each model"
    # Back to the server's own model; the user's own stays saved.
    await press_named(page, ".providers button", "Stop using")
    await page.wait_for(f"{states}.length === 2 && !{states}.some(row => row.includes('In use'))")
    await page.go(f"{stack.base_url}/#/")
    await page.wait_for("!!document.querySelector('#question')")
    await ask(page, QUESTION)
    assert model.models[-1] == "scripted", "the server's own model answered"
    await page.go(f"{stack.base_url}/#/account")
    for left in (1, 0):
        await page.wait_for("!!document.querySelector('.providers .link')")
        await page.run("document.querySelector('.providers .link').click()")
        await page.wait_for("!!document.querySelector('.providers .danger')")
        await page.run("document.querySelector('.providers .danger').click()")
        await page.wait_for(f"document.querySelectorAll('.providers strong').length === {left}")


async def test_hostile_texts_are_shown_as_text(page: DrivenPage, stack: LocalStack, model: ScriptedModel) -> None:
    """As an answer, a question, a document, its name and title, a conversation's title, and a model's error."""
    name = f'"><img src=x onerror={SCRIPT}>.md'
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        content = "# <script>window.hacked=1</script>\n\nThe zorblax fee is 77 euros.\n\n" + "\n\n".join(HOSTILE)
        await upload_bytes(http, name, content.encode())
        article = {"type": "article", "title": HOSTILE[1], "content": "A quiet text.", "tags": [HOSTILE[2][:60]]}
        (await http.post("/v1/documents", json=article)).raise_for_status()
        await upload_bytes(http, "photo.md", "# photo\u202egpj.exe\n\nWhat its name hides.\n".encode())
    await page.run("addEventListener('securitypolicyviolation', event => (window.violated = event.violatedDirective))")
    model.say("The zorblax fee is 77 euros. [ref:1]\n\n", *(f"{text}\n\n" for text in HOSTILE))
    await ask(page, f"What is the zorblax fee? <img src=x onerror={SCRIPT}>")
    shown = await text(page, ".prose")
    for piece in ("<script>window.hacked=1</script>", "<img src=x onerror", "<meta http-equiv"):
        assert piece in shown, "it is shown as written"
    links_shown = await page.run(
        "[...document.querySelectorAll('.prose a')].map(link => [link.protocol, link.rel, link.target])"
    )
    assert {tuple(link) for link in links_shown} <= {
        (protocol, "noopener noreferrer nofollow", "_blank") for protocol in ("http:", "https:", "mailto:")
    }
    assert links_shown
    await page.click(".badge")
    await page.wait_for("!!document.querySelector('.card mark')")
    await page.run("document.querySelector('.card-actions button').click()")
    await page.wait_for("!!document.querySelector('.reader mark')")
    own = (
        "document.querySelectorAll('main :is(img, script, iframe, svg, style, link, meta, math, object, embed)').length"
    )
    assert await page.run(own) == 0
    model.status = 400
    await ask(page, "And now?")
    await page.call("Page.reload")
    await page.wait_for(f"{READY} && document.querySelectorAll('.badge').length > 0")
    await page.go(f"{stack.base_url}/#/library")
    await page.wait_for(
        "[...document.querySelectorAll('.documents a')].some(link => link.textContent.includes('hacked'))"
    )
    await page.run(
        "[...document.querySelectorAll('.documents a')].find(link => link.textContent.includes('hacked')).click()"
    )
    await page.wait_for("document.querySelectorAll('.chunk').length > 0")
    assert await page.run(own) == 0
    await page.go(f"{stack.base_url}/#/library")
    names = "[...document.querySelectorAll('.documents .name')].map(name => name.textContent).join('')"
    await page.wait_for(f"{names}.includes('photogpj.exe') && {names}.includes({json.dumps(HOSTILE[1])})")
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(await page.run(names))
    assert await page.run("window.violated") is None, "the policy had to refuse nothing"


async def test_axe_finds_nothing(
    page: DrivenPage, stack: LocalStack, axe: str, subtests: pytest.Subtests, proof: ProofScale
) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        article = {"type": "article", "title": "שכר 2026", "content": "The wages rise in May.", "collection": "שכר"}
        wages = (await http.post("/v1/documents", json=article)).raise_for_status().json()["id"]
        readers = {"readers": ["user:ada", "group:hr"]}
        (await http.patch(f"/v1/documents/{wages}", json=readers)).raise_for_status()
        grants = [{"subject": "user:local", "access": "manage"}, {"subject": "group:hr", "access": "read"}]
        (await http.put("/v1/collections/שכר/grants", json={"grants": grants})).raise_for_status()
    await ask(page, QUESTION)
    conversation = await page.wait_for("location.hash.startsWith('#/c/') && location.hash")
    views: dict[str, tuple[str, str]] = {
        "new": ("#/", "!!document.querySelector('.hello')"),
        "conversation": (conversation, "document.querySelectorAll('.badge').length > 0"),
        "card": (
            conversation,
            "!!document.querySelector('.card mark') || (document.querySelector('.badge')?.click(), false)",
        ),
        "text": (
            conversation,
            "!!document.querySelector('.reader mark')"
            " || (document.querySelector('.card-actions button')?.click(), false)",
        ),
        "feedback": (
            conversation,
            "!!document.querySelector('.feedback') || (document.querySelector('.thumb.down')?.click(), false)",
        ),
        "details": (
            conversation,
            "!!document.querySelector('.details[open] dl')"
            " || (document.querySelector('.details summary')?.click(), false)",
        ),
        "editing": (
            conversation,
            "!!document.querySelector('.editing') || (document.querySelector('.asked .link')?.click(), false)",
        ),
        "menu": (
            conversation,
            "!!document.querySelector('.entry-menu')"
            " || (document.querySelector('.conversations .icon')?.click(), false)",
        ),
        "library": ("#/library", "document.querySelectorAll('.documents a').length > 0"),
        "address": (
            "#/library",
            "document.activeElement.matches('#from-address:invalid')"
            " || (document.querySelector('#from-address')?.focus(), false)",
        ),
        "members": (
            "#/library",
            f"document.querySelectorAll('dialog .subjects select').length === 2 || ({OPEN_GRANTS}, false)",
        ),
        "readers": (
            f"#/library/{wages}",
            "document.querySelectorAll('dialog .subjects .name').length === 2 || (!document.querySelector('dialog')"
            " && document.querySelector('.page .tools button:last-child')?.click(), false)",
        ),
        "deleting": (
            "#/library",
            "!!document.querySelector('.documents .danger')"
            " || (document.querySelector('.documents .link')?.click(), false)",
        ),
        "document": (
            "#/library",
            "!!document.querySelector('.chunk') || (document.querySelector('.documents a')?.click(), false)",
        ),
        "account": (
            "#/account",
            "!!document.querySelector('#theme') && document.querySelectorAll('.page h2').length > 1",
        ),
        "sharing": (
            conversation,
            "!!document.querySelector('dialog .subjects') || (document.querySelector('.conversations .here .icon')"
            "?.click(), [...document.querySelectorAll('.entry-menu button')][1]?.click(), false)",
        ),
    }
    looks = list(itertools.product(("en", "de"), ("light", "dark"), (390, 1280)))
    # These four cover every pair of language, scheme and width.
    for language, scheme, width in looks if proof.full else [looks[place] for place in (0, 3, 5, 6)]:
        await page.run(f"localStorage.setItem('citewire.language', '{language}')")
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await page.call("Emulation.setEmulatedMedia", features=features)
        await page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        await page.call("Page.reload")
        await page.wait_for("document.readyState === 'complete' && !!document.querySelector('.sidebar')")
        await page.run(f"{axe}; undefined")
        for view, (place, there) in views.items():
            # Close what is open over or beside the page, unless the next view needs it.
            await page.run("document.querySelector('dialog')?.close()")
            if place != conversation:
                await page.run("document.querySelector('.reader header > .icon')?.click()")
            await page.wait_for("!document.querySelector('dialog')")
            await page.run(f"location.hash = {json.dumps(place)}")
            await page.wait_for(there, every=0.1)
            with subtests.test(language=language, scheme=scheme, width=width, view=view):
                assert await page.run("document.documentElement.lang") == language
                wide = await page.run("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, "nothing is wider than the window"
                assert await violations(page) == []
