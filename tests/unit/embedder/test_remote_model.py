from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from citewire_egress.addresses import EgressPolicy
from citewire_egress.connections import guarded_client
from citewire_embedder.providers.base import Purpose
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec, open_http, provider_test
from citewire_embedder.providers.remote_embedding import RemoteModel
from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument
from citewire_ledger import MemoryLedger, Outcome
from citewire_ledger import Purpose as PaidFor
from citewire_remote.breaker import BreakerPolicy, Breakers
from citewire_remote.catalogue import load_catalogue
from citewire_remote.retry import RetryPolicy
from local_http import serving

Reply = Callable[[Mapping[str, Any]], web.Response]
FAST = CallLimits(retry=RetryPolicy(first_seconds=0.001), seconds=5, texts=4)


class Upstream:
    """A server for `/v1/embeddings` that records its requests and gives scripted replies."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        """Replies to the next calls; later calls get `vectors`."""
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.headers: list[set[str]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        self.headers.append({name.lower() for name in request.headers})
        return self.replies.pop(0)(self.bodies[-1]) if self.replies else vectors(self.bodies[-1])


def vectors(body: Mapping[str, Any], *, size: int = 8, tokens: int | None = 7, as_list: bool = False) -> web.Response:
    """One vector per text: (place + 1, 1, 0, …), doubled."""
    data: list[dict[str, Any]] = []
    for place in range(len(body["input"])):
        row = np.zeros(body.get("dimensions", size), "<f4")
        row[:2] = 2 * (place + 1), 2
        shown = row.tolist() if as_list else base64.b64encode(row.tobytes()).decode()
        data.append({"object": "embedding", "index": place, "embedding": shown})
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return web.json_response({"object": "list", "data": data[::-1], "model": body["model"], **usage})


def status(code: int, body: object = None, **headers: str) -> Reply:
    return lambda _: web.json_response(body or {"error": {"message": "no"}}, status=code, headers=headers)


def recorded_reply(path: Path, code: int = 200) -> Reply:
    return lambda _: web.Response(body=path.read_bytes(), status=code, content_type="application/json")


@pytest.fixture
async def upstream() -> AsyncGenerator[Upstream]:
    server = Upstream()
    app = web.Application()
    app.router.add_post("/v1/embeddings", server.answer)
    async with serving(app) as port:
        server.url = f"http://127.0.0.1:{port}/v1"
        yield server


@asynccontextmanager
async def model_at(
    url: str,
    *,
    kind: str = "openai-compatible",
    model: str = "some-model",
    ledger: MemoryLedger | None = None,
    breakers: Breakers | None = None,
    limits: CallLimits = FAST,
    **spec: Any,  # noqa: ANN401 # fields of the spec
) -> AsyncGenerator[RemoteModel]:
    made = RemoteModel(
        ModelSpec(kind, model, url, **spec),
        load_catalogue(),
        open_http(limits),
        ledger=ledger,
        breakers=breakers,
        limits=limits,
    )
    try:
        yield made
    finally:
        await made.close()


async def embed(
    model: RemoteModel, texts: Sequence[str], purpose: Purpose = Purpose.DOCUMENT
) -> tuple[np.ndarray[Any, Any], int]:
    return await model.embed_counted(await model.tokenise(texts, purpose))


async def test_vectors_are_normalised_and_in_order_and_their_costs_recorded(upstream: Upstream) -> None:
    ledger = MemoryLedger()
    async with model_at(
        upstream.url, kind="openai", model="text-embedding-3-small", api_key="sk-key", ledger=ledger
    ) as model:
        upstream.replies = [lambda body: vectors(body, size=1536)]
        rows, tokens = await embed(model, ["one", "two"], Purpose.QUERY)
    assert rows.shape == (2, 1536)
    assert np.allclose(rows[:, :2], [[2**-0.5, 2**-0.5], [2 / 5**0.5, 1 / 5**0.5]])
    assert tokens == 7
    assert upstream.bodies == [
        {"input": ["one", "two"], "model": "text-embedding-3-small", "encoding_format": "base64"}
    ]
    assert upstream.keys == ["Bearer sk-key"]
    (row,) = ledger.rows
    assert (row.new.purpose, row.new.provider, row.new.own) == (PaidFor.QUESTION_EMBEDDING, "openai", False)
    assert row.new.price is not None
    assert row.new.price.input == Decimal("0.02")
    assert row.outcome is Outcome.DONE
    assert row.usage is not None
    assert (row.usage.input_tokens, row.usage.estimated) == (7, False)


async def test_a_server_that_sends_lists_without_usage_is_estimated(upstream: Upstream) -> None:
    ledger = MemoryLedger()
    upstream.replies = [lambda body: vectors(body, tokens=None, as_list=True)]
    async with model_at(upstream.url, ledger=ledger) as model:
        assert model.info.space.dimensions == 0
        rows, tokens = await embed(model, ["a fox, twice"])
    assert rows.shape == (1, 8)
    assert tokens == 4
    assert upstream.keys == [None]
    spent = ledger.rows[0].usage
    assert spent is not None
    assert (spent.input_tokens, spent.estimated) == (4, True)
    assert ledger.rows[0].new.purpose is PaidFor.INGEST


async def test_an_unknown_dimension_is_learned_once(upstream: Upstream) -> None:
    async with model_at(upstream.url) as model:
        await model.load()
        await model.load()
        assert (model.info.space.dimensions, model.info.space.revision) == (8, "openai-compatible")
    assert len(upstream.bodies) == 1


@pytest.mark.parametrize("model", ["nomic-embed-text", "nomic-embed-text:v1.5"])
async def test_nomic_gets_a_prefix_by_purpose(upstream: Upstream, model: str) -> None:
    async with model_at(upstream.url, kind="ollama", model=model) as nomic:
        assert nomic.info.space.dimensions == 768
        assert nomic.info.max_input_tokens == 2048
        upstream.replies = [lambda body: vectors(body, size=768)] * 2
        await embed(nomic, ["who?"], Purpose.QUERY)
        await embed(nomic, ["he."], Purpose.DOCUMENT)
    assert [body["input"] for body in upstream.bodies] == [["search_query: who?"], ["search_document: he."]]


async def test_openai_shortens_vectors(upstream: Upstream) -> None:
    async with model_at(upstream.url, kind="openai", model="text-embedding-3-large") as model:
        shorter = model.shortened(256)
        assert shorter is not None
        assert shorter.info.space.dimensions == 256
        rows, _ = await shorter.embed_counted(await shorter.tokenise(["x"], Purpose.DOCUMENT))
        assert rows.shape == (1, 256)
        assert model.info.space.dimensions == 3072
        assert model.shortened(4000) is None
    assert upstream.bodies[0]["dimensions"] == 256


async def test_a_dimension_that_was_not_honoured_is_an_error(upstream: Upstream) -> None:
    async with model_at(upstream.url, dimensions=4) as model:
        upstream.replies = [lambda body: vectors({**body, "dimensions": 8})]
        with pytest.raises(FailedPrecondition, match="8 dimensions instead of 4"):
            await embed(model, ["x"])


async def test_many_texts_take_several_requests(upstream: Upstream) -> None:
    ledger = MemoryLedger()
    async with model_at(upstream.url, ledger=ledger) as model:
        rows, tokens = await embed(model, [f"text {number}" for number in range(10)])
    assert [len(body["input"]) for body in upstream.bodies] == [4, 4, 2]
    assert rows.shape == (10, 8)
    assert tokens == 21
    assert len(ledger.rows) == 3


async def test_a_long_text_is_cut_to_the_window(upstream: Upstream) -> None:
    async with model_at(upstream.url, window=16) as model:
        (text,) = await model.tokenise(["word " * 40], Purpose.DOCUMENT)
        assert (len(text.ids), text.total) == (16, 40)
        await model.embed([text])
    assert upstream.bodies[0]["input"][0].split() == ["word"] * 16


async def test_a_text_too_long_for_the_provider_is_reported_as_such(upstream: Upstream) -> None:
    upstream.replies = [status(400, {"error": {"message": "maximum context length is 8192 tokens"}})]
    async with model_at(upstream.url) as model:
        with pytest.raises(InvalidArgument) as caught:
            await embed(model, ["x"])
    assert caught.value.reason == "INPUT_TOO_LONG"


@pytest.mark.parametrize(
    ("codes", "reason", "calls"),
    [
        ((503, 500), "", 3),
        ((429,), "", 2),
        ((503, 503, 503), "PROVIDER_UNAVAILABLE", 3),
        ((401,), "PROVIDER_AUTH", 1),
        ((404,), "PROVIDER_REJECTED", 1),
        ((400,), "PROVIDER_REJECTED", 1),
    ],
    ids=["errors", "rate", "down", "key", "model", "refused"],
)
async def test_failures(upstream: Upstream, codes: tuple[int, ...], reason: str, calls: int) -> None:
    ledger = MemoryLedger()
    upstream.replies = [status(code) for code in codes]
    refusal = text = model_name = ""
    async with model_at(upstream.url, ledger=ledger) as model:
        try:
            await embed(model, ["x"])
        except CitewireError as exc:
            refusal, text, model_name = exc.reason, exc.message, exc.metadata["model"]
    assert model_name in text, "the message names the model"
    assert bool(model_name) == bool(reason)
    assert (refusal, len(upstream.bodies)) == (reason, calls)
    assert len(ledger.rows) == calls, "every attempt has its row"
    outcomes = [row.outcome for row in ledger.rows]
    assert outcomes == [Outcome.FAILED] * len(codes) + [Outcome.DONE] * (calls - len(codes))
    spent = [row.usage.input_tokens for row in ledger.rows if row.usage]
    assert spent[: len(codes)] == [0] * len(codes), "a refused request costs nothing"
    assert all(spent[len(codes) :])


async def test_a_test_call_is_made_once_and_accounted_as_a_test(upstream: Upstream) -> None:
    ledger = MemoryLedger()
    upstream.replies = [status(503)] * 3
    async with model_at(upstream.url, ledger=ledger, own=True) as model:
        with provider_test(), pytest.raises(CitewireError):
            await embed(model, ["x"])
    (row,) = ledger.rows
    assert (row.new.purpose, row.new.own) == (PaidFor.PROVIDER_TEST, True)


async def test_a_provider_that_keeps_failing_is_left_alone(upstream: Upstream) -> None:
    upstream.replies = [status(503)] * 9
    async with model_at(upstream.url, breakers=Breakers(BreakerPolicy(failures=3))) as model:
        with pytest.raises(CitewireError):
            await embed(model, ["x"])
        with pytest.raises(CitewireError) as caught:
            await embed(model, ["x"])
    assert caught.value.metadata["breaker"] == "open"
    assert len(upstream.bodies) == 3


async def test_an_unreachable_provider() -> None:
    ledger = MemoryLedger()
    async with model_at("http://127.0.0.1:9/v1", ledger=ledger) as model:
        with pytest.raises(CitewireError) as caught:
            await embed(model, ["x"])
    assert caught.value.reason == "PROVIDER_UNAVAILABLE"
    assert [row.usage and row.usage.input_tokens for row in ledger.rows] == [0] * FAST.retry.attempts, (
        "nothing was sent"
    )


async def test_a_silent_provider_times_out(upstream: Upstream) -> None:
    limits = CallLimits(retry=RetryPolicy(attempts=3), seconds=0.2)
    hung = web.Response(headers={"Content-Length": "5"}, content_type="application/json")
    upstream.replies = [lambda _: hung]
    ledger = MemoryLedger()
    async with model_at(upstream.url, limits=limits, ledger=ledger) as model:
        with pytest.raises(CitewireError) as caught:
            await embed(model, ["x"])
    assert caught.value.reason == "PROVIDER_TIMEOUT"
    assert len(upstream.bodies) == 1
    (row,) = ledger.rows
    assert row.usage is not None
    assert row.usage.estimated, "it was sent, so it may be paid for"
    assert row.usage.input_tokens > 0


async def test_a_tenants_provider_is_not_found_on_loopback(upstream: Upstream) -> None:
    spec = ModelSpec("openai-compatible", "m", upstream.url, own=True)
    client = guarded_client(EgressPolicy.parse(""), timeout=FAST.timeout())
    model = RemoteModel(spec, load_catalogue(), client, limits=FAST)
    with pytest.raises(CitewireError) as caught:
        await embed(model, ["x"])
    await model.close()
    assert caught.value.reason == "PROVIDER_ADDRESS"
    assert not upstream.bodies


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"{}",
        b'{"data": []}',
        b'{"data": [{"index": 1, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
        b'{"data": [{"index": 0, "embedding": [0, 0]}]}',
        b'{"data": [{"index": 0, "embedding": ["x"]}]}',
        b'{"data": [{"index": 0, "embedding": [1' + b"0" * 400 + b"]}]}",
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}',
    ],
    ids=["text", "nothing", "none", "numbering", "bytes", "zero", "words", "huge", "too-many"],
)
async def test_a_malformed_answer_is_an_error(upstream: Upstream, body: bytes) -> None:
    upstream.replies = [lambda _: web.Response(body=body, content_type="application/json")]
    async with model_at(upstream.url) as model:
        with pytest.raises(FailedPrecondition):
            await embed(model, ["x"])
    assert len(upstream.bodies) == 1


async def test_openais_recorded_answers(upstream: Upstream, shared_data: Path) -> None:
    folder = shared_data / "provider-transcripts" / "openai-embeddings"
    (whole, missing) = (folder / name for name in ("200-json-plain-1.json", "404-json-plain-1.json"))
    body = json.loads(whole.read_bytes())
    expected = np.frombuffer(base64.b64decode(body["data"][0]["embedding"]), "<f4")
    ledger = MemoryLedger()
    upstream.replies = [recorded_reply(whole), recorded_reply(missing, 404)]
    async with model_at(upstream.url, kind="openai", model="text-embedding-ada-002", ledger=ledger) as model:
        rows, tokens = await embed(model, ["Tell me a joke about opentelemetry"])
        assert np.allclose(rows[0], expected, atol=1e-6)
        assert tokens == body["usage"]["prompt_tokens"]
        with pytest.raises(FailedPrecondition) as caught:
            await embed(model, ["Hello, world!"])
    assert caught.value.reason == "PROVIDER_REJECTED"
    spent = ledger.rows[0].usage
    assert spent is not None
    assert (spent.input_tokens, spent.estimated) == (tokens, False)


async def test_ollamas_recorded_answers(upstream: Upstream, shared_data: Path) -> None:
    folder = shared_data / "provider-transcripts" / "ollama"
    whole, missing = folder / "200-json-embeddings-1.json", folder / "constructed-404-model-not-found.json"
    upstream.replies = [recorded_reply(whole), recorded_reply(missing, 404)]
    numbers = np.array(json.loads(whole.read_bytes())["embedding"])
    async with model_at(upstream.url, kind="ollama", model="llama3") as model:
        rows, _ = await embed(model, ["all-minilm"])
        assert np.allclose(rows[0], numbers / np.linalg.norm(numbers), atol=1e-6)
        with pytest.raises(FailedPrecondition, match="doesn't know this model"):
            await embed(model, ["x"])


async def test_a_provider_gets_nothing_of_the_environment(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-canary")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Canary: yes")
    async with model_at(upstream.url) as model:
        await embed(model, ["x"])
    ours = {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "user-agent"}
    assert upstream.headers == [{*ours, "x-stainless-raw-response"}]
