"""Optional parts of profiles: the decision, context paths, history, rewriting, a second ranking, the assessment."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import filter_pb2, retriever_pb2

from citewire_dialects.events import (
    Assessment,
    Citations,
    ConversationCreated,
    Decision,
    Done,
    Sources,
    Step,
    Tokens,
    Usage,
)
from citewire_dialects.json_values import value_from_json
from citewire_dialects.options import apply_changes
from citewire_dialects.profile import Profile
from citewire_dialects.schemas.profiles import ProfileOptions
from citewire_gateway.chat.store import chat_message
from citewire_gateway.profiles.builtin import DOCUMENTS, GROUNDED, LIBRARY, SELF_RAG, SOURCES
from citewire_kit.errors import DeadlineExceeded, NotFound, Unavailable
from citewire_kit.ids import uuid7
from citewire_kit.tenant import LOCAL_TENANT, Tenant
from gateway_fakes import result, started
from pipeline_harness import RESULT, PipelineHarness, usage
from waiting import wait_until

GENERAL_KNOWLEDGE = generator_pb2.DecideResponse(reason="It is a greeting.", usage=usage(10, 1))
AWAY = Unavailable("away", reason="PROVIDER_UNAVAILABLE")


@pytest.fixture
async def harness() -> PipelineHarness:
    return PipelineHarness()


async def test_a_decision_comes_first_and_an_assessment_last(harness: PipelineHarness) -> None:
    events = await harness.events(SELF_RAG)
    assert [type(event) for event in events] == [Decision, Citations, Tokens, Assessment, Usage, Done]
    assert events[0] == Decision(harness.generator.decision)
    assert events[3] == Assessment(harness.generator.assessment)
    # 10 + 1 for the decision, 1 + 2 for the answer, 20 + 2 for the assessment.
    assert events[4] == Usage(9, 31, 5)
    assessed = harness.generator.assessed[0]
    assert (assessed.answer, [passage.chunk_id for passage in assessed.passages]) == ("one", [RESULT.chunk.chunk_id])
    details = harness.records.closings[0].details
    assert details["decision"] == {"needs_retrieval": True, "reason": "It asks for saved content."}
    assert details["assessment"] == {"supported": True, "utility": 0.9}


async def test_retrieval_and_the_decision_run_concurrently(harness: PipelineHarness) -> None:
    decided = harness.log.gates["decide"] = asyncio.Event()
    running = asyncio.create_task(harness.events(SELF_RAG))
    await wait_until(lambda: "search" in harness.calls)
    assert "generate" not in harness.calls
    decided.set()
    assert isinstance((await running)[-1], Done)


async def test_if_retrieval_is_not_needed_its_results_are_not_used(harness: PipelineHarness) -> None:
    harness.generator.decision = GENERAL_KNOWLEDGE
    harness.log.gates["search"] = asyncio.Event()  # never set: the search is given up
    async with asyncio.timeout(5):
        events = await harness.events(SELF_RAG)
    assert [type(event) for event in events] == [Decision, Tokens, Assessment, Usage, Done]
    assert not harness.generator.requests[0].passages
    assert harness.generator.assessed[0].answer == "one"
    assert not harness.generator.assessed[0].passages


async def test_a_failed_search_is_ignored_if_retrieval_is_not_needed(harness: PipelineHarness) -> None:
    harness.generator.decision = GENERAL_KNOWLEDGE
    harness.log.errors["search"] = Unavailable("away", reason="DATABASE_UNAVAILABLE")
    assert isinstance((await harness.events(SELF_RAG))[-1], Done)


async def test_a_failed_search_is_an_error_if_retrieval_is_needed(harness: PipelineHarness) -> None:
    harness.log.errors["search"] = NotFound("no such documents: 1", reason="DOCUMENT_NOT_FOUND")
    with pytest.raises(NotFound):
        await harness.events(SELF_RAG)


async def test_without_results_the_list_is_empty_and_the_model_is_asked(harness: PipelineHarness) -> None:
    harness.retriever.results = []
    events = await harness.events(SELF_RAG)
    assert events[1] == Citations(())
    assert "generate" in harness.calls


async def test_failed_judgements_have_the_documented_defaults(harness: PipelineHarness) -> None:
    harness.log.errors |= {"decide": AWAY, "assess": AWAY}
    events = await harness.events(SELF_RAG)
    decision = events[0]
    assert isinstance(decision, Decision)
    assert (decision.decision.needs_retrieval, decision.decision.fallback) == (True, True)
    assert "The model could not decide" in decision.decision.reason
    assert events[4] == Assessment(generator_pb2.AssessResponse(supported=True, utility=0.7, fallback=True))


async def test_speculation_begins_the_answer_before_the_decision(harness: PipelineHarness) -> None:
    decided = harness.log.gates["decide"] = asyncio.Event()
    running = asyncio.create_task(harness.events(replace(SELF_RAG, speculate=True)))
    await wait_until(lambda: "generate" in harness.calls)
    decided.set()
    events = await running
    assert [type(event) for event in events] == [Decision, Citations, Tokens, Assessment, Usage, Done]
    assert harness.calls.count("generate") == 1


async def test_wrong_speculation_is_stopped_and_the_answer_started_again(harness: PipelineHarness) -> None:
    harness.generator.decision = GENERAL_KNOWLEDGE
    decided = harness.log.gates["decide"] = asyncio.Event()
    running = asyncio.create_task(harness.events(replace(SELF_RAG, speculate=True)))
    await wait_until(lambda: "generate" in harness.calls)
    decided.set()
    events = await running
    assert [type(event) for event in events] == [Decision, Tokens, Assessment, Usage, Done]
    assert harness.calls.count("generate") == 2
    assert harness.calls.index("generator closed") < len(harness.calls) - 1 - harness.calls[::-1].index("generate")
    assert [len(request.passages) for request in harness.generator.requests] == [1, 0]


@pytest.mark.parametrize("profile", [DOCUMENTS, SELF_RAG], ids=lambda profile: profile.name)
@pytest.mark.parametrize("results", [[result(1)], []], ids=["results", "nothing"])
@pytest.mark.parametrize("decision", [None, GENERAL_KNOWLEDGE], ids=["retrieval", "none"])
async def test_a_speculated_answer_stores_its_question_once_and_first_sends_its_conversation(
    harness: PipelineHarness,
    profile: Profile,
    results: list[retriever_pb2.SearchResult],
    decision: generator_pb2.DecideResponse | None,
) -> None:
    harness.retriever.results = results
    if decision is not None:
        harness.generator.decision = decision
    decided = harness.log.gates["decide"] = asyncio.Event()
    begins = harness.log.gates["begin"] = asyncio.Event()
    running = asyncio.create_task(harness.events(replace(profile, decide=True, speculate=True), keep=True))
    await wait_until(lambda: "search" in harness.calls and (not results or "generate" in harness.calls))
    decided.set()
    await wait_until(lambda: "decide" in harness.calls)
    begins.set()
    events = await running
    assert harness.calls.count("begin") == 1
    assert [type(event) for event in events[:2]] == [ConversationCreated, Decision]
    assert harness.records.closings[0].ordinal == 2
    not_found = not results and decision is None and profile.no_match is not None
    assert [event.outcome.not_found for event in events if isinstance(event, Done)] == [not_found]


@pytest.mark.parametrize("speculate", [True, False])
async def test_leaving_during_the_decision_stops_everything(harness: PipelineHarness, speculate: bool) -> None:
    harness.log.gates["decide"] = asyncio.Event()
    running = asyncio.create_task(harness.events(replace(SELF_RAG, speculate=speculate)))
    await wait_until(lambda: "search" in harness.calls)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert harness.calls[-1] == "close cancelled"
    assert harness.calls.count("generate") == harness.calls.count("generator closed")


async def test_a_library_read_whole_is_not_searched(harness: PipelineHarness) -> None:
    harness.retriever.path = retriever_pb2.CONTEXT_PATH_LONG_CONTEXT_TRIM
    harness.retriever.context_counts = retriever_pb2.ScopeCounts(items=300, kept=2, trimmed=298)
    harness.retriever.results = [result(1, document_id=7), result(2, document_id=7), result(3, document_id=8)]
    harness.messages[0] = started((1, 0), (2, 1), (3, 2))
    events = await harness.events(LIBRARY)
    assert "search" not in harness.calls
    assert "embed" not in harness.calls
    step = next(event for event in events if isinstance(event, Step))
    assert (step.name, step.path) == ("context_path", "long_context_trim")
    assert step.counts == {"items": 300, "kept": 2, "trimmed": 298, "without_embedding": 0}
    assert "The model was given 2 of 300 items, the most recent ones; 298 did not fit." in step.text
    kinds = [type(event) for event in events]
    assert kinds.index(Step) < kinds.index(Citations) < kinds.index(Tokens)
    spent = next(event for event in events if isinstance(event, Usage))
    assert spent.path == "long_context_trim"


@pytest.mark.parametrize(("plan", "tokens"), [("free", 28_500), ("basic", 28_500), ("pro", 148_500)])
async def test_the_plan_limits_the_models_context(harness: PipelineHarness, plan: str, tokens: int) -> None:
    tenant = Tenant(LOCAL_TENANT.org_id, LOCAL_TENANT.user_id, plan, ("member",))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # one of three
    await harness.events(LIBRARY, tenant=tenant)
    assert harness.retriever.plans[0].max_tokens == tokens
    policy = harness.generator.requests[0].policy
    assert (policy.max_context_tokens, policy.max_history_tokens) == (tokens, 1_500)


async def test_a_large_library_is_searched_by_item_and_the_latest_are_added(harness: PipelineHarness) -> None:
    await harness.events(LIBRARY, top_k=40, min_score=0.15)
    request = harness.retriever.searches[0]
    assert request.group_by == retriever_pb2.GROUP_BY_DOCUMENT
    assert (request.recent, request.top_k, request.min_score) == (10, 40, 0.15)
    assert harness.calls.index("plan") < harness.calls.index("embed")


async def test_sources_come_after_the_last_token(harness: PipelineHarness) -> None:
    events = await harness.events(SOURCES)
    kinds = [type(event) for event in events]
    assert kinds[-4:] == [Tokens, Sources, Usage, Done]


async def test_history_goes_to_the_model_and_a_follow_up_is_rewritten_for_the_search(harness: PipelineHarness) -> None:
    earlier = (chat_message("user", "Who is it?"), chat_message("assistant", "Ada."))
    events = await harness.events(GROUNDED, messages=(*earlier, chat_message("user", "What?")))
    rewrite = harness.generator.rewrites[0]
    assert (rewrite.kind, rewrite.question) == (generator_pb2.REWRITE_KIND_CONDENSE, "What?")
    assert tuple(rewrite.history) == earlier
    assert [request.inputs[0] for request in harness.embedder.requests] == ["What is it?"]
    request = harness.generator.requests[0]
    assert (request.question, tuple(request.history)) == ("What?", earlier)
    assert "question_condensed" in [event.name for event in events if isinstance(event, Step)]
    spent = next(event for event in events if isinstance(event, Usage))
    assert (spent.prompt_tokens, spent.completion_tokens) == (6, 5)


@pytest.mark.parametrize("profile", [LIBRARY, SELF_RAG, GROUNDED], ids=lambda profile: profile.name)
async def test_every_profile_with_a_history_searches_for_the_rewritten_question(
    harness: PipelineHarness, profile: Profile
) -> None:
    earlier = (chat_message("user", "Who is it?"), chat_message("assistant", "Ada."))
    events = await harness.events(profile, messages=(*earlier, chat_message("user", "What?")))
    assert [request.inputs[0] for request in harness.embedder.requests] == ["What is it?"]
    done = next(event for event in events if isinstance(event, Done))
    step = next(step for step in done.outcome.steps if step.name == "question_condensed")
    assert step.text == "The follow-up was understood as: What is it?"
    assert harness.generator.requests[0].question == "What?"


async def test_a_standalone_question_is_not_rewritten(harness: PipelineHarness) -> None:
    harness.generator.rewritten = generator_pb2.RewriteResponse(text="What?", usage=usage(1, 1))
    earlier = (chat_message("user", "Who is it?"), chat_message("assistant", "Ada."))
    events = await harness.events(GROUNDED, messages=(*earlier, chat_message("user", "What?")))
    assert [request.inputs[0] for request in harness.embedder.requests] == ["What?"]
    assert "question_condensed" not in [event.name for event in events if isinstance(event, Step)]


async def test_a_library_question_with_items_attached_is_not_rewritten(harness: PipelineHarness) -> None:
    harness.retriever.path = retriever_pb2.CONTEXT_PATH_FOCUSED
    harness.retriever.known = {1}
    harness.messages[0] = started()
    scope = retriever_pb2.Scope(selection=retriever_pb2.DocumentSelection(document_ids=[1]))
    earlier = (chat_message("user", "Who is it?"), chat_message("assistant", "Ada."))
    await harness.events(LIBRARY, scope=scope, messages=(*earlier, chat_message("user", "What?")))
    assert not harness.generator.rewrites


async def test_a_continued_conversation_has_its_stored_history(harness: PipelineHarness) -> None:
    await harness.events(LIBRARY, conversation_id=uuid7())
    history = [chat_message("user", "Earlier?"), chat_message("assistant", "Yes.")]
    assert list(harness.generator.requests[0].history) == history


async def test_no_history_if_the_profile_has_none(harness: PipelineHarness) -> None:
    messages = (chat_message("user", "Who?"), chat_message("assistant", "Ada."), chat_message("user", "What?"))
    await harness.events(DOCUMENTS, messages=messages)
    assert not harness.generator.requests[0].history
    assert "history" not in harness.calls


async def test_a_failed_rewriting_does_not_fail_the_answer(harness: PipelineHarness) -> None:
    harness.log.errors["rewrite"] = AWAY
    messages = (chat_message("user", "Who?"), chat_message("assistant", "Ada."), chat_message("user", "What?"))
    events = await harness.events(replace(GROUNDED, hyde=True), messages=messages)
    assert isinstance(events[-1], Done)
    assert [request.inputs[0] for request in harness.embedder.requests] == ["What?"]


async def test_hyde_embeds_a_passage_and_searches_terms_of_the_question(harness: PipelineHarness) -> None:
    await harness.events(replace(SOURCES, hyde=True))
    assert [request.inputs[0] for request in harness.embedder.requests] == ["What is it?"]
    assert harness.retriever.searches[-1].query == "What?"


async def test_a_second_ranking_keeps_the_best(harness: PipelineHarness) -> None:
    harness.retriever.results = [result(number) for number in range(1, 8)]
    await harness.events(GROUNDED, top_k=3)
    assert harness.retriever.searches[-1].top_k == 40
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == [7, 6, 5]


async def test_a_failed_rerank_names_its_provider_in_a_step(harness: PipelineHarness) -> None:
    message = "the model provider cohere can't be reached (model rerank-v4)"
    named = {"provider": "cohere", "model": "rerank-v4"}
    harness.log.errors["rerank"] = Unavailable(message, reason="PROVIDER_UNAVAILABLE", metadata=named)
    events = await harness.events(GROUNDED, top_k=3)
    (step,) = [event for event in events if isinstance(event, Step) and event.name == "rerank_failed"]
    assert step.text.endswith("The model provider cohere can't be reached (model rerank-v4).")


async def test_a_second_ranking_that_fails_leaves_the_first(harness: PipelineHarness) -> None:
    harness.retriever.results = [result(number) for number in range(1, 8)]
    harness.log.errors["rerank"] = AWAY
    events = await harness.events(GROUNDED, top_k=3)
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == [1, 2, 3]
    assert "rerank_failed" in [event.name for event in events if isinstance(event, Step)]


async def test_a_second_ranking_reports_its_progress(harness: PipelineHarness) -> None:
    harness.retriever.results = [result(number) for number in range(1, 8)]

    async def rerank_step(profile: Profile) -> Step:
        events = await harness.events(profile, top_k=5)
        return next(event for event in events if isinstance(event, Step) and event.name == "reranked")

    step = await rerank_step(GROUNDED)
    assert (step.text, step.counts) == ("7 of 7 results were ranked a second time.", {"candidates": 7, "ranked": 7})
    harness.embedder.scored = 3
    step = await rerank_step(apply_changes(GROUNDED, ProfileOptions(rerank_seconds=0.25), "options"))
    assert step.text == "3 of 7 results were ranked a second time within 0.25 s; the others follow in the first order."
    assert step.counts == {"candidates": 7, "ranked": 3}
    assert [request.budget.ToMilliseconds() for request in harness.embedder.reranked] == [300, 250]
    assert [passage.chunk_id for passage in harness.generator.requests[-1].passages] == [3, 2, 1, 4, 5]


async def test_a_second_ranking_that_does_not_answer_in_time_leaves_the_first(harness: PipelineHarness) -> None:
    harness.retriever.results = [result(number) for number in range(1, 8)]
    harness.log.errors["rerank"] = DeadlineExceeded("too late", reason="DEADLINE")
    events = await harness.events(GROUNDED, top_k=3)
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == [1, 2, 3]
    step = next(event for event in events if isinstance(event, Step) and event.name == "reranked")
    assert step.counts == {"candidates": 7, "ranked": 0}


async def test_a_chat_is_stored_on_request_if_the_profile_allows(harness: PipelineHarness) -> None:
    await harness.events(SELF_RAG)
    assert "begin" not in harness.calls
    await harness.events(SELF_RAG, keep=True)
    assert "begin" in harness.calls


async def test_the_usage_of_an_interrupted_answer_includes_the_decision(harness: PipelineHarness) -> None:
    async with aclosing(harness.run(SELF_RAG)) as events:
        async for event in events:
            if isinstance(event, Tokens):
                break
    spent = harness.records.closings[0].usage
    assert spent == usage(10 + 10 + len("What?") // 4, 1 + 1, estimated=True)


def _tagged(tag: str) -> filter_pb2.Filter:
    comparison = filter_pb2.Comparison(field="tags", op=filter_pb2.OPERATOR_CONTAINS, value=value_from_json(tag))
    return filter_pb2.Filter(comparison=comparison)


async def test_a_question_narrows_its_search_with_a_step(harness: PipelineHarness) -> None:
    harness.retriever.query_filter = retriever_pb2.QueryFilter(filter=_tagged("rust"), phrases=["tags rust"])
    events = await harness.events(LIBRARY, question="What is new in #rust?")
    assert harness.retriever.searches[-1].scope.filter == _tagged("rust")
    step = next(event for event in events if isinstance(event, Step))
    assert (step.name, step.text) == ("filter_derived", "Only what the question names was searched: tags rust.")


async def test_every_step_of_a_library_chat_has_its_path_and_counts(harness: PipelineHarness) -> None:
    harness.retriever.query_filter = retriever_pb2.QueryFilter(filter=_tagged("rust"), phrases=["tags rust"])
    events = await harness.events(LIBRARY, question="What is new in #rust?")
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.name for step in steps] == ["filter_derived", "context_path"]
    assert [(step.path, step.counts) for step in steps] == [("semantic", steps[-1].counts)] * 2
    assert steps[-1].counts is not None
    assert isinstance(events[-1], Done)
    assert events[-1].outcome.steps == tuple(steps)


async def test_a_filter_that_leaves_nothing_is_dropped_with_a_step(harness: PipelineHarness) -> None:
    harness.retriever.filtered_results = []
    harness.retriever.query_filter = retriever_pb2.QueryFilter(filter=_tagged("rust"), phrases=["tags rust"])
    events = await harness.events(LIBRARY, question="What is new in #rust?")
    assert not harness.retriever.searches[-1].scope.HasField("filter")
    assert "filter_dropped" in [event.name for event in events if isinstance(event, Step)]
    assert harness.records.closings[0].embedding_tokens == 18  # it was embedded twice


async def test_a_given_filter_is_not_narrowed_further(harness: PipelineHarness) -> None:
    given = _tagged("go")
    harness.retriever.query_filter = retriever_pb2.QueryFilter(filter=_tagged("rust"), phrases=["tags rust"])
    await harness.events(LIBRARY, question="What is new in #rust?", scope=retriever_pb2.Scope(filter=given))
    assert harness.retriever.searches[-1].scope.filter == given


async def test_a_follow_up_that_could_not_be_rewritten_is_searched_for_unchanged(harness: PipelineHarness) -> None:
    harness.generator.rewritten = generator_pb2.RewriteResponse(text="What?", fallback=True, usage=usage(5, 3))
    messages = (chat_message("user", "Who?"), chat_message("assistant", "Ada."), chat_message("user", "What?"))
    events = await harness.events(replace(GROUNDED, hyde=True), messages=messages)
    assert [request.inputs[0] for request in harness.embedder.requests] == ["What?"]
    assert "question_condensed" not in [event.name for event in events if isinstance(event, Step)]
    spent = next(event for event in events if isinstance(event, Usage))
    assert (spent.prompt_tokens, spent.completion_tokens) == (1 + 5 + 5, 2 + 3 + 3)


async def test_a_library_ranked_again_keeps_ten_of_forty(harness: PipelineHarness) -> None:
    harness.retriever.results = [result(number, document_id=number) for number in range(1, 41)]
    harness.messages[0] = started()
    await harness.events(apply_changes(LIBRARY, ProfileOptions(rerank=True), "options"), top_k=40)
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == list(range(40, 30, -1))


def _library_of_fifty() -> list[retriever_pb2.SearchResult]:
    """Forty similar results, of which the fortieth is also the second latest; then the latest, which aren't similar."""
    results = [result(number, document_id=number) for number in range(1, 41)]
    results[39].recency_rank = 2
    for rank in (1, *range(3, 11)):
        latest = result(100 + rank, 0.01, document_id=100 + rank)
        latest.recent, latest.recency_rank = True, rank
        results.append(latest)
    return results


