"""A profile with changed fields, whether a tenant changes them permanently or a request once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from google.protobuf.message import Message

from citewire_dialects.profile import (
    DEFAULT_NO_MATCH,
    Bounds,
    Budget,
    EmptySelection,
    History,
    Profile,
    Rerank,
)
from citewire_dialects.schemas.profiles import ProfileOptions, SearchOptions
from citewire_kit.enums import enum_number, enum_text
from citewire_kit.errors import Violations
from citewire_kit.tenant import INPUT_TOKENS, RESERVED_TOKENS

DEFAULT_RERANK = Rerank(candidates=40, keep=10)
"""The reranking if the profile has none of its own."""

_IN_PROFILE = (
    "min_score",
    "min_score_calibrated",
    "hyde",
    "derive_filter",
    "decide",
    "assess",
    "judge_relevance",
    "fill_table_query",
    "keep_passages",
    "speculate",
    "max_completion_tokens",
)
_IN_ANSWER = (
    "answer_language",
    "not_found_sentence",
    "remove_invalid_markers",
    "ask_back",
    "instructions",
    "max_context_chars",
)
_IN_SEARCH = (*SearchOptions.model_fields, "recent", "fuse_by_rank")

MAX_INSTRUCTIONS_BYTES = 16 * 1024
_LEAST_CONTEXT = 500
"""Minimum number of tokens in a budget for passages."""


def stored_options(values: Mapping[str, Any]) -> ProfileOptions:
    """Reads options written by `ProfileOptions.given`; names that are no longer known are ignored."""
    return ProfileOptions(**{name: value for name, value in values.items() if name in ProfileOptions.model_fields})


def apply_changes(profile: Profile, changes: ProfileOptions, at: str) -> Profile:
    """Returns the profile with the changes.

    Args:
        profile: The profile, which sets the bounds.
        changes: The changes.
        at: The field that contained the changes, for errors.

    Raises:
        InvalidArgument: A change is out of the profile's bounds, or has no meaning in it.
    """
    violations = Violations()
    bounds = profile.top_k
    violations.require(
        changes.top_k is None or bounds.minimum <= changes.top_k <= bounds.maximum,
        f"{at}.top_k",
        f"must be between {bounds.minimum} and {bounds.maximum} in profile {profile.name}",
    )
    sentence = changes.not_found_sentence
    violations.require(
        sentence is None or (bool(sentence.strip()) and sentence.isprintable()),
        f"{at}.not_found_sentence",
        "must be one line with more than white space",
    )
    for name, why in _meaningless(profile, changes):
        violations.add(f"{at}.{name}", f"has no meaning {why}")
    violations.raise_if_any()
    return replace(profile, **_replacements(profile, changes))


def _meaningless(profile: Profile, changes: ProfileOptions) -> Iterator[tuple[str, str]]:
    """Yields the changes that would have no effect in the profile, and why."""
    remembers = profile.history is not None if changes.history_tokens is None else changes.history_tokens > 0
    for name in ("condense", "keep_passages"):
        if getattr(changes, name) and not remembers:
            yield name, f"in profile {profile.name}, which gives the model no history"
    if changes.not_found_sentence is not None and profile.answer.grounding != generator_pb2.GROUNDING_STRICT:
        yield "not_found_sentence", f"in profile {profile.name}: the model says in its own words that nothing was found"
    if not (profile.rerank is not None if changes.rerank is None else changes.rerank):
        given = changes.given()
        yield from (
            (name, "without rerank") for name in ("rerank_seconds", "rerank_candidates", "rerank_keep") if name in given
        )
    if changes.speculate and not (profile.decide or changes.decide):
        yield "speculate", "without decide"
    mode = enum_text(retriever_pb2.SearchMode, profile.search.mode) if changes.mode is None else changes.mode
    if changes.fuse_by_rank and mode != "hybrid":
        yield "fuse_by_rank", "unless mode is hybrid"
    if changes.min_score_calibrated and profile.min_score is None and changes.min_score is None:
        yield "min_score_calibrated", "without min_score, which applies if the space has no threshold"


def check_possible(profile: Profile, at: str) -> None:
    """Rejects a profile that can only fail.

    Raises:
        InvalidArgument: The changes, which were in `at`, exclude each other.
    """
    words_alone = profile.search.mode == retriever_pb2.SEARCH_MODE_LEXICAL
    violations = Violations()
    violations.require(
        not (words_alone and profile.search.recent),
        f"{at}.mode",
        f"must be dense or hybrid in profile {profile.name}, because it adds the most recent documents",
    )
    instructions = profile.answer.instructions
    violations.require(
        len(instructions.encode()) <= MAX_INSTRUCTIONS_BYTES and "\0" not in instructions,
        f"{at}.instructions",
        f"must be at most {MAX_INSTRUCTIONS_BYTES} bytes long, without NUL",
    )
    violations.require(
        profile.answer.answer_language.isprintable(), f"{at}.answer_language", "must be one line, such as Spanish"
    )
    if profile.budget is not None:
        least = profile.budget.reserve + _LEAST_CONTEXT
        violations.require(
            min(profile.budget.input_tokens.values()) >= least,
            f"{at}.input_tokens",
            f"must be at least {least} tokens for each plan: the history takes {profile.budget.reserve} of them",
        )
    violations.raise_if_any()


M = TypeVar("M", bound=Message)


def changed(message: M, **fields: Any) -> M:  # noqa: ANN401 # fields of any message
    """Returns a copy of a profile's message with some fields changed."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def _replacements(profile: Profile, changes: ProfileOptions) -> dict[str, Any]:
    given = changes.given()
    values = {name: given[name] for name in _IN_PROFILE if name in given}
    if changes.min_score is not None:
        values.setdefault("min_score_calibrated", False)
    if changes.scope is not None:
        values["level"] = enum_number(retriever_pb2.ScopeLevel, changes.scope)
    if changes.types is not None:
        values["types"] = tuple(dict.fromkeys(changes.types))
    if changes.empty_selection is not None:
        values["empty_selection"] = EmptySelection(changes.empty_selection)
    if changes.strategy is not None:
        values["strategy"] = enum_number(retriever_pb2.Strategy, changes.strategy)
    if changes.on_empty is not None:
        values["no_match"] = (profile.no_match or DEFAULT_NO_MATCH) if changes.on_empty == "sentence" else None
    if changes.top_k is not None:
        values["top_k"] = Bounds(changes.top_k, profile.top_k.minimum, profile.top_k.maximum)
    values["answer"] = changed(profile.answer, **_in_answer(changes, given))
    values["search"] = changed(profile.search, **_in_search(changes, given))
    values["rerank"] = _rerank(profile, changes)
    values["history"] = history = _history(profile, changes)
    values["budget"] = _budget(profile, changes, history)
    return values


