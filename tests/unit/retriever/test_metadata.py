"""Typed documents: which metadata is refused, and what the refusal names."""

from __future__ import annotations

import pytest

from citewire_kit.errors import InvalidArgument
from citewire_retriever.model import JsonObject, JsonValue
from citewire_retriever.service.metadata import check_metadata

REPOSITORY: JsonObject = {
    "owner_login": "ada",
    "owner_avatar_url": "https://avatars.test/u/1?v=4",
    "stargazers_count": 1500,
    "language": "C++",
    "description": "",
    "entity_type": "library",
    "category": "maths",
    "anything": {"else": [1]},
}


def test_well_formed_metadata_passes() -> None:
    check_metadata("repository", REPOSITORY)
    check_metadata("repository", dict.fromkeys(REPOSITORY))  # null counts as absent
    check_metadata("repository", {})
    check_metadata("repository", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("owner_login", 7),
        ("owner_login", " "),
        ("owner_avatar_url", "javascript:alert(1)"),
        ("owner_avatar_url", "https://"),
        ("owner_avatar_url", "https://[x"),
        ("stargazers_count", -1),
        ("stargazers_count", 1.5),
        ("stargazers_count", True),
        ("stargazers_count", "1500"),
        ("language", "x" * 65),
        ("description", ["a"]),
        ("entity_type", ""),
        ("category", False),
    ],
)
def test_each_wrong_field_of_a_repository_is_named(key: str, value: JsonValue) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_metadata("repository", {**REPOSITORY, key: value})
    assert [violation.field for violation in refused.value.violations] == [f"metadata.{key}"]


def test_only_repositories_must_have_a_repositorys_fields() -> None:
    for kind in ("article", "capture", "file"):
        check_metadata(kind, {"stargazers_count": "many", "language": 3})
        with pytest.raises(InvalidArgument) as refused:
            check_metadata(kind, {"entity_type": 1, "category": "x" * 65})
        assert {violation.field for violation in refused.value.violations} == {
            "metadata.entity_type",
            "metadata.category",
        }
