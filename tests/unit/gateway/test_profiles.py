"""What the profiles say is what the systems must be; and only they, dialects and routes know the systems' names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import citewire_gateway
from citewire_gateway.domain import ContextFormat, Grounding, MarkerStyle, ScopeLevel, SearchMode
from citewire_gateway.events import EventType
from citewire_gateway.profiles import DOCUMENTS, PROFILES, SIMPLE, EmptySelection, describe, find_profile
from citewire_kit.errors import NotFound


def test_documents_is_system_a() -> None:
    profile = PROFILES["documents"]
    assert profile is DOCUMENTS
    assert (profile.level, profile.mode) == (ScopeLevel.ORG, SearchMode.DENSE)
    assert (profile.top_k.default, profile.top_k.minimum, profile.top_k.maximum) == (5, 1, 30)
    assert profile.empty_selection is EmptySelection.NOTHING
    assert profile.answer.marker_style is MarkerStyle.REMOVE
    assert profile.answer.grounding is Grounding.STRICT
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
    assert profile.persist


def test_simple_is_system_e() -> None:
    profile = PROFILES["simple"]
    assert profile is SIMPLE
    assert profile.top_k.default == 5
    assert profile.empty_selection is EmptySelection.ABSENT
    assert profile.no_match is None
    assert profile.answer.grounding is Grounding.SAY_SO
    assert profile.answer.marker_style is MarkerStyle.NONE
    assert profile.answer.context_format is ContextFormat.PLAIN
    assert profile.answer.answer_language == ""
    assert not profile.persist


def test_an_unknown_profile_is_not_found_and_the_known_ones_are_named() -> None:
    with pytest.raises(NotFound, match="documents, simple") as raised:
        find_profile("nonsense")
    assert raised.value.reason == "PROFILE_NOT_FOUND"
    assert raised.value.metadata == {"profiles": "documents, simple"}


def test_descriptions_are_plain_json() -> None:
    for profile in PROFILES.values():
        described = describe(profile)
        assert described["name"] == profile.name
        assert described["on_empty"] == ("sentence" if profile is DOCUMENTS else "model")


def test_no_other_code_knows_a_systems_name() -> None:
    root = Path(citewire_gateway.__file__).parent
    allowed = {"profiles.py"}
    name = r"""["'](simple|documents|sources|self-rag|library|grounded)["']"""
    branch = re.compile(rf"""([=!]=|\bin|\bcase)\s*[(\[{{]?\s*{name}|profile\.name\s*[=!]=|\bis (DOCUMENTS|SIMPLE)\b""")
    found: list[str] = []
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        if relative.parts[0] in ("dialects", "routes") or relative.name in allowed:
            continue
        lines = enumerate(path.read_text().splitlines(), 1)
        found += [f"{relative}:{number}: {line.strip()}" for number, line in lines if branch.search(line)]
    assert found == []
    assert branch.search('if profile.name == "simple":')
    assert branch.search('case "documents":')
