"""The texts and counts of a library chat's steps agree with each other and with the prompt."""

from __future__ import annotations

import re

import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.events import Citations, Done, Step, Usage
from citewire_dialects.profile import Profile
from citewire_gateway.profiles.builtin import DOCUMENTS, LIBRARY
from citewire_generator.packing import Budget, pack
from citewire_retriever.model import Strategy
from citewire_retriever.service.planning import decide
from gateway_fakes import completed, delta, result, started
from pipeline_harness import PipelineHarness

PATHS = {
    "focused": retriever_pb2.CONTEXT_PATH_FOCUSED,
    "long_context": retriever_pb2.CONTEXT_PATH_LONG_CONTEXT,
    "long_context_trim": retriever_pb2.CONTEXT_PATH_LONG_CONTEXT_TRIM,
    "long_context_fallback": retriever_pb2.CONTEXT_PATH_LONG_CONTEXT_FALLBACK,
    "semantic": retriever_pb2.CONTEXT_PATH_SEMANTIC,
}


class Library(PipelineHarness):
    """A library of `items` whose plan and prompt are made by the retriever's and the generator's own code."""

    def __init__(self, items: int, *, read: int, fit: int, without: int = 0, searched: int = 0) -> None:
        """`read`: items within the retriever's budget; `fit`: those that fit into the generator's prompt."""
        super().__init__()
        counts = retriever_pb2.ScopeCounts(items=items, kept=read, trimmed=items - read, without_embedding=without)
        path, reason = decide(Strategy.LIBRARY, "pro", attached=False, counts=counts, cut=False)
        self.retriever.path, self.retriever.context_counts = PATHS[path], counts
        self.retriever.counts, self.retriever.reason = counts, reason
        given = read if path != "semantic" else searched
        self.retriever.results = [result(number, document_id=number) for number in range(1, given + 1)]
        passages = [generator_pb2.Passage(chunk_id=n, document_id=n, text="x" * 40) for n in range(1, given + 1)]
        size = len(pack(passages[:1], generator_pb2.CONTEXT_FORMAT_NUMBERED, Budget(chars=None, tokens=None)).text) + 4
        packed = pack(passages, generator_pb2.CONTEXT_FORMAT_NUMBERED, Budget(chars=size * fit, tokens=None))
        self.placed = len(packed.citations)
        notices = [generator_pb2.GenerateResponse(notice=notice) for notice in packed.notices]
        first = started(*((citation.number, citation.number - 1) for citation in packed.citations))
        self.messages = [first, *notices, delta("one"), completed()]

    async def steps(self, profile: Profile = LIBRARY) -> list[Step]:
        """Returns the steps of a chat, and checks that those shown are those stored."""
        events = await self.events(profile, top_k=60)
        shown = [event for event in events if isinstance(event, Step)]
        done = next(event for event in events if isinstance(event, Done))
        assert list(done.outcome.steps) == shown
        citations = next(event for event in events if isinstance(event, Citations))
        assert len(citations.citations) == self.placed
        spent = next(event for event in events if isinstance(event, Usage))
        if profile is LIBRARY:
            assert {step.path for step in shown} == {spent.path}
        return shown


@pytest.mark.parametrize(
    ("library", "path", "text"),
    [
        ({"items": 121, "read": 121, "fit": 500}, "long_context", "The model was given 121 of 121 items."),
        (
            {"items": 121, "read": 121, "fit": 110},
            "long_context_trim",
            "The model was given {kept} of 121 items, the most recent ones; {trimmed} did not fit.",
        ),
        (
            {"items": 202, "read": 202, "fit": 500, "without": 202},
            "long_context_fallback",
            "100% of the items can't be searched yet: they are read. The model was given 202 of 202 items.",
        ),
        (
            {"items": 202, "read": 150, "fit": 140, "without": 202},
            "long_context_fallback",
            "The model was given {kept} of 202 items, the most recent ones; {trimmed} did not fit.",
        ),
        ({"items": 300, "read": 300, "fit": 500, "searched": 50}, "semantic", "The model was given 50 of 300 items."),
        (
            {"items": 300, "read": 20, "fit": 30, "searched": 50},
            "semantic",
            "The model was given {kept} of 300 items; {trimmed} more were found and did not fit.",
        ),
    ],
)
async def test_all_steps_say_what_the_model_was_given(library: dict[str, int], path: str, text: str) -> None:
    harness = Library(**library)
    steps = await harness.steps()
    (step,) = [step for step in steps if step.name == "context_path"]
    counts = dict(step.counts or {})
    assert (step.path, counts["kept"]) == (path, harness.placed)
    assert step.text.endswith(text.format(**counts))
    if path != "semantic":
        assert counts["kept"] + counts["trimmed"] == counts["items"]
    for shown in steps:
        assert (shown.path, shown.counts) == (path, step.counts)
        numbers = {int(number) for number in re.findall(r"(?<![\w%])\d+(?![\d%])", shown.text)}
        assert numbers <= set(counts.values()), shown.text


async def test_other_profiles_show_the_step_of_the_prompt() -> None:
    library = Library(300, read=20, fit=30, searched=50)
    library.retriever.path = retriever_pb2.CONTEXT_PATH_SEMANTIC
    steps = await library.steps(DOCUMENTS)
    assert [step.name for step in steps] == ["context_trimmed"]
    assert f"{library.placed} of 50 passages" in steps[0].text
