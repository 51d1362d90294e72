"""Recordings of real providers, replayed by a local server: complete, cut after each event, or split anywhere.

`make faults` replays all of them with all cuts and 500 splits each, `make test` only some.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from citewire_generator.model import FinishReason, Message, ModelInfo, Role, Usage
from citewire_generator.providers.anthropic_stream import AnthropicStream
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.providers.ollama_stream import OllamaStream
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.responses_stream import ResponsesStream
from citewire_kit.errors import CitewireError
from citewire_remote.stall_timeout import TimeLimits
from proof_scale import PrintTable, ProofScale
from raw_upstream import Exchange, RawUpstream
from transcripts import ANTHROPIC, OLLAMA, RESPONSES, Transcript, answers, streams

READERS: dict[str, Callable[[str], AnswerReader]] = {
    ANTHROPIC: AnthropicStream,
    OLLAMA: OllamaStream,
    "openai": OpenAiStream,
    RESPONSES: ResponsesStream,
}
TASK = ChatTask("m", (Message(Role.USER, "hello"),), max_completion_tokens=9)
BROKEN = "PROVIDER_STREAM_BROKEN"


@dataclass(slots=True)
class Replay:
    """A server that sends given bytes in pieces, and the adapters that call it."""

    upstream: RawUpstream
    providers: dict[str, ChatProvider] = field(default_factory=dict[str, ChatProvider])

    def serve(self, transcript: Transcript, pieces: Sequence[bytes]) -> None:
        """Makes the server send these bytes from now on."""

        async def behave(exchange: Exchange) -> None:
            await exchange.head(transcript.status, transcript.content_type)
            for piece in pieces:
                await exchange.send(piece)
                await asyncio.sleep(0)

        self.upstream.behave = behave

    async def ask(self, transcript: Transcript, pieces: Sequence[bytes]) -> tuple[str, End | CitewireError]:
        """Returns the text that the transcript's adapter makes of these bytes, and its end."""
        self.serve(transcript, pieces)
        text = ""
        try:
            async with aclosing(self.providers[transcript.kind].stream(TASK)) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        text += "".join(event.texts)
                    else:
                        return text, event
        except CitewireError as exc:
            return text, exc
        raise AssertionError("neither an end nor an error")


@asynccontextmanager
async def running_replay() -> AsyncGenerator[Replay]:
    async def nothing(_: Exchange) -> None:
        return

    replay = Replay(RawUpstream(nothing))
    async with replay.upstream.running() as base:
        for kind in READERS:
            models = (ModelInfo(kind, "m"),)
            replay.providers[kind] = build_chat_provider(
                kind, api_base=base, api_key="x", models=models, limits=TimeLimits()
            )
        try:
            yield replay
        finally:
            for provider in replay.providers.values():
                await provider.close()


def rechunk(raw: bytes, chance: random.Random) -> list[bytes]:
    pieces: list[bytes] = []
    at = 0
    while at < len(raw):
        size = chance.choice((1, 2, 3, 7, 40, 500, 5000))
        pieces.append(raw[at : at + size])
        at += size
    return pieces


async def test_complete_streams_give_the_recorded_text(
    shared_data: Path, proof: ProofScale, print_table: PrintTable
) -> None:
    chance = proof.random()
    counts: dict[str, int] = {}
    async with running_replay() as replay:
        for transcript in streams(shared_data):
            for _ in range(proof.pick(scaled_down=1, full=5)):
                text, end = await replay.ask(transcript, rechunk(transcript.raw, chance))
                if transcript.fails:
                    assert isinstance(end, CitewireError), transcript.name
                    assert end.reason in {BROKEN, "PROVIDER_UNAVAILABLE"}, transcript.name
                    assert text in {"Hello", "Hel"}, transcript.name
                    continue
                answer = transcript.expected_answer()
                assert text == answer.text, transcript.name
                # These requests offer no tools, so a tool call is left out, and the answer ends like any other.
                reason = FinishReason.STOP if answer.reason is FinishReason.TOOL_CALLS else answer.reason
                assert end == End(reason, answer.usage), transcript.name
            counts[transcript.kind] = counts.get(transcript.kind, 0) + 1
    assert counts[ANTHROPIC] >= 30
    assert counts["openai"] >= 20
    assert counts[OLLAMA] >= 4
    assert counts[RESPONSES] >= 9
    print_table(
        "Recorded streams replayed whole through the adapters, in random pieces: text, usage and finish reason equal",
        ["adapter", "streams"],
        sorted(counts.items()),
    )


async def test_a_stream_cut_before_its_end_is_an_error(shared_data: Path, proof: ProofScale) -> None:
    """Some cuts of each recording over sockets; the next test makes all cuts."""
    chance = proof.random()
    async with running_replay() as replay:
        for transcript in streams(shared_data):
            if transcript.fails:
                continue
            last, answer = transcript.terminal(), transcript.expected_answer()
            for cut in chance.sample(range(last + 1), min(last + 1, proof.pick(scaled_down=2, full=20))):
                text, end = await replay.ask(transcript, [b"".join(transcript.events[:cut])])
                assert isinstance(end, CitewireError), (transcript.name, cut)
                assert end.reason == BROKEN, (transcript.name, cut)
                assert answer.text.startswith(text), (transcript.name, cut)


