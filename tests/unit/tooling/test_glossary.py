"""The check that the code has no names that the glossary rules out."""

from __future__ import annotations

import pytest

from scripts import glossary

TEXT = """# Glossary

| term | meaning | where | not |
|---|---|---|---|
| search result | What a search returns. | `SearchResult` | `Hit`, `*_hit` |
| chat run | One pass. | | `asking` |

## Names that say nothing

| not | instead |
|---|---|
| `wanted` | what it is |

## Exceptions

| name | where | why |
|---|---|---|
| `wanted` | `gateway/*` | clients know it |
"""


def _ruled_out(path: str, source: str) -> list[str]:
    rules = glossary.read(TEXT)
    return [name.text for name in glossary.names(path, source) if rules.complaint(path, name)]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("class Hit: ...", "Hit"),
        ("def first_hit(): ...", "first_hit"),
        ("def search(wanted): ...", "wanted"),
        ("for wanted in (): ...", "wanted"),
        ("_WANTED = 1", "_WANTED"),
        ("self.asking = 1", "asking"),
        ("with a as wanted: ...", "wanted"),
        ("class Asking: ...", "Asking"),
        ("async def asking(): ...", "asking"),
        ("wanted: int = 1", "wanted"),
        ("if (wanted := 1): ...", "wanted"),
        ("try: ...\nexcept E as wanted: ...", "wanted"),
        ("match a:\n    case [wanted]: ...", "wanted"),
        ("match a:\n    case [1, *wanted]: ...", "wanted"),
        ("match a:\n    case {1: 2, **wanted}: ...", "wanted"),
        ("import a as wanted", "wanted"),
        ("from a import b as wanted", "wanted"),
        ("f'{[1 for wanted in ()]}'", "wanted"),
    ],
)
def test_a_planted_name_is_reported(source: str, name: str) -> None:
    assert _ruled_out("libs/a.py", source) == [name]


@pytest.mark.parametrize(
    "source",
    [
        "hit = 1",  # the capitalised entry stands for types
        "def test_wanted(): ...",
        "other.wanted = 1",  # declared where its class is
        "unwanted = 1",
        "print(wanted)",  # used here, declared elsewhere
        "class SearchResult: ...",
    ],
)
def test_other_names_pass(source: str) -> None:
    assert _ruled_out("libs/a.py", source) == []


def test_a_module_is_reported() -> None:
    assert _ruled_out("libs/asking.py", "") == ["asking"]


def test_an_exception_applies_to_its_files() -> None:
    assert _ruled_out("gateway/a.py", "wanted = 1") == []
    assert _ruled_out("cli/a.py", "wanted = 1") == ["wanted"]


def test_messages_and_fields_are_reported() -> None:
    proto = "message Hit {\n  optional uint32 wanted = 1;\n  map<string, int32> first_hit = 2;\n  string asked = 3;\n}"
    assert _ruled_out("protos/a.proto", proto) == ["Hit", "wanted", "first_hit"]


def test_columns_are_reported() -> None:
    sql = "CREATE TABLE a (\n    wanted bigint NOT NULL,\n    b text\n);\nSELECT b AS first_hit FROM a"
    assert _ruled_out("a/queries.sql", sql) == ["wanted", "first_hit"]
    sql = "WITH wanted AS (\n    SELECT 1\n),\nfirst_hit AS MATERIALIZED (SELECT 2)\nSELECT FROM wanted asked"
    assert _ruled_out("a/queries.sql", sql) == ["wanted", "first_hit"]


@pytest.mark.parametrize("word", ["one", "found", "said", "wanted", "kept", "counted"])
def test_participles_stay_out(word: str) -> None:
    rules = glossary.read(glossary.GLOSSARY.read_text(encoding="utf-8"))
    for source in (f"{word} = 1", f"def {word}(): ...", f"for {word} in (): ...", f"def search(*, {word}): ..."):
        names = glossary.names("libs/a.py", source)
        assert any(rules.complaint("libs/a.py", name) for name in names), source


def test_the_glossary_is_short_and_each_term_is_explained() -> None:
    rules = glossary.read(glossary.GLOSSARY.read_text(encoding="utf-8"))
    assert 30 <= len(rules.terms) <= glossary.MOST_TERMS
    assert len(set(rules.terms)) == len(rules.terms)
