"""A page of a real Chromium that a test drives, over the browser's own DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

Json = dict[str, Any]
_SECONDS = 60.0
_STATE = """(() => {
    const tag = element => element?.outerHTML.slice(0, 200) ?? null;
    const shown = element => {
        const {x, y, width, height} = element.getBoundingClientRect();
        const middle = document.elementFromPoint(x + width / 2, y + height / 2);
        return {element: tag(element), box: [x, y, width, height].join(" "), at_its_middle: tag(middle)};
    };
    return {
        address: location.href,
        window: `${innerWidth} ${innerHeight}`,
        has_focus: document.hasFocus(),
        active: tag(document.activeElement),
        shown: [...document.querySelectorAll(".card, dialog, .reader, .toast, .badge")].slice(0, 8).map(shown),
    };
})()"""


class DrivenPage:
    """A page: its navigation, and the results of scripts in it."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, browser: aiohttp.ClientWebSocketResponse, context: str
    ) -> None:
        self._socket = socket
        self._browser = browser
        self.context = context
        """Names the page's cookies, stored values and cache to the browser."""
        self._numbers = itertools.count(1)
        self._mouse: list[str] = []
        self.events: list[Json] = []
        """The browser's events, oldest first, from the domains that a test has enabled."""

    async def call(self, method: str, **params: object) -> Json:
        """Calls a method of the protocol; events received meanwhile are recorded."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(_SECONDS):
            while True:
                message: Json = json.loads(await self._socket.receive_str())
                if "method" in message:
                    self.events.append(message)
                if message.get("id") == number:
                    assert "error" not in message, message
                    return message["result"]

    async def event(self, method: str) -> Json:
        """Waits for the browser's next event with this name, and takes it from `events`."""
        async with asyncio.timeout(_SECONDS):
            while True:
                for number, message in enumerate(self.events):
                    if message["method"] == method:
                        return self.events.pop(number)["params"]
                self.events.append(json.loads(await self._socket.receive_str()))

    async def go(self, url: str) -> None:
        """Navigates, as if the URL had been typed."""
        await self.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:  # noqa: ANN401 # a script's result has any type
        """Evaluates an expression in the page; a promise is awaited."""
        result = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def wait_for(self, script: str, every: float = 0.03) -> Any:  # noqa: ANN401 # a script's result has any type
        """Evaluates an expression until it is true, even if pages change meanwhile.

        An expression that presses something itself gives the page time with a larger `every`, in seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while True:
                    with contextlib.suppress(AssertionError):
                        if value := await self.run(script):
                            return value
                    await asyncio.sleep(every)
        pytest.fail(f"not within {_SECONDS:.0f} s: {script}\n{await self._state()}")

    async def _state(self) -> str:
        """The state of the page, for a wait that failed."""
        state: Json = await self.run(_STATE)
        return json.dumps(state | {"mouse": self._mouse}, indent=1, ensure_ascii=False)

    async def press(self, key: str, text: str = "") -> None:
        """Presses and releases a key, as a keyboard does; `text` is what it types."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0), "text": text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **named)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    async def type_text(self, text: str) -> None:
        """Types into the focused element."""
        await self.call("Input.insertText", text=text)

    async def move_to(self, selector: str) -> tuple[float, float]:
        """Moves the mouse to the middle of an element, and returns that position."""
        script = f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "nearest"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        x, y = await self.run(script)
        self._mouse = [*self._mouse[-4:], f"{selector} at {x:.0f}, {y:.0f}"]
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    async def click(self, selector: str) -> None:
        """Clicks an element with the mouse."""
        x, y = await self.move_to(selector)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def cookies(self) -> list[Json]:
        """All cookies of the page, including those hidden from scripts."""
        asked = await _call(self._browser, "Storage.getCookies", browserContextId=self.context)
        return asked["cookies"]


class Chromium:
    """A running Chromium: each page has cookies, stored values and a cache of its own."""

    def __init__(self, port: int, path: str) -> None:
        self._url = f"ws://127.0.0.1:{port}"
        self._path = path

    @asynccontextmanager
    async def page(self) -> AsyncGenerator[DrivenPage]:
        """Opens an empty page, and closes it with all its data."""
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{self._url}{self._path}") as browser:
            # It ends with this connection, whatever happens to the test.
            made = await _call(browser, "Target.createBrowserContext", disposeOnDetach=True)
            context: str = made["browserContextId"]
            target = await _call(browser, "Target.createTarget", url="about:blank", browserContextId=context)
            address = f"{self._url}/devtools/page/{target['targetId']}"
            async with http.ws_connect(address, max_msg_size=0) as socket:
                page = DrivenPage(socket, browser, context)
                await page.call("Page.bringToFront")
                yield page
            await _call(browser, "Target.disposeBrowserContext", browserContextId=context)


async def _call(browser: aiohttp.ClientWebSocketResponse, method: str, **params: object) -> Json:
    """Calls a method of the browser itself; it sends no events."""
    await browser.send_json({"id": 1, "method": method, "params": params})
    async with asyncio.timeout(_SECONDS):
        message: Json = json.loads(await browser.receive_str())
    assert "error" not in message, message
    return message["result"]


@contextmanager
def running_chromium(profile: Path) -> Generator[Chromium]:
    """Starts a Chromium without a window, and ends it."""
    profile.mkdir(parents=True, exist_ok=True)
    browser = subprocess.Popen(
        [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--no-proxy-server", "--disable-background-networking", "--no-startup-window", "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port_file, deadline = profile / "DevToolsActivePort", time.monotonic() + _SECONDS
        while not (port_file.exists() and len(port_file.read_text().splitlines()) == 2):
            assert browser.poll() is None, f"Chromium ended with {browser.returncode}"
            assert time.monotonic() < deadline, "Chromium doesn't listen"
            time.sleep(0.02)  # nothing announces the file
        port, path = port_file.read_text().splitlines()
        yield Chromium(int(port), path)
    finally:
        browser.terminate()
        browser.wait(_SECONDS)


@asynccontextmanager
async def driven_page(profile: Path) -> AsyncGenerator[DrivenPage]:
    """Starts a Chromium with one page, and ends it."""
    with running_chromium(profile) as chromium:
        async with chromium.page() as page:
            yield page
