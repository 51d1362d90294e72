"""The profiles match the systems; and only profiles, dialects and routes know the systems' names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import citewire_gateway
from citewire_dialects.options import apply_changes, check_possible
from citewire_dialects.profile import EmptySelection, EventType, History, Persist, Rerank
from citewire_dialects.schemas.profiles import ProfileOptions
from citewire_gateway.api.schemas.profiles import ProfileInfo
from citewire_gateway.chat.answer import generate_request
from citewire_gateway.chat.context import search_request
from citewire_gateway.chat.run import ChatInput, ChatRun
from citewire_gateway.profiles.builtin import DOCUMENTS, NOT_FOUND_SENTENCE, PROFILES, SIMPLE, find_profile
from citewire_generator.converters import generate_from_proto
from citewire_http.supervision import StreamControl
from citewire_kit.errors import InvalidArgument, NotFound
from citewire_kit.tenant import INPUT_TOKENS, Plan, Tenant
from citewire_retriever.converters.search import plan_from_proto, search_from_proto

VECTOR = np.ones(4, "<f4").tobytes()


def test_documents_is_system_a() -> None:
    profile = PROFILES["documents"]
    assert profile is DOCUMENTS
    assert (profile.level, profile.search.mode) == (retriever_pb2.SCOPE_LEVEL_ORG, retriever_pb2.SEARCH_MODE_DENSE)
    assert (profile.top_k.default, profile.top_k.minimum, profile.top_k.maximum) == (5, 1, 30)
    assert profile.empty_selection is EmptySelection.NOTHING
    assert profile.answer.marker_style == generator_pb2.MARKER_STYLE_REMOVE
    assert profile.answer.grounding == generator_pb2.GROUNDING_STRICT
    assert profile.answer.answer_language == "English"
    assert profile.answer.not_found_sentence == "I could not find this information in the uploaded documents."
    assert profile.no_match is not None
    assert profile.no_match.sentence == (
        "I could not find content in the selected documents that closely matches your question."
    )
    assert profile.events == {
        EventType.CONVERSATION,
        EventType.CITATIONS,
        EventType.TOKEN,
        EventType.USAGE,
        EventType.ERROR,
        EventType.DONE,
    }
    assert profile.persist is Persist.ALWAYS
    assert profile.history is None


def test_simple_is_system_e() -> None:
    profile = PROFILES["simple"]
    assert profile is SIMPLE
    assert profile.top_k.default == 5
    assert profile.empty_selection is EmptySelection.ABSENT
    assert profile.no_match is None
    assert profile.answer.grounding == generator_pb2.GROUNDING_SAY_SO
    assert profile.answer.marker_style == generator_pb2.MARKER_STYLE_NONE
    assert profile.answer.context_format == generator_pb2.CONTEXT_FORMAT_PLAIN
    assert profile.answer.answer_language == ""
    assert profile.persist is Persist.NEVER
    assert profile.history is None


def test_sources_is_system_b() -> None:
    profile = PROFILES["sources"]
    assert (profile.level, profile.search.mode, profile.rerank) == (
        retriever_pb2.SCOPE_LEVEL_ORG,
        retriever_pb2.SEARCH_MODE_HYBRID,
        None,
    )
    assert profile.search.fuse_by_rank
    assert [name for name, each in PROFILES.items() if each.search.fuse_by_rank] == ["sources"]
    assert (profile.top_k.minimum, profile.top_k.maximum) == (1, 100)
    assert profile.answer.context_format == generator_pb2.CONTEXT_FORMAT_SOURCE_LABELS
    assert profile.answer.marker_style == generator_pb2.MARKER_STYLE_SOURCE
    assert profile.answer.max_context_chars == 24_000
    assert profile.answer.not_found_sentence == NOT_FOUND_SENTENCE
    assert profile.no_match is not None
    assert profile.history is None
    assert EventType.SOURCES in profile.events


def test_self_rag_is_system_c() -> None:
    profile = PROFILES["self-rag"]
    assert (profile.level, profile.search.mode, profile.types) == (
        retriever_pb2.SCOPE_LEVEL_USER,
        retriever_pb2.SEARCH_MODE_DENSE,
        ("article", "repository"),
    )
    assert (profile.top_k.default, profile.top_k.minimum, profile.top_k.maximum) == (10, 1, 30)
    assert profile.min_score == 0.3
    assert profile.answer.marker_style == generator_pb2.MARKER_STYLE_REF
    assert profile.answer.grounding == generator_pb2.GROUNDING_OPEN
    assert profile.answer.context_format == generator_pb2.CONTEXT_FORMAT_TYPED
    assert profile.max_completion_tokens == 2048
    assert profile.no_match is None
    assert profile.decide
    assert profile.assess
    assert profile.history == History(tokens=None)
    assert profile.persist is Persist.ON_REQUEST


def test_library_is_system_d() -> None:
    profile = PROFILES["library"]
    assert (profile.level, profile.strategy) == (retriever_pb2.SCOPE_LEVEL_USER, retriever_pb2.STRATEGY_LIBRARY)
    assert profile.search.mode == retriever_pb2.SEARCH_MODE_DENSE
    assert (profile.top_k.default, profile.top_k.maximum, profile.search.recent) == (40, 200, 10)
    assert profile.search.group_by == retriever_pb2.GROUP_BY_DOCUMENT
    assert profile.min_score == 0.15
    assert profile.budget is not None
    assert dict(profile.budget.input_tokens) == {"free": 30_000, "basic": 30_000, "pro": 150_000}
    assert profile.budget.reserve == 1_500
    assert profile.answer.marker_style == generator_pb2.MARKER_STYLE_REF
    assert (profile.rerank, profile.hyde) == (None, False)
    assert profile.history == History(tokens=1_500)
    assert profile.no_match is not None
    assert profile.full_usage


def test_the_time_limit_of_a_second_ranking_is_an_option() -> None:
    quick = apply_changes(PROFILES["grounded"], ProfileOptions(rerank_seconds=0.1), "options")
    assert quick.rerank == Rerank(candidates=40, seconds=0.1)
    library = apply_changes(PROFILES["library"], ProfileOptions(rerank=True, rerank_seconds=2), "options")
    assert library.rerank == Rerank(candidates=40, keep=10, seconds=2)
    for changes in (ProfileOptions(rerank_seconds=1), ProfileOptions(rerank=False, rerank_seconds=1)):
        with pytest.raises(InvalidArgument) as raised:
            apply_changes(PROFILES["library"], changes, "options")
        assert [violation.field for violation in raised.value.violations] == ["options.rerank_seconds"]


def test_an_unknown_profile_is_not_found_and_the_known_ones_are_named() -> None:
    known = "documents, sources, self-rag, library, simple, grounded"
    with pytest.raises(NotFound, match=known) as raised:
        find_profile("nonsense")
    assert raised.value.reason == "PROFILE_NOT_FOUND"
    assert raised.value.metadata == {"profiles": known}


def test_descriptions_are_plain_json() -> None:
    for profile in PROFILES.values():
        described = ProfileInfo.of(profile).model_dump()
        assert described["name"] == profile.name
        assert described["on_empty"] == ("model" if profile.no_match is None else "sentence")
        assert json.loads(json.dumps(described)) == described


def test_no_other_code_knows_a_systems_name() -> None:
    root = Path(citewire_gateway.__file__).parent
    allowed = {"profiles.py"}
    name = r"""["'](simple|documents|sources|self-rag|library|grounded)["']"""
    constants = "DOCUMENTS|SOURCES|SELF_RAG|LIBRARY|SIMPLE|GROUNDED"
    branch = re.compile(rf"""([=!]=|\bin|\bcase)\s*[(\[{{]?\s*{name}|profile\.name\s*[=!]=|\bis ({constants})\b""")
    branches: list[str] = []
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        if relative.parts[0] in ("dialects", "routes") or relative.name in allowed:
            continue
        lines = enumerate(path.read_text().splitlines(), 1)
        branches += [f"{relative}:{number}: {line.strip()}" for number, line in lines if branch.search(line)]
    assert branches == []
    assert branch.search('if profile.name == "simple":')
    assert branch.search('case "documents":')


def test_a_profile_has_its_own_not_found_sentence_and_may_remove_invalid_markers() -> None:
    changes = ProfileOptions(not_found_sentence="Dazu steht hier nichts.", remove_invalid_markers=True)
    changed = apply_changes(PROFILES["grounded"], changes, "changes")
    assert changed.answer.not_found_sentence == "Dazu steht hier nichts."
    assert changed.answer.remove_invalid_markers
    assert not PROFILES["grounded"].answer.remove_invalid_markers
    assert ProfileInfo.of(changed).remove_invalid_markers


@pytest.mark.parametrize(
    ("name", "sentence"), [("grounded", "two\nlines"), ("grounded", "  "), ("simple", "Nichts."), ("self-rag", "No.")]
)
def test_a_not_found_sentence_is_one_line_of_a_strict_profile(name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        apply_changes(PROFILES[name], ProfileOptions(not_found_sentence=sentence), "changes")
    assert [violation.field for violation in raised.value.violations] == ["changes.not_found_sentence"]


def test_the_fields_of_a_profile_can_be_changed() -> None:
    changes = ProfileOptions(
        scope="user",
        on_empty="model",
        context_format="source_labels",
        max_context_chars=5_000,
        history_tokens=500,
        condense=True,
    )
    changed = apply_changes(PROFILES["documents"], changes, "changes")
    assert (changed.level, changed.no_match) == (retriever_pb2.SCOPE_LEVEL_USER, None)
    assert changed.answer.context_format == generator_pb2.CONTEXT_FORMAT_SOURCE_LABELS
    assert changed.answer.max_context_chars == 5_000
    assert changed.history == History(500, condense=True)
    silent = apply_changes(PROFILES["self-rag"], ProfileOptions(on_empty="sentence", history_tokens=0), "changes")
    assert silent.no_match is not None
    assert silent.no_match.sentence == PROFILES["documents"].no_match.sentence  # type: ignore[union-attr] # it has one
    assert silent.history is None
    assert apply_changes(PROFILES["grounded"], ProfileOptions(history_tokens=9), "changes").history == History(
        9, condense=True
    )


CHANGES: dict[str, tuple[str, object, dict[str, object]]] = {
    "scope": ("grounded", "user", {"scope": "user"}),
    "types": ("grounded", ["article"], {"types": ["article"]}),
    "empty_selection": ("grounded", "absent", {"empty_selection": "absent"}),
    "strategy": ("grounded", "library", {"strategy": "library", "input_tokens": dict(INPUT_TOKENS)}),
    "top_k": ("grounded", 7, {"top_k": {"default": 7, "minimum": 1, "maximum": 50}}),
    "min_score": ("grounded", 0.2, {"min_score": 0.2}),
    "min_score_calibrated": ("self-rag", True, {"min_score_calibrated": True}),
    "by_document": ("grounded", True, {"by_document": True}),
    "recent": ("grounded", 3, {"recent": 3}),
    "mode": ("grounded", "lexical", {"mode": "lexical"}),
    "max_per_document": ("grounded", 2, {"max_per_document": 2}),
    "fuse_by_rank": ("grounded", True, {"fuse_by_rank": True}),
    "rerank": ("documents", True, {"rerank_candidates": 40, "rerank_keep": 10}),
    "rerank_candidates": ("grounded", 80, {"rerank_candidates": 80}),
    "rerank_keep": ("grounded", 4, {"rerank_keep": 4}),
    "rerank_seconds": ("grounded", 1.5, {"rerank_seconds": 1.5}),
    "hyde": ("grounded", True, {"hyde": True}),
    "derive_filter": ("grounded", True, {"derive_filter": True}),
    "on_empty": ("grounded", "model", {"on_empty": "model"}),
    "context_format": ("grounded", "typed", {"context_format": "typed"}),
    "max_context_chars": ("grounded", 9_000, {"max_context_chars": 9_000}),
    "input_tokens": ("library", {"pro": 60_000}, {"input_tokens": {"free": 30_000, "basic": 30_000, "pro": 60_000}}),
    "history_tokens": ("documents", 700, {"history": {"tokens": 700, "condense": False}}),
    "keep_passages": ("grounded", False, {"keep_passages": False}),
    "condense": ("grounded", False, {"history": {"tokens": 4_000, "condense": False}}),
    "decide": ("grounded", True, {"decide": True}),
    "assess": ("grounded", True, {"assess": True}),
    "judge_relevance": ("grounded", True, {"judge_relevance": True}),
    "fill_table_query": ("grounded", True, {"fill_table_query": True}),
    "speculate": ("self-rag", True, {"speculate": True}),
    "answer_language": ("grounded", "Spanish", {"answer_language": "Spanish"}),
    "not_found_sentence": ("grounded", "Nada.", {"not_found_sentence": "Nada."}),
    "marker_style": ("grounded", "none", {"marker_style": "none"}),
    "remove_invalid_markers": ("grounded", True, {"remove_invalid_markers": True}),
    "ask_back": ("grounded", False, {"ask_back": False}),
    "instructions": ("grounded", "Be brief.", {"instructions": "Be brief."}),
    "max_completion_tokens": ("grounded", 300, {"max_completion_tokens": 300}),
}
"""For each option: a base profile, a value, and the fields shown differently with it."""


def test_every_option_is_tested() -> None:
    assert CHANGES.keys() == ProfileOptions.model_fields.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_every_option_changes_the_profile_and_its_description(name: str) -> None:
    base, value, shown = CHANGES[name]
    before = ProfileInfo.of(PROFILES[base]).model_dump()
    after = ProfileInfo.of(apply_changes(PROFILES[base], ProfileOptions.model_validate({name: value}), "changes"))
    differing = {key: field for key, field in after.model_dump().items() if field != before[key]}
    assert differing == shown


def _long(character: str) -> str:
    return character * 15_000


def _options() -> st.SearchStrategy[ProfileOptions]:
    """Options as a tenant might combine them, with texts of any script and length."""
    values: dict[str, st.SearchStrategy[object]] = {
        name: st.just(value) for name, (_, value, _) in CHANGES.items() if not isinstance(value, bool)
    }
    values |= {name: st.booleans() for name, (_, value, _) in CHANGES.items() if isinstance(value, bool)}
    values |= {
        "top_k": st.integers(1, 200),
        "mode": st.sampled_from(["dense", "lexical", "hybrid"]),
        "strategy": st.sampled_from(["semantic", "library"]),
        "recent": st.integers(0, 50),
        "rerank_candidates": st.integers(1, 200),
        "input_tokens": st.dictionaries(st.sampled_from(["free", "basic", "pro"]), st.integers(2_000, 30_000)),
        "history_tokens": st.integers(0, 32_000),
        "answer_language": st.text(max_size=64),
        "not_found_sentence": st.text(min_size=1, max_size=500),
        "instructions": st.text(max_size=50) | st.characters(exclude_categories=["Cs"]).map(_long),
        "marker_style": st.sampled_from(["none", "remove", "ref", "source"]),
        "context_format": st.sampled_from(["numbered", "source_labels", "typed", "plain"]),
    }
    some = st.lists(st.sampled_from(sorted(values)), max_size=6, unique=True)
    fields = some.flatmap(lambda names: st.fixed_dictionaries({name: values[name] for name in names}))
    return fields.map(ProfileOptions.model_validate)


@given(base=st.sampled_from(sorted(PROFILES)), options=_options(), plan=st.sampled_from(["free", "basic", "pro"]))
@settings(max_examples=400, deadline=None)
def test_no_saved_profile_is_refused_by_the_services(base: str, options: ProfileOptions, plan: Plan) -> None:
    try:
        profile = apply_changes(PROFILES[base], options, "changes")
        check_possible(profile, "changes")
    except InvalidArgument:
        return
    tenant = Tenant("acme", "ada", plan)
    scope = retriever_pb2.Scope(level=profile.level, types=profile.types)
    chat = ChatInput(tenant, profile, "What?", scope, profile.top_k.default, profile.min_score, "native", "r")
    run = ChatRun(replace(chat, min_score_calibrated=profile.min_score_calibrated), StreamControl(), 60)
    generate_from_proto(generate_request(run, ()))
    search = search_request(run, scope, chat.question)
    search.vector, search.space.model, search.space.revision, search.space.dimensions = VECTOR, "m", "1", 4
    search_from_proto(search)
    budget = None if profile.budget is None else profile.budget.context_tokens(plan)
    plan_from_proto(retriever_pb2.PlanRequest(scope=scope, strategy=profile.strategy, max_tokens=budget))
    assert budget is not None or profile.strategy == retriever_pb2.STRATEGY_SEMANTIC  # whole items need a budget


def test_a_budget_is_at_most_the_plans_and_includes_the_history() -> None:
    with pytest.raises(ValidationError):
        ProfileOptions.model_validate({"input_tokens": {"free": 30_001}})
    profile = apply_changes(PROFILES["library"], ProfileOptions(history_tokens=8_000), "changes")
    assert profile.budget is not None
    assert profile.budget.context_tokens("free") == 22_000
    options = ProfileOptions.model_validate({"input_tokens": {"basic": 2_000}, "history_tokens": 1_900})
    with pytest.raises(InvalidArgument) as refused:
        check_possible(apply_changes(PROFILES["library"], options, "changes"), "changes")
    assert [violation.field for violation in refused.value.violations] == ["changes.input_tokens"]


def test_a_profile_that_would_always_fail_is_refused() -> None:
    lexical = ProfileOptions(mode="lexical")
    with pytest.raises(InvalidArgument) as refused:
        check_possible(apply_changes(PROFILES["library"], lexical, "changes"), "changes")
    assert [violation.field for violation in refused.value.violations] == ["changes.mode"]
    for name in ("documents", "sources", "grounded", "self-rag", "simple"):
        check_possible(apply_changes(PROFILES[name], lexical, "changes"), "changes")
