"""What profiles switch on: the decision, context paths, history, rewriting, a second ranking, the assessment."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from citewire_gateway.chat.events import Assessed, Citations, Decided, Done, Sources, Step, Tokens, Usage
from citewire_gateway.clients.domain import Chunk, Comparison, Hit, Operator, Scope, ScopeCounts
from citewire_gateway.clients.generation import Decision, Message, Packed, RewriteKind, Rewritten, Started, TokenUsage
from citewire_gateway.profiles.builtin import DOCUMENTS, GROUNDED, LIBRARY, SELF_RAG, SOURCES
from citewire_gateway.profiles.changes import Changes, changed
from citewire_kit.errors import NotFound, Unavailable
from citewire_kit.ids import uuid7
from citewire_kit.tenant import LOCAL_TENANT, Tenant
from gateway_process import until
from scripted_pipeline import HIT, World

GENERAL_KNOWLEDGE = Decision(False, "It is a greeting.", usage=TokenUsage(10, 1))
AWAY = Unavailable("away", reason="PROVIDER_UNAVAILABLE")


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_decision_comes_first_and_an_assessment_last(world: World) -> None:
    events = await world.events(SELF_RAG)
    assert [type(event) for event in events] == [Decided, Citations, Tokens, Assessed, Usage, Done]
    assert events[0] == Decided(True, "It asks for saved content.")
    assert events[3] == Assessed(True, 0.9)
    # 10 + 1 for the decision, 1 + 2 for the answer, 20 + 2 for the assessment.
    assert events[4] == Usage(9, 31, 5)
    assert world.generator.assessed == ("one", [HIT])
    details = world.records.closings[0].details
    assert details["decision"] == {"needs_retrieval": True, "reason": "It asks for saved content."}
    assert details["assessment"] == {"supported": True, "utility": 0.9}


async def test_retrieval_runs_beside_the_decision(world: World) -> None:
    world.generator.decide_waits = asyncio.Event()
    running = asyncio.create_task(world.events(SELF_RAG))
    await until(lambda: "search" in world.log)
    assert "generate" not in world.log
    world.generator.decide_waits.set()
    assert isinstance((await running)[-1], Done)


async def test_without_need_nothing_found_is_shown_or_given_to_the_model(world: World) -> None:
    world.generator.decision = GENERAL_KNOWLEDGE
    world.retriever.search_waits = asyncio.Event()  # never set: the search is given up
    async with asyncio.timeout(5):
        events = await world.events(SELF_RAG)
    assert [type(event) for event in events] == [Decided, Tokens, Assessed, Usage, Done]
    assert world.generator.queries[0].passages == ()
    assert world.generator.assessed == ("one", [])


async def test_a_failed_search_is_no_failure_where_nothing_is_needed(world: World) -> None:
    world.generator.decision = GENERAL_KNOWLEDGE
    world.retriever.error = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    assert isinstance((await world.events(SELF_RAG))[-1], Done)


async def test_a_failed_search_is_a_failure_where_it_is_needed(world: World) -> None:
    world.retriever.error = NotFound("no such documents: 1", reason="DOCUMENT_NOT_FOUND")
    with pytest.raises(NotFound):
        await world.events(SELF_RAG)


async def test_nothing_found_is_said_with_an_empty_list_and_the_model_is_asked(world: World) -> None:
    world.retriever.hits = []
    events = await world.events(SELF_RAG)
    assert events[1] == Citations(())
    assert "generate" in world.log


async def test_judgements_that_fail_are_the_documented_defaults(world: World) -> None:
    world.generator.decision = world.generator.assessment = AWAY
    events = await world.events(SELF_RAG)
    decided = events[0]
    assert isinstance(decided, Decided)
    assert (decided.needs_retrieval, decided.fallback) == (True, True)
    assert "No decision could be had" in decided.reason
    assert events[3] == Assessed(True, 0.7, fallback=True)


async def test_speculation_begins_the_answer_before_the_decision(world: World) -> None:
    world.generator.decide_waits = asyncio.Event()
    running = asyncio.create_task(world.events(replace(SELF_RAG, speculate=True)))
    await until(lambda: "generate" in world.log)
    world.generator.decide_waits.set()
    events = await running
    assert [type(event) for event in events] == [Decided, Citations, Tokens, Assessed, Usage, Done]
    assert world.log.count("generate") == 1


async def test_speculation_that_was_wrong_is_stopped_and_the_answer_begun_anew(world: World) -> None:
    world.generator.decision = GENERAL_KNOWLEDGE
    world.generator.decide_waits = asyncio.Event()
    running = asyncio.create_task(world.events(replace(SELF_RAG, speculate=True)))
    await until(lambda: "generate" in world.log)
    world.generator.decide_waits.set()
    events = await running
    assert [type(event) for event in events] == [Decided, Tokens, Assessed, Usage, Done]
    assert world.log.count("generate") == 2
    assert world.log.index("generator closed") < len(world.log) - 1 - world.log[::-1].index("generate")
    assert [query.passages for query in world.generator.queries] == [(HIT,), ()]


@pytest.mark.parametrize("speculate", [True, False])
async def test_leaving_while_it_decides_stops_everything(world: World, speculate: bool) -> None:
    world.generator.decide_waits = asyncio.Event()
    running = asyncio.create_task(world.events(replace(SELF_RAG, speculate=speculate)))
    await until(lambda: "search" in world.log)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert world.log[-1] == "close cancelled"
    assert world.log.count("generate") == world.log.count("generator closed")


async def test_a_library_read_whole_is_not_searched(world: World) -> None:
    world.retriever.path = "long_context_trim"
    world.retriever.counts = ScopeCounts(items=300, kept=2, trimmed=298)
    world.retriever.hits = [_hit(1, document_id=7), _hit(2, document_id=7), _hit(3, document_id=8)]
    world.generator.events[0] = Started("fake", "fake-1", (Packed(1, 0), Packed(2, 1), Packed(3, 2)))
    events = await world.events(LIBRARY)
    assert "search" not in world.log
    assert "embed" not in world.log
    step = next(event for event in events if isinstance(event, Step))
    assert (step.name, step.path) == ("context_path", "long_context_trim")
    assert step.counts == {"items": 300, "kept": 2, "trimmed": 298, "without_embedding": 0}
    assert "298 items did not fit" in step.text
    kinds = [type(event) for event in events]
    assert kinds.index(Step) < kinds.index(Citations) < kinds.index(Tokens)
    usage = next(event for event in events if isinstance(event, Usage))
    assert usage.path == "long_context_trim"


@pytest.mark.parametrize(("plan", "tokens"), [("free", 28_500), ("basic", 28_500), ("pro", 148_500)])
async def test_the_plan_bounds_what_the_model_is_given(world: World, plan: str, tokens: int) -> None:
    tenant = Tenant(LOCAL_TENANT.org_id, LOCAL_TENANT.user_id, plan, ("member",))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # one of three
    await world.events(LIBRARY, tenant=tenant)
    assert world.retriever.max_tokens == tokens
    policy = world.generator.queries[0].policy
    assert (policy.max_context_tokens, policy.max_history_tokens) == (tokens, 1_500)


async def test_a_large_library_is_searched_by_item_with_the_latest_beside(world: World) -> None:
    await world.events(LIBRARY, top_k=40, min_score=0.15)
    query = world.retriever.query
    assert query is not None
    assert (query.by_document, query.recent, query.top_k, query.min_score) == (True, 10, 40, 0.15)
    assert world.log.index("plan") < world.log.index("embed")


async def test_sources_come_after_the_last_token(world: World) -> None:
    events = await world.events(SOURCES)
    kinds = [type(event) for event in events]
    assert kinds[-4:] == [Tokens, Sources, Usage, Done]


async def test_history_goes_to_the_model_and_a_follow_up_is_searched_for_by_itself(world: World) -> None:
    earlier = (Message("user", "Who is it?"), Message("assistant", "Ada."))
    events = await world.events(GROUNDED, messages=(*earlier, Message("user", "What?")))
    assert world.generator.rewrites == [(RewriteKind.CONDENSE, "What?", earlier)]
    assert world.embedder.questions == ["What is it?"]
    query = world.generator.queries[0]
    assert (query.question, query.history) == ("What?", earlier)
    assert "question_condensed" in [event.name for event in events if isinstance(event, Step)]
    usage = next(event for event in events if isinstance(event, Usage))
    assert (usage.prompt_tokens, usage.completion_tokens) == (6, 5)


async def test_a_conversation_that_goes_on_brings_its_own_history(world: World) -> None:
    await world.events(LIBRARY, conversation_id=uuid7())
    assert world.generator.queries[0].history == (Message("user", "Earlier?"), Message("assistant", "Yes."))


async def test_no_history_where_the_profile_has_none(world: World) -> None:
    messages = (Message("user", "Who?"), Message("assistant", "Ada."), Message("user", "What?"))
    await world.events(DOCUMENTS, messages=messages)
    assert world.generator.queries[0].history == ()
    assert "history" not in world.log


async def test_a_rewriting_that_fails_costs_no_answer(world: World) -> None:
    world.generator.rewritten = AWAY
    messages = (Message("user", "Who?"), Message("assistant", "Ada."), Message("user", "What?"))
    events = await world.events(replace(GROUNDED, hyde=True), messages=messages)
    assert isinstance(events[-1], Done)
    assert world.embedder.questions == ["What?"]


async def test_hyde_embeds_a_passage_and_ranks_words_by_the_question(world: World) -> None:
    await world.events(replace(SOURCES, hyde=True))
    assert world.embedder.questions == ["What is it?"]
    assert world.retriever.query is not None
    assert world.retriever.query.query == "What?"


async def test_a_second_ranking_keeps_the_best(world: World) -> None:
    world.retriever.hits = [_hit(number) for number in range(1, 8)]
    await world.events(GROUNDED, top_k=3)
    assert world.retriever.query is not None
    assert world.retriever.query.top_k == 40
    assert [hit.chunk.chunk_id for hit in world.generator.queries[0].passages] == [7, 6, 5]


async def test_a_second_ranking_that_fails_leaves_the_first(world: World) -> None:
    world.retriever.hits = [_hit(number) for number in range(1, 8)]
    world.embedder.rerank_error = AWAY
    events = await world.events(GROUNDED, top_k=3)
    assert [hit.chunk.chunk_id for hit in world.generator.queries[0].passages] == [1, 2, 3]
    assert "rerank_failed" in [event.name for event in events if isinstance(event, Step)]


async def test_a_chat_is_kept_on_request_where_the_profile_leaves_that_to_it(world: World) -> None:
    await world.events(SELF_RAG)
    assert "begin" not in world.log
    await world.events(SELF_RAG, keep=True)
    assert "begin" in world.log


async def test_what_a_cut_answer_spent_includes_what_was_decided_before(world: World) -> None:
    async with aclosing(world.run(SELF_RAG)) as events:
        async for event in events:
            if isinstance(event, Tokens):
                break
    usage = world.records.closings[0].usage
    assert usage == TokenUsage(10 + 10 + len("What?") // 4, 1 + 1, estimated=True)


def _hit(chunk_id: int, document_id: int = 7) -> Hit:
    return Hit(Chunk(chunk_id, document_id, 1, chunk_id, "text", "Title", "a.md", token_count=10), 0.8, 0.8)


async def test_a_question_narrows_its_search_and_says_so(world: World) -> None:
    events = await world.events(LIBRARY, question="What is new in #rust?")
    assert world.retriever.query is not None
    assert world.retriever.query.scope.filter == Comparison("tags", Operator.CONTAINS, "rust")
    step = next(event for event in events if isinstance(event, Step))
    assert (step.name, step.text) == ("filter_derived", "Only what the question names was searched: tags rust.")


async def test_a_narrowing_that_leaves_nothing_is_dropped_and_said(world: World) -> None:
    world.retriever.hits_under_filter = []
    events = await world.events(LIBRARY, question="What is new in #rust?")
    assert world.retriever.query is not None
    assert world.retriever.query.scope.filter is None
    assert "filter_dropped" in [event.name for event in events if isinstance(event, Step)]
    assert world.records.closings[0].embedding_tokens == 18  # it was embedded twice


async def test_a_given_filter_is_not_narrowed_further(world: World) -> None:
    given = Comparison("tags", Operator.CONTAINS, "go")
    await world.events(LIBRARY, question="What is new in #rust?", scope=Scope(filter=given))
    assert world.retriever.query is not None
    assert world.retriever.query.scope.filter == given


async def test_a_follow_up_that_could_not_be_rewritten_is_searched_for_as_it_came(world: World) -> None:
    world.generator.rewritten = Rewritten("What?", fallback=True, usage=TokenUsage(5, 3))
    messages = (Message("user", "Who?"), Message("assistant", "Ada."), Message("user", "What?"))
    events = await world.events(replace(GROUNDED, hyde=True), messages=messages)
    assert world.embedder.questions == ["What?"]
    assert "question_condensed" not in [event.name for event in events if isinstance(event, Step)]
    usage = next(event for event in events if isinstance(event, Usage))
    assert (usage.prompt_tokens, usage.completion_tokens) == (1 + 5 + 5, 2 + 3 + 3)


async def test_a_library_ranked_again_keeps_ten_of_forty(world: World) -> None:
    world.retriever.hits = [_hit(number, document_id=number) for number in range(1, 41)]
    world.generator.events[0] = Started("fake", "fake-1", ())
    await world.events(changed(LIBRARY, Changes(rerank=True), "options"), top_k=40)
    assert [hit.chunk.chunk_id for hit in world.generator.queries[0].passages] == list(range(40, 30, -1))


async def test_whole_items_are_not_ranked_again(world: World) -> None:
    world.retriever.path = "long_context"
    world.retriever.hits = [_hit(number) for number in range(1, 41)]
    world.generator.events[0] = Started("fake", "fake-1", ())
    await world.events(changed(LIBRARY, Changes(rerank=True), "options"), top_k=40)
    assert "rerank" not in world.log
    assert len(world.generator.queries[0].passages) == 40
