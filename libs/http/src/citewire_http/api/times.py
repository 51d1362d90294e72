"""Days and times in requests."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from citewire_kit.errors import invalid_field

_WRONG: Final = "must be a day such as 2026-01-31 or a time such as 2026-01-31T08:00:00Z"
_LONGEST: Final = len("2026-01-31T08:00:00.123456789+01:00")
"""Maximum length, because Python even parses a hundred digits as a time."""
_DAY: Final = timedelta(days=1)


def read_moment(field: str, text: str, *, after: timedelta = timedelta()) -> datetime:
    """Reads a time, or a day, which means its beginning plus `after`. Times without a zone are UTC.

    Raises:
        InvalidArgument: It is neither; the error names the field.
    """
    try:
        return _moment(text, after)
    except ValueError as exc:
        raise invalid_field(field, str(exc)) from exc


def _moment(value: object, after: timedelta) -> datetime:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError(_WRONG)
    try:
        if len(value) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(value), time(), UTC) + after
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise ValueError(_WRONG) from exc


def _schema(day: str) -> WithJsonSchema:
    schema: dict[str, Any] = {"type": "string", "examples": ["2026-12-31", "2026-12-31T08:00:00+01:00"]}
    return WithJsonSchema(
        schema | {"description": f"A time, in UTC unless it has an offset; a day means its {day} in UTC."}
    )


Moment = Annotated[datetime, BeforeValidator(lambda value: _moment(value, timedelta())), _schema("beginning")]
"""A time in a body; a day means its beginning."""
LastMoment = Annotated[datetime, BeforeValidator(lambda value: _moment(value, _DAY)), _schema("end")]
"""An exclusive end in a body; a day means its end."""
