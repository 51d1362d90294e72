"""How much of a conversation's prompts comes from the provider's cache, and what the conversation costs.

Ten questions with ten passages each, over the repository's own documentation: follow-ups on one subject, and questions
that change it each time, or after the fifth. The upstream counts what its cache has by the providers' rules: OpenAI's
the longest common beginning with an earlier prompt, in steps of 128 tokens from 1,024; Anthropic's the marks, four at
most, from 1,024 tokens, each looked up over the last 20 blocks. A token is four characters. The figures are those of
the ledger, at list prices.

`answers` are prompts whose earlier questions stand alone; in `passages` they keep their passages where that is cheaper.

Usage: python -m benchmarks.prompt_cache
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web
from citewire.generator.v1 import generator_pb2 as pb

from benchmarks.tables import format_table
from citewire_generator.engine import Engine
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_ledger import MemoryLedger
from citewire_remote.catalogue import load_catalogue
from citewire_remote.stall_timeout import TimeLimits

MOST_PASSAGES = 10
CHARS = 1_000
"""Of a passage at most: about 250 tokens, as chunks are."""
LEAST, STEP, LOOKBACK, MARKS = 1_024, 128, 20, 4
MODELS = (
    ("openai", "gpt-5"),
    ("openai", "gpt-4.1"),
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-5"),
    ("anthropic", "claude-sonnet-5-5"),
)
TALKS = {
    "one subject": (
        "What does the ledger record for each call to a provider?",
        "When is a row of the ledger opened and settled?",
        "What happens to the row if the process is killed?",
        "How does a budget reserve money before a call?",
        "Can a budget be overdrawn?",
        "What is charged when a call runs across midnight?",
        "How are calls with a tenant's own key counted?",
        "Which metrics count tokens and cost?",
        "What if the database of the ledger is away?",
        "When does the lease of a row expire?",
    ),
    "many subjects": (
        "How does search fuse words and meaning?",
        "What does a verdict on a citation say?",
        "Who may read a shared conversation?",
        "How are uploads of an organisation paced?",
        "What happens when a provider refuses a prompt that is too long?",
        "How can an answer be resumed after a lost connection?",
        "Which files are parsed in a confined process?",
        "How do I change the embedding model?",
        "What does the audit trail hold?",
        "How are documents enriched by a model?",
    ),
}
TALKS["two subjects"] = TALKS["one subject"][:5] + TALKS["many subjects"][:5]
ANSWER = (
    "The documentation says this in so many words, and it holds for each process of the stack [ref:1]. There is one "
    "exception, which is described beside it [ref:2]. The setting that changes it is named there, with its default "
    "and its unit, and a restart is not needed [ref:1]."
)


@dataclass
class Cache:
    """What a provider keeps of the prompts that it was sent."""

    prompts: list[str] = field(default_factory=list[str])
    written: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])

    def openai(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """Returns tokens of the prompt, read from the cache, and written to it."""
        prompt = "".join(f"<{message['role']}>{message['content']}" for message in body["messages"])
        common = max((_common(prompt, earlier) for earlier in self.prompts), default=0) // 4
        self.prompts.append(prompt)
        return len(prompt) // 4, common // STEP * STEP if common >= LEAST else 0, 0

    def anthropic(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """As `openai`."""
        blocks = [("system", block) for block in body.get("system", ())]
        blocks += [(message["role"], block) for message in body["messages"] for block in message["content"]]
        texts = tuple(f"<{role}>{block['text']}" for role, block in blocks)
        marks = [at + 1 for at, (_, block) in enumerate(blocks) if "cache_control" in block]
        if len(marks) > MARKS:
            raise ValueError("a request may have four marks")
        marks = [mark for mark in marks if _tokens(texts[:mark]) >= LEAST]
        places = [end for mark in marks for end in range(mark, max(mark - LOOKBACK, 0), -1)]
        read = max((self.written[texts[:end]] for end in places if texts[:end] in self.written), default=0)
        self.written |= {texts[:mark]: _tokens(texts[:mark]) for mark in marks}
        return _tokens(texts), read, max((_tokens(texts[:mark]) for mark in marks), default=read) - read


def _tokens(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) // 4


def _common(prompt: str, other: str) -> int:
    low, high = 0, min(len(prompt), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if prompt[:middle] == other[:middle] else (low, middle - 1)
    return low


@asynccontextmanager
async def scripted_provider() -> AsyncGenerator[str]:
    """Serves both APIs with one answer, and gives the base URL."""
    cache = Cache()

    async def chat(request: web.Request) -> web.Response:
        tokens, read, written = cache.openai(await request.json())
        details = {"cached_tokens": read, "cache_write_tokens": written}
        usage = {"prompt_tokens": tokens, "completion_tokens": len(ANSWER) // 4, "prompt_tokens_details": details}
        choice = {"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}
        return _events({"choices": [choice]}, {"choices": [], "usage": usage}, "[DONE]")

    async def messages(request: web.Request) -> web.Response:
        tokens, read, written = cache.anthropic(await request.json())
        usage = {"input_tokens": tokens - read - written, "cache_read_input_tokens": read}
        usage |= {"cache_creation_input_tokens": written, "output_tokens": 1}
        text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}}
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 70}}
        start = {"type": "message_start", "message": {"usage": usage}}
        return _events(start, text, end, {"type": "message_stop"})

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/messages", messages)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def _events(*events: object) -> web.Response:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    body = "".join(f"data: {line}\n\n" for line in lines)
    return web.Response(text=body, content_type="text/event-stream")


def passages_of_docs() -> list[pb.Passage]:
    """The repository's documentation in passages, a section or a part of one each."""
    passages: list[pb.Passage] = []
    for number, path in enumerate(sorted(Path(__file__).parents[1].glob("docs/*/*.md")), 1):
        for section in re.split(r"(?m)^(?=#)", path.read_text()):
            for start in range(0, len(section), CHARS):
                if text := section[start : start + CHARS].strip():
                    passages.append(
                        pb.Passage(chunk_id=len(passages) + 1, document_id=number, text=text, title=path.stem)
                    )
    return passages