def _in_answer(changes: ProfileOptions, given: Mapping[str, Any]) -> dict[str, Any]:
    answer = {name: given[name] for name in _IN_ANSWER if name in given}
    if changes.context_format is not None:
        answer["context_format"] = enum_number(generator_pb2.ContextFormat, changes.context_format)
    if changes.marker_style is not None:
        answer["marker_style"] = enum_number(generator_pb2.MarkerStyle, changes.marker_style)
    return answer


def _in_search(changes: ProfileOptions, given: Mapping[str, Any]) -> dict[str, Any]:
    search = {name: given[name] for name in _IN_SEARCH if name in given}
    if changes.mode is not None:
        search["mode"] = enum_number(retriever_pb2.SearchMode, changes.mode)
    if changes.by_document is not None:
        grouped = retriever_pb2.GROUP_BY_DOCUMENT if changes.by_document else retriever_pb2.GROUP_BY_CHUNK
        search["group_by"] = grouped
    return search


def _rerank(profile: Profile, changes: ProfileOptions) -> Rerank | None:
    rerank = profile.rerank
    if changes.rerank is not None:
        rerank = (rerank or DEFAULT_RERANK) if changes.rerank else None
    if rerank is None:
        return None
    return Rerank(
        candidates=changes.rerank_candidates or rerank.candidates,
        keep=changes.rerank_keep or rerank.keep,
        seconds=changes.rerank_seconds or rerank.seconds,
    )


def _history(profile: Profile, changes: ProfileOptions) -> History | None:
    history = profile.history
    if changes.history_tokens is not None:
        condense = history is not None and history.condense
        history = History(changes.history_tokens, condense=condense) if changes.history_tokens else None
    if changes.condense is not None and history is not None:
        history = replace(history, condense=changes.condense)
    return history


def _budget(profile: Profile, changes: ProfileOptions, history: History | None) -> Budget | None:
    """The budget; a longer history takes its tokens from the same total."""
    budget = profile.budget
    if budget is None and changes.strategy in (None, "semantic") and changes.input_tokens is None:
        return None
    budget = budget or Budget(INPUT_TOKENS, RESERVED_TOKENS)
    if changes.input_tokens is not None:
        given = changes.input_tokens.model_dump(exclude_none=True)
        budget = replace(budget, input_tokens={**budget.input_tokens, **given})
    tokens = None if history is None else history.tokens
    return replace(budget, reserve=max(RESERVED_TOKENS, tokens or 0))
