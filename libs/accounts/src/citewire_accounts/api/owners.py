"""Whose a budget or a limit is: what a request must name for its scope, and what it mustn't."""

from collections.abc import Mapping

from citewire_kit.errors import Violations


def check_owner(scope: str, noun: str, owners: Mapping[str, tuple[str, str | None]]) -> None:
    """Checks that a request names the owner that its scope needs, and no other.

    Args:
        scope: Such as `user`.
        noun: What is owned, for messages: `limit`.
        owners: For each field that names an owner: the scope that needs it, and its value.

    Raises:
        InvalidArgument: Every field that is wrong is named.
    """
    wrong = Violations()
    for name, (of, value) in owners.items():
        wrong.require(bool(value) or scope != of, name, f"is required for a {of}'s {noun}")
        wrong.require(value is None or scope == of, name, f"must be absent for a {noun} of scope {scope}")
    wrong.raise_if_any()