def test_every_cut_but_the_last_is_an_error(shared_data: Path, proof: ProofScale, print_table: PrintTable) -> None:
    cuts: dict[str, int] = {}
    for transcript in streams(shared_data):
        if transcript.fails:
            continue
        last = transcript.terminal()
        step = max(1, last // proof.pick(scaled_down=25, full=last + 1))
        for cut in range(0, last + 1, step):
            reader = READERS[transcript.kind]("test")
            reader.feed(b"".join(transcript.events[:cut]))
            with pytest.raises(CitewireError) as caught:
                reader.finish()
            assert caught.value.reason == BROKEN, (transcript.name, cut)
            cuts[transcript.kind] = cuts.get(transcript.kind, 0) + 1
        reader = READERS[transcript.kind]("test")
        reader.feed(b"".join(transcript.events[: last + 1]))
        reader.finish()
        assert reader.finish_reason is transcript.expected_answer().reason
    print_table(
        "Recorded streams cut after each event but the terminal one: always an error",
        ["adapter", "cuts"],
        sorted(cuts.items()),
    )


def test_a_split_at_any_byte_gives_the_same_text(shared_data: Path, proof: ProofScale, print_table: PrintTable) -> None:
    chance = proof.random()
    splits: dict[str, int] = {}
    for transcript in streams(shared_data):
        if transcript.fails:
            continue
        raw, answer = transcript.raw, transcript.expected_answer()
        cuts = range(1, len(raw))
        for offset in chance.sample(cuts, min(len(cuts), proof.pick(scaled_down=20, full=500))):
            reader = READERS[transcript.kind]("test")
            texts = [*reader.feed(raw[:offset]), *reader.feed(raw[offset:]), *reader.finish()]
            assert "".join(texts) == answer.text, (transcript.name, offset)
            assert (reader.finish_reason, reader.usage) == (answer.reason, answer.usage), (transcript.name, offset)
            splits[transcript.kind] = splits.get(transcript.kind, 0) + 1
    print_table(
        "Recorded streams split in two at a sampled byte: same text, usage and finish reason",
        ["adapter", "splits"],
        sorted(splits.items()),
    )


async def test_answers_in_one_piece(shared_data: Path) -> None:
    counts: dict[str, int] = {}
    async with running_replay() as replay:
        for transcript in answers(shared_data):
            if transcript.status != 200 or not _is_chat(transcript):
                continue
            if transcript.kind == OLLAMA and b'"choices"' not in transcript.raw:
                reader = OllamaStream("test")  # Ollama servers send such answers only at their own paths
                text, usage, reason = "".join(reader.whole(transcript.raw)), reader.usage, reader.finish_reason
            else:
                replay.serve(transcript, [transcript.raw])
                done = await replay.providers[transcript.kind].complete(TASK)
                text, usage, reason = done.text, done.usage, done.finish_reason
            answer = transcript.expected_answer()
            assert (text, reason) == (answer.text, answer.reason), transcript.name
            assert usage == answer.usage, transcript.name
            counts[transcript.kind] = counts.get(transcript.kind, 0) + 1
    assert counts[ANTHROPIC] >= 12
    assert counts["openai"] >= 15
    assert counts[OLLAMA] >= 2


async def test_recorded_refusals_are_errors_without_the_providers_words(shared_data: Path) -> None:
    expected = {
        401: {"PROVIDER_AUTH"},
        404: {"PROVIDER_REJECTED"},
        429: {"PROVIDER_RATE_LIMITED"},
        529: {"PROVIDER_UNAVAILABLE"},
        400: {"PROVIDER_REJECTED", "CONTEXT_TOO_LONG"},
    }
    count = 0
    async with running_replay() as replay:
        for transcript in answers(shared_data):
            if transcript.status == 200:
                continue
            text, end = await replay.ask(transcript, [transcript.raw])
            count += 1
            if "content-filter" in transcript.name:
                assert end == End(FinishReason.CONTENT_FILTER, Usage(estimated=True))
                continue
            assert isinstance(end, CitewireError), transcript.name
            assert (text, end.reason in expected[transcript.status]) == ("", True), (transcript.name, end.reason)
            assert end.metadata["status"] == str(transcript.status)
            assert ("retry" in end.metadata) == ("insufficient-quota" in transcript.name)
    assert count >= 15


def _is_chat(transcript: Transcript) -> bool:
    """Whether a recording is an answer; some are lists of models, files or token counts."""
    return any(mark in transcript.raw for mark in (b'"choices"', b'"stop_reason"', b'"done"'))
