"""Passages that stay with their questions: each prompt begins like the last, and answers have the reader's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.earlier_passages import cache_price, keep_passages
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.base import ChatTask
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_ledger import Price
from generator_calls import make_passage, make_policy, make_request
from scripted_chat import ScriptedTurns

FREE_CACHE = Price(Decimal(2), Decimal(0), Decimal(2), Decimal(10))
"""With this price, all passages are worth retaining."""
LONG = {number: make_passage(number, 1, f"Fact {number} is so. " * 30, title=f"T{number}") for number in range(1, 40)}


@pytest.fixture(autouse=True)
def short_prompts_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_generator.cache_prices.LEAST_CACHED", 0)


class Conversation:
    """Asks one question after another, as the gateway does."""

    def __init__(self, price: Price | None = FREE_CACHE, window: int = 0, max_context_tokens: int = 0) -> None:
        self.provider = ScriptedTurns("one", ["It is so [ref:1]."], window=window)
        model = self.provider.model
        self.provider.model = ModelInfo(model.provider, model.name, context_window=window, price=price)
        self.policy = make_policy(
            marker_style=pb.MARKER_STYLE_REF, verify_citations=True, max_context_tokens=max_context_tokens
        )
        self.history: list[Message] = []

    async def ask(self, question: str, passages: Sequence[int], answer: str = "It is so [ref:1].") -> list[object]:
        self.provider.turns = [[answer]]
        held = [LONG[number] for number in passages]
        asked = make_request(question, held, list(self.history), self.policy, cache_key="c")
        events: list[object] = [event async for event in Generator(Registry([self.provider])).generate(*asked)]
        started = next(event for event in events if isinstance(event, pb.Started))
        placed = tuple(held[citation.passage_index] for citation in started.citations)
        self.history += [Message(Role.USER, question, passages=placed), Message(Role.ASSISTANT, text_of(events))]
        return events

    @property
    def tasks(self) -> list[ChatTask]:
        return self.provider.tasks


def text_of(events: Sequence[object]) -> str:
    return "".join(text for event in events if isinstance(event, pb.TextDelta) for text in event.texts)


async def test_each_prompt_begins_like_the_last() -> None:
    talk = Conversation()
    for turn, passages in enumerate([(1, 2, 3), (2, 4), (4, 2), (5,), ()]):
        await talk.ask(f"Question {turn}?", passages)
    for earlier, later in pairwise(talk.tasks[:-1]):
        stripped = [(message.role, message.content) for message in earlier.messages]
        assert [(message.role, message.content) for message in later.messages][: len(stripped)] == stripped
    whole = "".join(message.content for message in talk.tasks[3].messages)
    assert [whole.count(f"] T{number}\n") for number in range(1, 6)] == [1] * 5  # each passage once
    assert "[4] T4" in talk.tasks[1].messages[-1].content
    assert "are [2] [4]:" in talk.tasks[1].messages[-1].content
    assert "<passages>" not in talk.tasks[2].messages[-1].content  # both are there already
    assert [task.reused for task in talk.tasks] == [True, True, True, True, True]
    assert {task.cache_key for task in talk.tasks} == {"c"}


async def test_markers_get_the_readers_numbers() -> None:
    talk = Conversation()
    await talk.ask("First?", (1, 2, 3))
    events = await talk.ask("Second?", (4, 2), "Fact 4 is so [ref:4]. Fact 2 is so [ref:2]. Fact 1 is so [ref:1].")
    started = next(event for event in events if isinstance(event, pb.Started))
    assert [(citation.number, citation.passage_index) for citation in started.citations] == [(1, 0), (2, 1)]
    # The third passage came with another question: its number means another passage here.
    assert text_of(events) == "Fact 4 is so [ref:1]. Fact 2 is so [ref:2]. Fact 1 is so."
    verified = [event for event in events if isinstance(event, pb.VerifiedCitation)]
    assert [(event.number, event.sentence_verdict) for event in verified] == [
        (1, pb.VERDICT_SUPPORTED),
        (2, pb.VERDICT_SUPPORTED),
    ]
    completed = events[-1]
    assert isinstance(completed, pb.Completed)
    assert (list(completed.cited_numbers), completed.invalid_markers) == ([1, 2], 1)


@pytest.mark.parametrize("price", [None, Price(Decimal(2), Decimal(1), Decimal(2), Decimal(8))])
async def test_if_it_does_not_pay_earlier_questions_have_no_passages(price: Price | None) -> None:
    talk = Conversation(price)
    await talk.ask("First?", (1, 2))
    await talk.ask("Second?", (3,))
    assert [message.content for message in talk.tasks[1].messages[1:3]] == ["First?", "It is so."]
    assert "[1] T3" in talk.tasks[1].messages[-1].content
    assert talk.tasks[1].reused == (price is not None)  # its own passages may be retained


async def test_retained_passages_never_displace_found_ones() -> None:
    alone, talk = Conversation(max_context_tokens=700), Conversation(max_context_tokens=700)
    await talk.ask("First?", (1, 2, 3, 4))
    for conversation in (alone, talk):
        events = await conversation.ask("Second?", (5, 6, 7, 8))
        started = next(event for event in events if isinstance(event, pb.Started))
        assert len(started.citations) == 4
    assert not any("T1" in message.content for message in talk.tasks[-1].messages)


def test_half_are_dropped_at_a_time_so_that_most_prompts_begin_alike() -> None:
    history: list[Message] = []
    begins: list[str] = []
    for turn in range(1, 31):
        history += [Message(Role.USER, f"Q{turn}?", passages=(LONG[turn],)), Message(Role.ASSISTANT, "So.")]
        earlier = keep_passages(history, pb.CONTEXT_FORMAT_NUMBERED, range(len(history)), most=1_600)
        assert 0 < earlier.tokens <= 1_600
        begins.append("".join(message.content for message in earlier.messages))
    changes = sum(not later.startswith(earlier) for earlier, later in pairwise(begins))
    assert 3 <= changes <= 6  # dropping at each turn would make it 20


def test_when_passages_may_be_retained() -> None:
    def may_be_retained(
        *price: str, remote: bool = True, layout: pb.ContextFormat = pb.CONTEXT_FORMAT_NUMBERED
    ) -> bool:
        known = Price(*map(Decimal, price)) if price else None
        return cache_price(ModelInfo("p", "m", remote=remote, price=known), layout) is not None

    assert may_be_retained("2", "0.2", "2", "8")
    assert may_be_retained("2", "1", "2", "8")
    assert not may_be_retained("2", "2", "2", "8")  # reading from the cache isn't cheaper
    assert not may_be_retained()
    assert not may_be_retained("0", "0", "0", "0")  # a self-hosted server
    assert not may_be_retained("2", "0.2", "2", "8", remote=False)
    # This layout shows each passage's score.
    assert not may_be_retained("2", "0.2", "2", "8", layout=pb.CONTEXT_FORMAT_TYPED)
