"""Options for the validity of documents."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from citewire_cli.errors import CliError, ExitCode

_DURATION: Final = re.compile(r"(\d{1,4})([hdw])")
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}


def read_validity(valid_from: str | None, valid_until: str | None, expires: str | None) -> dict[str, str]:
    """The fields `valid_from` and `valid_until` of documents, those that are given.

    Raises:
        CliError: an option can't be read, or two of them say the same (usage).
    """
    if expires is not None and valid_until is not None:
        raise CliError("--expires and --valid-until can't be combined", "Give one of them.", ExitCode.USAGE)
    validity = {"valid_from": valid_from, "valid_until": valid_until}
    for name, text in validity.items():
        if text is not None:
            _check_moment(f"--{name.replace('_', '-')}", text)
    if expires is not None:
        validity["valid_until"] = _end_of(expires)
    return {name: text for name, text in validity.items() if text is not None}


def _check_moment(option: str, text: str) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        form = "Write a day (2027-12-31) or a time (2027-12-31T18:00:00+01:00)."
        raise CliError(f"{option} is neither a day nor a time: {text}", form, ExitCode.USAGE) from error


def _end_of(duration: str) -> str:
    match = _DURATION.fullmatch(duration)
    if match is None:
        form = "Write hours, days or weeks from now, such as 12h, 30d or 8w."
        raise CliError(f"--expires is not a duration: {duration}", form, ExitCode.USAGE)
    end = datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})
    return end.isoformat(timespec="seconds")