_LATEST = [101, 40, *range(103, 111)]


async def test_a_second_ranking_excludes_the_latest(harness: PipelineHarness) -> None:
    harness.retriever.results = _library_of_fifty()
    harness.messages[0] = started()
    rerank = apply_changes(LIBRARY, ProfileOptions(rerank=True), "options")
    for failing in (False, True):
        if failing:
            harness.log.errors["rerank"] = AWAY
        await harness.events(rerank, top_k=60)
        given = [passage.chunk_id for passage in harness.generator.requests[-1].passages]
        best = list(range(1, 11)) if failing else list(range(40, 30, -1))
        assert given == [*best, *(chunk_id for chunk_id in _LATEST if chunk_id not in best)]
    assert len(harness.embedder.reranked[0].documents) == 40


async def test_if_results_are_off_topic_the_latest_remain(harness: PipelineHarness) -> None:
    harness.retriever.results = _library_of_fifty()
    harness.retriever.off_topic = True
    harness.messages[0] = started()
    await harness.events(LIBRARY, question="Was ist neu?", top_k=60)
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == _LATEST


async def test_the_generator_gets_the_listing_and_the_day(harness: PipelineHarness) -> None:
    harness.retriever.listing = retriever_pb2.ItemListing(topic="Berlin", max_items=50)
    await harness.events(LIBRARY, question="Which restaurants in Berlin did I save?", time_zone="Asia/Tokyo")
    assert harness.retriever.plans[-1].time_zone == "Asia/Tokyo"
    request = harness.generator.requests[0]
    assert (request.time_zone, request.listing.topic, request.listing.max_items) == ("Asia/Tokyo", "Berlin", 50)
    await harness.events(GROUNDED)
    assert not harness.generator.requests[-1].time_zone
    assert not harness.generator.requests[-1].HasField("listing")


