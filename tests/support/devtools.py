"""A page of a real Chromium that a test drives, over the browser's own DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from waiting import wait_until

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
    """A page: where it goes, and what a script in it says."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._mouse: list[str] = []
        self.events: list[Json] = []
        """What the browser has told unasked, of the domains that a test has enabled; oldest first."""

    async def call(self, method: str, **params: object) -> Json:
        """Calls a method of the protocol; events that come meanwhile are noted."""
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
        """Waits for what the browser tells next under this name, and takes it from `events`."""
        async with asyncio.timeout(_SECONDS):
            while True:
                for number, message in enumerate(self.events):
                    if message["method"] == method:
                        return self.events.pop(number)["params"]
                self.events.append(json.loads(await self._socket.receive_str()))

    async def go(self, url: str) -> None:
        """Navigates, as if the address was typed."""
        await self.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:  # noqa: ANN401 # what a script says is of any kind
        """Evaluates an expression in the page; a promise is waited for."""
        result = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def wait_for(self, script: str) -> Any:  # noqa: ANN401 # whatever the script says
        """Evaluates an expression until it is true; pages come and go meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while True:
                    with contextlib.suppress(AssertionError):
                        if value := await self.run(script):
                            return value
                    await asyncio.sleep(0.1)
        pytest.fail(f"not within {_SECONDS:.0f} s: {script}\n{await self._state()}")

    async def _state(self) -> str:
        """What the page was like when something was waited for in vain."""
        state: Json = await self.run(_STATE)
        return json.dumps(state | {"mouse": self._mouse}, indent=1, ensure_ascii=False)

    async def press(self, key: str, text: str = "") -> None:
        """Presses and releases a key, as a keyboard does; `text` is what it types."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0), "text": text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **named)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    async def type_text(self, text: str) -> None:
        """Types into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def move_to(self, selector: str) -> tuple[float, float]:
        """Moves the mouse to the middle of an element, and returns where that is."""
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
        """All cookies that the browser has, also those that no script sees."""
        return (await self.call("Storage.getCookies"))["cookies"]


@asynccontextmanager
async def driven_page(profile: Path) -> AsyncGenerator[DrivenPage]:
    """Starts a Chromium with one page, and ends it."""
    browser = await asyncio.create_subprocess_exec(
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--no-proxy-server", "--disable-background-networking", "--remote-debugging-port=0",
        f"--user-data-dir={profile}", "about:blank",
        stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    try:
        port_file = profile / "DevToolsActivePort"
        await wait_until(lambda: port_file.exists() and bool(port_file.read_text()), _SECONDS)
        port = int(port_file.read_text().splitlines()[0])
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as response:
                pages = [target for target in await response.json() if target["type"] == "page"]
            async with http.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield DrivenPage(socket)
    finally:
        with contextlib.suppress(ProcessLookupError):
            browser.terminate()
        await browser.wait()
