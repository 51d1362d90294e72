"""A chat model that echoes the question's word: for tests in which many streams run at once and must stay separate.

It serves OpenAI's API on a separate thread. A question that contains a word like `Q-self-rag-7` is answered with that
word repeatedly, each time with a marker; requests for a decision or a judgement get JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

MODEL = "echo"
WORDS = 12
_ASKER = re.compile(r"Q-[a-z-]+-\d+")
_USAGE = {"prompt_tokens": 50, "completion_tokens": WORDS, "total_tokens": 50 + WORDS}


class EchoModel:
    """The model."""

    def __init__(self, pause: float, first: float = 0.0, decide: float = 0.0) -> None:
        self.pause = pause
        """Seconds between two words."""
        self.first = first
        """Seconds before an answer's first word."""
        self.decide = decide
        """Seconds that a decision or a judgement takes."""
        self.url = ""
        """Its base URL."""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def texts(self, prompt: str, question: str) -> list[str]:
        """The pieces of an answer to the messages, whose last one is the question."""
        return _texts(prompt, question)

    def start(self) -> None:
        """Starts it; it listens when this returns."""
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        """Ends it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._serve())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _serve(self) -> web.AppRunner:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=512).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = await request.json()
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        texts = self.texts(prompt, str(body["messages"][-1]["content"]))
        if not body.get("stream"):
            await asyncio.sleep(self.decide)
            choice = {"index": 0, "message": {"role": "assistant", "content": "".join(texts)}, "finish_reason": "stop"}
            head = {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL}
            return web.json_response({**head, "choices": [choice], "usage": _USAGE})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(self.first)
        with contextlib.suppress(ConnectionResetError):  # the client has disconnected
            for text in texts:
                choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
                await response.write(_event({"choices": [choice]}))
                await asyncio.sleep(self.pause)
            await response.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
            await response.write(_event({"choices": [], "usage": _USAGE}) + b"data: [DONE]\n\n")
            await response.write_eof()
        return response


@contextmanager
def echo_model(pause: float = 0.02, first: float = 0.0, decide: float = 0.0) -> Generator[EchoModel]:
    """Runs the model until the block ends."""
    model = EchoModel(pause, first, decide)
    model.start()
    try:
        yield model
    finally:
        model.stop()


def _texts(prompt: str, question: str) -> list[str]:
    if "needs_retrieval" in prompt:
        return [json.dumps({"needs_retrieval": True, "reason": "It asks for saved content."})]
    if "utility" in prompt:
        return [json.dumps({"supported": True, "utility": 0.8})]
    result = _ASKER.findall(question) or _ASKER.findall(prompt)
    asker = result[-1] if result else "nobody"
    # A marker in two pieces: it must be complete or absent in every wire format.
    form = "[SOURCE 1]" if "[SOURCE N]" in prompt else "[ref:1]"
    return [text for _ in range(WORDS // 3) for text in (f"{asker} says{form[:3]}", f"{form[3:]}.", " ")]


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'model': MODEL, **data})}\n\n".encode()