class WordSearch:
    """Finds passages by their words, the rare ones first (BM25)."""

    def __init__(self, passages: Sequence[pb.Passage]) -> None:
        self._passages = passages
        self._counts = [Counter(_words(passage.text)) for passage in passages]
        held = Counter(word for counts in self._counts for word in counts)
        self._weights = {word: math.log(1 + len(passages) / count) for word, count in held.items()}

    def find(self, question: str) -> list[pb.Passage]:
        """The best passages, best first."""
        words = set(_words(question)) & self._weights.keys()
        scores = [
            sum(self._weights[word] * counts[word] * 2.2 / (counts[word] + 1.2) for word in words)
            for counts in self._counts
        ]
        best = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[:MOST_PASSAGES]
        return [self._passages[at] for at in best]


def _words(text: str) -> list[str]:
    return [word[:6] for word in re.findall(r"[a-z]{3,}", text.lower())]


@dataclass(frozen=True, slots=True)
class Spent:
    """What a conversation took."""

    prompt_tokens: int
    cached: int
    written: int
    usd: float

    @property
    def share(self) -> float:
        """Cached tokens of those of all prompts."""
        return self.cached / self.prompt_tokens


async def converse(kind: str, model: str, questions: Sequence[str], library: WordSearch, *, passages: bool) -> Spent:
    """Asks all questions of one conversation, and reads the ledger."""
    known = load_catalogue().find(kind, model)
    if known is None:
        raise ValueError(f"the catalogue has no {model}")
    ledger, history = MemoryLedger(), list[Message]()
    async with scripted_provider() as base:
        info = ModelInfo(kind, model, known.context_window, known.max_completion_tokens, price=known.price)
        provider = build_chat_provider(kind, api_base=base, api_key="k", models=(info,), limits=TimeLimits())
        generator = Generator(Registry([provider]), Engine(ledger))
        try:
            for question in questions:
                request = pb.GenerateRequest(
                    question=question,
                    passages=library.find(question),
                    policy=pb.AnswerPolicy(
                        context_format=pb.CONTEXT_FORMAT_NUMBERED,
                        marker_style=pb.MARKER_STYLE_REF,
                        grounding=pb.GROUNDING_STRICT,
                        not_found_sentence="I could not find this.",
                        max_history_tokens=4_000,
                    ),
                    cache_key="conversation",
                )
                answer = ""
                async for event in generator.generate(request, tuple(history)):
                    answer += "".join(event.texts) if isinstance(event, pb.TextDelta) else ""
                history += [
                    Message(Role.USER, question, passages=tuple(request.passages) if passages else ()),
                    Message(Role.ASSISTANT, answer),
                ]
        finally:
            await provider.close()
    spent = Spent(0, 0, 0, 0.0)
    for row in ledger.rows:
        if row.usage is None or row.usage.estimated or row.new.price is None:
            raise ValueError("the ledger has no reported usage of a call")
        spent = replace(
            spent,
            prompt_tokens=spent.prompt_tokens + row.usage.input_tokens,
            cached=spent.cached + row.usage.cached_input_tokens,
            written=spent.written + row.usage.cache_write_input_tokens,
            usd=spent.usd + row.new.price.cost(row.usage) / 1e9,
        )
    return spent


async def main() -> None:
    """Prints the table."""
    library, rows = WordSearch(passages_of_docs()), list[tuple[object, ...]]()
    for name, questions in TALKS.items():
        for kind, model in MODELS:
            for passages in (False, True):
                spent = await converse(kind, model, questions, library, passages=passages)
                layout = "passages" if passages else "answers"
                share, cents = f"{spent.share:.1%}", f"{spent.usd * 100:.2f}"
                rows.append((name, model, layout, spent.prompt_tokens, spent.cached, spent.written, share, cents))
    headings = ("conversation", "model", "history of", "prompt tokens", "cached", "written", "share", "US cents")
    print(format_table(headings, rows))


if __name__ == "__main__":
    asyncio.run(main())
