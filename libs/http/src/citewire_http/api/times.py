"""Times in the address of a request."""

from datetime import UTC, date, datetime, time, timedelta

from citewire_kit.errors import invalid_field


def read_moment(field: str, text: str, *, after: timedelta = timedelta()) -> datetime:
    """Reads a day, as its beginning and what comes `after` it, or a time. Times without a zone are UTC.

    Raises:
        InvalidArgument: It is neither; the field is named.
    """
    try:
        if len(text) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), time(), UTC) + after
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise invalid_field(field, "must be a day such as 2026-01-31 or a time such as 2026-01-31T08:00:00Z") from exc