async def test_a_filter_that_leaves_nothing_lists_nothing(harness: PipelineHarness) -> None:
    harness.retriever.filtered_results = []
    harness.retriever.query_filter = retriever_pb2.QueryFilter(filter=_tagged("rust"), phrases=["tags rust"])
    harness.retriever.listing = retriever_pb2.ItemListing(max_items=50)
    await harness.events(LIBRARY, question="What did I save in #rust?")
    assert not harness.generator.requests[0].HasField("listing")


async def test_a_request_limits_the_results_per_document(harness: PipelineHarness) -> None:
    await harness.events(apply_changes(GROUNDED, ProfileOptions(max_per_document=2), "options"))
    assert harness.retriever.searches[-1].max_per_document == 2
    await harness.events(GROUNDED)
    assert not harness.retriever.searches[-1].HasField("max_per_document")


async def test_whole_items_are_not_ranked_again(harness: PipelineHarness) -> None:
    harness.retriever.path = retriever_pb2.CONTEXT_PATH_LONG_CONTEXT
    harness.retriever.results = [result(number) for number in range(1, 41)]
    harness.messages[0] = started()
    await harness.events(apply_changes(LIBRARY, ProfileOptions(rerank=True), "options"), top_k=40)
    assert "rerank" not in harness.calls
    assert len(harness.generator.requests[0].passages) == 40
