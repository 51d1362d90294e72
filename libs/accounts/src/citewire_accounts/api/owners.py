"""Checks the owner of a budget or limit: the fields that a scope requires, and those that it excludes."""

from collections.abc import Mapping

from citewire_kit.errors import Violations


def check_owner(scope: str, noun: str, owners: Mapping[str, tuple[str, str | None]]) -> None:
    """Checks that a request names the owner that its scope needs, and no other.

    Args:
        scope: Such as `user`.
        noun: The owned thing, for messages: `limit`.
        owners: For each field that names an owner: the scope that requires it, and its value.

    Raises:
        InvalidArgument: Names every wrong field.
    """
    wrong = Violations()
    for name, (of, value) in owners.items():
        wrong.require(bool(value) or scope != of, name, f"is required for a {of}'s {noun}")
        wrong.require(value is None or scope == of, name, f"must be absent for a {noun} of scope {scope}")
    wrong.raise_if_any()
