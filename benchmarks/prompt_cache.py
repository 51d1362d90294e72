"""The share of a conversation's prompts that comes from the provider's cache, and the conversation's cost.

Conversations of ten questions with ten passages each, over the 636 paragraphs of 18 Wikipedia articles, for which
people wrote the questions (SQuAD 2.0, CC BY-SA 4.0; `qa-squad2` of the reference data): ten questions on one article,
spread evenly over it; each question on another article; and another article after the fifth. Each article begins one
conversation of each kind. The upstream simulates the providers' cache rules: for OpenAI the longest common
prefix with an earlier prompt, in steps of 128 tokens from 1,024; for Anthropic at most four marks, from 1,024
tokens, each looked up over the last 20 blocks. A token is four characters. The figures come from the ledger, at list
prices.

In one way, earlier questions stand alone in the prompt (`keep_passages` off); in the other they keep their passages
where that is cheaper. Other articles with questions in SQuAD's form can be named, as those of XQuAD are.

Usage: python -m benchmarks.prompt_cache [--file FILE] [--articles N] [--questions N] [--all-passages]; the data is
expected beside the repository.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from aiohttp import web
from citewire.generator.v1 import generator_pb2 as pb

from benchmarks.tables import format_table
from citewire_generator import planning
from citewire_generator.cache_prices import KeptQuestions
from citewire_generator.engine import Engine
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_kit.telemetry import configure_logging
from citewire_ledger import MemoryLedger
from citewire_remote.catalogue import load_catalogue
from citewire_remote.stall_timeout import TimeLimits

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SQUAD = Path("qa-squad2") / "squad2-dev-half-a.json.gz"
MOST_PASSAGES = 10
CHARS = 1_000
"""Maximum length of a passage: about 250 tokens, like chunks."""
LEAST, STEP, LOOKBACK, MARKS = 1_024, 128, 20, 4
MODELS = (
    ("openai", "gpt-5"),
    ("openai", "gpt-4.1"),
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-5"),
    ("anthropic", "claude-sonnet-5-5"),
)
QUESTIONS = 10
CHANGE = 5
"""Questions before the subject changes."""
ANSWER = (
    "The documentation says this in so many words, and it holds for each process of the stack [ref:1]. There is one "
    "exception, which is described beside it [ref:2]. The setting that changes it is named there, with its default "
    "and its unit, and a restart is not needed [ref:1]."
)


@dataclass
class Cache:
    """A provider's cache of the prompts that it received."""

    prompts: list[str] = field(default_factory=list[str])
    written: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])

    def openai(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """Returns tokens of the prompt, read from the cache, and written to it."""
        prompt = "".join(f"<{message['role']}>{message['content']}" for message in body["messages"])
        common = max((_common(prompt, earlier) for earlier in self.prompts), default=0) // 4
        self.prompts.append(prompt)
        return len(prompt) // 4, common // STEP * STEP if common >= LEAST else 0, 0

    def anthropic(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """Like `openai`."""
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
    """Serves both APIs with one answer; yields the base URL."""
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


@dataclass(frozen=True, slots=True)
class Talks:
    """The conversations, and their passages."""

    passages: Sequence[pb.Passage]
    """The passages, each a paragraph or a part of one."""
    questions: Mapping[str, Sequence[Sequence[str]]]
    """The conversations of each kind, in the order of the articles."""


def read_talks(file: Path) -> Talks:
    """Reads the articles and makes conversations of their questions; always the same."""
    articles: list[dict[str, Any]] = json.loads(gzip.decompress(file.read_bytes()))["data"]
    passages: list[pb.Passage] = []
    for number, article in enumerate(articles, 1):
        for paragraph in article["paragraphs"]:
            text: str = paragraph["context"]
            passages += [
                pb.Passage(
                    chunk_id=len(passages) + 1 + part,
                    document_id=number,
                    text=text[start : start + CHARS],
                    title=article["title"].replace("_", " "),
                )
                for part, start in enumerate(range(0, len(text), CHARS))
            ]
    asked = [questions for article in articles if (questions := _spread(article))]
    after = [*asked, *asked]
    return Talks(
        passages,
        {
            "one subject": asked,
            "two subjects": [
                [*first[:CHANGE], *second[CHANGE:]] for first, second in zip(asked, after[1:], strict=False)
            ],
            "many subjects": [[after[place + turn][turn] for turn in range(QUESTIONS)] for place in range(len(asked))],
        },
    )


def _spread(article: Mapping[str, Any]) -> list[str]:
    """Questions that the article answers, of paragraphs that are spread over it; none if there are too few."""
    answered = [
        qas
        for paragraph in article["paragraphs"]
        if (qas := [qa for qa in paragraph["qas"] if not qa.get("is_impossible", False)])
    ]
    taken, questions = Counter[int](), list[str]()
    for turn in range(QUESTIONS):
        place = turn * len(answered) // QUESTIONS
        if taken[place] == len(answered[place]):
            return []
        questions.append(str(answered[place][taken[place]]["question"]))
        taken[place] += 1
    return questions


class WordSearch:
    """Finds passages by their words, weighted by rarity (BM25)."""

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
class Spending:
    """The tokens and cost of a conversation."""

    prompt_tokens: int
    cached: int
    written: int
    usd: float

    @property
    def share(self) -> float:
        """Share of cached tokens in all prompts."""
        return self.cached / self.prompt_tokens


async def converse(kind: str, model: str, questions: Sequence[str], library: WordSearch, *, passages: bool) -> Spending:
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
    spent = Spending(0, 0, 0, 0.0)
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Conversations of one kind with one model, both ways."""

    with_passages: Sequence[Spending]
    alone: Sequence[Spending]

    @property
    def shares(self) -> list[float]:
        """Share of cached tokens in all prompts, for each conversation."""
        return [spent.share for spent in self.with_passages]

    @property
    def ratios(self) -> list[float]:
        """The cost of each conversation relative to the one whose earlier questions have no passages."""
        return [ours.usd / alone.usd for ours, alone in zip(self.with_passages, self.alone, strict=True)]


async def compare(kind: str, model: str, conversations: Sequence[Sequence[str]], library: WordSearch) -> Comparison:
    """Runs each conversation in both ways."""
    with_passages, alone = [
        [await converse(kind, model, questions, library, passages=passages) for questions in conversations]
        for passages in (True, False)
    ]
    return Comparison(with_passages, alone)


async def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=DATA / SQUAD, help="articles and questions in SQuAD's form")
    parser.add_argument("--articles", type=int, default=None, help="number of articles with conversations")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="number of questions in a conversation")
    parser.add_argument("--all-passages", action="store_true", help="always keep earlier passages, whatever the cost")
    options = parser.parse_args()
    configure_logging("benchmark", level="WARNING", log_format="console", stream=sys.stderr)
    if options.all_passages:
        planning.kept_questions = _keep_all  # pyright: ignore[reportPrivateImportUsage] # where it is called
    talks, rows = read_talks(options.file), list[tuple[object, ...]]()
    library = WordSearch(talks.passages)
    for name, whole in talks.questions.items():
        conversations = [questions[: options.questions] for questions in whole[: options.articles]]
        for kind, model in MODELS:
            compared = await compare(kind, model, conversations, library)
            tokens, cached, written = (
                sum(getattr(spent, count) for spent in compared.with_passages) // len(compared.with_passages)
                for count in ("prompt_tokens", "cached", "written")
            )
            alone = sum(spent.prompt_tokens for spent in compared.alone) // len(compared.alone)
            usd = [sum(spent.usd for spent in way) for way in (compared.with_passages, compared.alone)]
            share, cost = _range(compared.shares, 100, 0), _range(compared.ratios, 1, 2)
            rows.append((name, model, alone, tokens, cached, written, share, cost, f"{usd[0] / usd[1]:.3f}"))
    headings = ("conversation", "model", "tokens alone", "tokens", "cached", "written", "share, %", "cost", "of all")
    print(format_table(headings, rows))


def _keep_all(history: Sequence[Message], *_: object) -> KeptQuestions:
    """All earlier questions keep their passages."""
    return KeptQuestions(frozenset(range(len(history))), current=bool(history))


def _range(values: Sequence[float], factor: int, digits: int) -> str:
    middle, low, high = (f"{factor * value:.{digits}f}" for value in (median(values), min(values), max(values)))
    return f"{middle} ({low}–{high})"


if __name__ == "__main__":
    asyncio.run(main())
