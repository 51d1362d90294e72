"""Fields of a form, as they are read: each notes what is wrong with it, and goes on."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from citewire_http.api.times import read_moment
from citewire_http.bodies import parse_json
from citewire_http.multipart import Form
from citewire_kit.errors import CitewireError, InvalidArgument, Violations


def read_text(wrong: Violations, form: Form, name: str, most: int) -> str:
    """Returns a text of limited length that may be given once; "" if it isn't given."""
    values = form.fields.get(name, [])
    wrong.require(len(values) <= 1, name, "is given more than once")
    value = values[0].strip() if values else ""
    wrong.require(len(value) <= most, name, f"must be at most {most} characters long")
    return value


def read_bound(wrong: Violations, form: Form, name: str, after: timedelta) -> datetime | None:
    """Returns a time, where a day means its beginning plus `after`; None if there is none."""
    text = read_text(wrong, form, name, 200)
    try:
        return read_moment(name, text, after=after) if text else None
    except InvalidArgument as exc:
        wrong.add(name, exc.violations[0].message)
        return None


def read_texts(wrong: Violations, name: str, values: Sequence[str], *, comma: bool) -> list[str]:
    """Returns distinct texts from repeated fields, JSON lists, and with `comma` from comma-separated lists."""
    listed: list[str] = []
    for value in values:
        if not value.lstrip().startswith("["):
            listed.extend(part.strip() for part in (value.split(",") if comma else [value]))
            continue
        members = _parsed(wrong, name, value)
        if not isinstance(members, list) or not all(
            isinstance(member, str) for member in cast("list[object]", members)
        ):
            wrong.add(name, "must be a JSON list of strings")
            continue
        listed.extend(member.strip() for member in cast("list[str]", members))
    return [part for part in dict.fromkeys(listed) if part]


def read_object(wrong: Violations, form: Form, name: str, most: int) -> dict[str, Any] | None:
    """Returns a JSON object of limited length; None if there is none."""
    text = read_text(wrong, form, name, most)
    if not text:
        return None
    value = _parsed(wrong, name, text)
    if not isinstance(value, dict):
        wrong.add(name, "must be a JSON object")
        return None
    return cast("dict[str, Any]", value)


def _parsed(wrong: Violations, name: str, text: str) -> object:
    try:
        value = parse_json(text.encode())
        json.dumps(value, ensure_ascii=False).encode()  # JSON allows half a surrogate pair, which can't be sent on
    except (CitewireError, UnicodeEncodeError):
        wrong.add(name, "isn't valid JSON")
        return None
    return value
