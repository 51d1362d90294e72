"""Markers of scripted answers over a real gRPC server: split anywhere, false, reordered, fenced, and look-alikes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub
from prometheus_client import REGISTRY

from citewire_generator.app import start
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import Unavailable
from scripted_chat import ScriptedChat

PASSAGES = [
    pb.Passage(chunk_id=number, document_id=number, text=f"Fact {number}. Never [ref:2] nor [SOURCE 3].")
    for number in (1, 2, 3)
]


@dataclass(frozen=True)
class Shown:
    """An answer as received: its pieces, and its end."""

    pieces: list[str]
    completed: pb.Completed

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Running:
    """A server whose model gives scripted answers."""

    stub: GeneratorServiceStub
    model: ScriptedChat

    async def answer(self, style: pb.MarkerStyle, *pieces: str, remove_invalid: bool = False) -> Shown:
        self.model.script = [piece for piece in pieces if piece]
        labels = style == pb.MARKER_STYLE_SOURCE
        policy = pb.AnswerPolicy(
            marker_style=style,
            grounding=pb.GROUNDING_SAY_SO,
            context_format=pb.CONTEXT_FORMAT_SOURCE_LABELS if labels else pb.CONTEXT_FORMAT_NUMBERED,
            remove_invalid_markers=remove_invalid,
        )
        asked = pb.GenerateRequest(question="What?", passages=PASSAGES, policy=policy)
        shown: list[str] = []
        completed: pb.Completed | None = None
        async with aclosing(client.stream(self.stub.Generate, asked, timeout=10)) as events:
            async for event in events:
                shown += event.delta.texts
                if event.HasField("completed"):
                    completed = event.completed
        assert completed is not None
        return Shown(shown, completed)


@asynccontextmanager
async def serve() -> AsyncGenerator[Running]:
    model = ScriptedChat()
    async with AsyncExitStack() as stack:
        settings = GeneratorSettings(port=0, metrics_port=0, auth="off", leave_seconds=0, drain_seconds=1)
        server = await start(stack, settings, [model])
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield Running(GeneratorServiceStub(channel), model)


def markers(outcome: str) -> float:
    return REGISTRY.get_sample_value("citewire_generator_markers_total", {"outcome": outcome}) or 0.0


@pytest.mark.parametrize(
    ("style", "answer", "text", "cited", "forms"),
    [
        (
            pb.MARKER_STYLE_REF,
            "It is 5 [ref:3][ref:1]. Not [ref:9] nor 【ref：２】, `[ref:1]`.",
            "It is 5 [ref:3][ref:1]. Not [ref:9] nor [ref:2], `[ref:1]`.",
            [3, 1, 2],
            ["[ref:3]", "[ref:1]", "[ref:9]", "[ref:2]"],
        ),
        (
            pb.MARKER_STYLE_SOURCE,
            "It is 5 [SOURCE 2]. Not [SOURCE 0], [Source: a.pdf] nor [SOURCE 3, p. 7].",
            "It is 5 [SOURCE 2]. Not [SOURCE 0], [Source: a.pdf] nor [SOURCE 3, p. 7].",
            [2, 3],
            ["[SOURCE 2]", "[SOURCE 0]", "[SOURCE 3, p. 7]"],
        ),
        (pb.MARKER_STYLE_REMOVE, "It is 5[ref:3][1], [sOURCE: a b.pdf] and 【2†source】.", "It is 5.", [], []),
        (
            pb.MARKER_STYLE_REMOVE,
            "items[1] and grid[2][3], H[2]O, [1](http://x.org), so **[1]** (Source: a.md) [来源 1]: `x[1] [2]`.",
            "items[1] and grid[2][3], H[2]O, [1](http://x.org), so: `x[1] [2]`.",
            [],
            [],
        ),
        (
            pb.MARKER_STYLE_REF,
            "So [1], [2, 3] and 【1†a】[9]; items[1], [1](http://x.org), `[1]`.",
            "So [ref:1], [ref:2][ref:3] and [ref:1][9]; items[1], [1](http://x.org), `[1]`.",
            [1, 2, 3],
            ["[ref:1]", "[ref:2]", "[9]"],
        ),
        (
            pb.MARKER_STYLE_SOURCE,
            "So [1] and [Source 2], [来源 3].",
            "So [1] and [SOURCE 2], [SOURCE 3].",
            [2, 3],
            ["[SOURCE 2]", "[SOURCE 3]"],
        ),
    ],
)
async def test_split_at_every_offset(
    style: pb.MarkerStyle, answer: str, text: str, cited: list[int], forms: list[str]
) -> None:
    async with serve() as running:
        for offset in range(len(answer) + 1):
            shown = await running.answer(style, answer[:offset], answer[offset:])
            assert shown.text == text
            assert list(shown.completed.cited_numbers) == cited
            cut = len(shown.pieces[0])
            for form in forms:
                start = shown.text.index(form)
                assert not start < cut < start + len(form)
        by_character = await running.answer(style, *answer)
        assert by_character.text == text


@pytest.mark.parametrize(
    ("answer", "cited", "invalid"),
    [
        ("All of it [ref:2][ref:1] and again [ref:2].", [2, 1], 0),
        ("False ones: [ref:0] [ref:4] [ref:123456789012345678901].", [], 3),
        ("One of two [ref:1, 7].", [1], 1),
        ("```\n[ref:1]\n```\n`[ref:2]` and [ref:3]", [3], 0),
        ("Look-alikes: [rеf:1] (ref:1) ref:1 [ref:] [ref:one] [preref:1] (1) [ref:1.5] [ref\n:1]", [], 0),
        ("What the documents say: Never (ref:2) nor (SOURCE 3).", [], 0),
        ("Cut off [ref:1", [], 0),
    ],
)
async def test_only_numbers_in_the_context_are_citations(answer: str, cited: list[int], invalid: int) -> None:
    before = markers("cited"), markers("invalid")
    async with serve() as running:
        for pieces in ((answer,), tuple(answer)):
            shown = await running.answer(pb.MARKER_STYLE_REF, *pieces)
            assert shown.text == answer
            assert (list(shown.completed.cited_numbers), shown.completed.invalid_markers) == (cited, invalid)
        prompt = running.model.tasks[-1].messages[-1].content
    assert "Never (ref:2) nor (SOURCE 3)." in prompt
    assert (markers("cited"), markers("invalid")) == (before[0] + 2 * len(cited), before[1] + 2 * invalid)


async def test_invalid_markers_are_removed_if_the_policy_says_so() -> None:
    async with serve() as running:
        for pieces in (("It is 5 [ref:9], [2] **[7]**.",), tuple("It is 5 [ref:9], [2] **[7]**.")):
            shown = await running.answer(pb.MARKER_STYLE_REF, *pieces, remove_invalid=True)
            assert shown.text == "It is 5, [ref:2]."
            assert (list(shown.completed.cited_numbers), shown.completed.invalid_markers) == ([2], 2)


async def test_a_complete_marker_at_the_end_of_an_interrupted_answer_is_sent() -> None:
    async with serve() as running:
        running.model.script = ["It is 5", " [1]", Unavailable("gone", reason="PROVIDER_STREAM_BROKEN")]
        asked = pb.GenerateRequest(question="What?", passages=PASSAGES)
        asked.policy.marker_style = pb.MARKER_STYLE_REF
        texts: list[str] = []

        async def read() -> None:
            async with aclosing(client.stream(running.stub.Generate, asked, timeout=10)) as events:
                async for event in events:
                    texts.extend(event.delta.texts)

        with pytest.raises(Unavailable):
            await read()
        assert "".join(texts) == "It is 5 [ref:1]"
