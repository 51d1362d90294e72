"""The part of a conversation that reaches the model: within its budget, the latest messages whole, older ones cut."""

from __future__ import annotations

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from citewire_generator.history import SHORTENED_TOKENS, fit_history
from citewire_generator.model import Message, Role
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_generator.tokens import estimate_messages
from generator_calls import make_passage, make_policy, make_request
from scripted_chat import ScriptedChat

PASSAGE = make_passage(1, 1, "Refunds take 14 days.", title="Terms")


def turns(count: int, words: int) -> tuple[Message, ...]:
    """`count` messages, each with a first sentence and `words` more words."""
    return tuple(
        Message(Role.ASSISTANT if n % 2 else Role.USER, f"Sentence {n}. " + "more words " * (words // 2))
        for n in range(count)
    )


def test_messages_that_fit_stay_unchanged() -> None:
    history = turns(4, 10)
    exactly = estimate_messages(history)
    for tokens in (None, exactly):
        assert fit_history(history, tokens, shorten=True).messages == history
    fitted = fit_history(history, exactly - 1, shorten=True)
    assert fitted.messages[-1] == history[-1]
    assert fitted.shortened + fitted.dropped > 0


def test_the_latest_stay_whole_and_older_ones_are_cut_to_their_beginning() -> None:
    history = turns(10, 200)
    fitted = fit_history(history, 1_000, shorten=True)
    whole = [message for message in fitted.messages if message in history]
    short = [message for message in fitted.messages if message not in history]
    assert fitted.messages == (*short, *whole)
    assert whole == list(history[-len(whole) :])
    assert (fitted.shortened, fitted.dropped) == (len(short), 10 - len(fitted.messages))
    assert [message.content for message in short][-1] == f"Sentence {9 - len(whole)}. …"
    assert [message.role for message in fitted.messages] == [message.role for message in history[fitted.dropped :]]


def test_markers_of_shortened_answers_are_removed() -> None:
    history = (Message(Role.ASSISTANT, "It is 5 [ref:3]. " + "word " * 1_000), Message(Role.USER, "Why?"))
    assert fit_history(history, 100, shorten=True).messages[0].content == "It is 5. …"


def test_without_shortening_whole_messages_are_left_out() -> None:
    history = turns(10, 200)
    fitted = fit_history(history, 1_000, shorten=False)
    assert fitted.messages == history[-len(fitted.messages) :]
    assert (fitted.shortened, fitted.dropped) == (0, 10 - len(fitted.messages))


TEXTS = st.text(alphabet="ab .!?\n語é[]ref:1", max_size=400)


@given(st.lists(st.tuples(st.sampled_from([Role.USER, Role.ASSISTANT]), TEXTS), max_size=12), st.integers(0, 600))
def test_a_budget_is_never_exceeded(history: list[tuple[Role, str]], tokens: int) -> None:
    messages = tuple(Message(role, text) for role, text in history)
    for shorten in (True, False):
        fitted = fit_history(messages, tokens, shorten=shorten)
        assert fitted.tokens == estimate_messages(fitted.messages) <= tokens
        assert len(fitted.messages) + fitted.dropped == len(messages)
        for message in fitted.messages[: fitted.shortened]:
            assert estimate_messages((message,)) <= SHORTENED_TOKENS + 4


async def ask(history: tuple[Message, ...], budget: int) -> tuple[tuple[Message, ...], list[pb.Notice]]:
    provider = ScriptedChat("It takes 14 days.")
    policy = make_policy(marker_style=pb.MARKER_STYLE_REF, max_history_tokens=budget)
    asked = make_request("How long?", (PASSAGE,), history, policy)
    events = [event async for event in Generator(Registry([provider])).generate(*asked)]
    return provider.tasks[0].messages, [event for event in events if isinstance(event, pb.Notice)]


@pytest.mark.parametrize("count", [0, 2, 40, 1_000])
async def test_system_prompt_and_history_take_1500_tokens_together(count: int) -> None:
    messages, notices = await ask(turns(count, 100), 1_500)
    assert messages[0].role is Role.SYSTEM
    assert estimate_messages(messages[:-1]) <= 1_500
    if count > 2:
        [notice] = notices
        assert notice.name == "history_condensed"
        assert f" of {count} earlier messages were shortened" in notice.text
        assert estimate_messages(messages[:-1]) > 1_200  # the budget is used
    else:
        assert not notices
        assert len(messages) == 2 + count


async def test_without_a_budget_all_messages_are_sent() -> None:
    history = turns(60, 100)
    messages, notices = await ask(history, 0)
    assert messages[1:-1] == history
    assert not notices


async def test_a_budget_below_the_system_prompt_leaves_no_history() -> None:
    messages, notices = await ask(turns(3, 10), 50)
    assert len(messages) == 2
    assert [(notice.name, notice.text) for notice in notices] == [
        ("context_trimmed", "3 of 3 earlier messages don't fit the history's budget and were left out.")
    ]
