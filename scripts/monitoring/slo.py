"""The rules of the service level objectives: one ratio of bad to all events per window, and alerts on their budgets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CHAT_ROUTES: Final = (
    "/v1/chat(/completions)?|/v1/responses|/anthropic/v1/messages|/api/chat/?(query)?|/api/rag-chat/stream"
)
FIRST_TEXT_SECONDS: Final = 2.5
"""A bound of the histogram's buckets."""

_CHATS = f'citewire_http_requests_total{{method="POST", route=~"{CHAT_ROUTES}", '
_LEAST_CHATS: Final = 10


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective over 30 days."""

    name: str
    """The label of its alerts."""
    series: str
    """The name of the recorded ratio, between `citewire:` and the window."""
    ratio: str
    """The expression for the share of bad events, with WINDOW in place of the window."""
    comment: str
    """Definition of a bad event."""
    budget: float
    """Share of events that may be bad."""
    alert: str
    """The prefix of its alerts' names."""
    what: str
    """The event, as the beginning of the sentence in the alert."""


OBJECTIVES: Final = (
    Objective(
        name="chat-availability",
        series="chat_error_ratio",
        ratio=(
            f'(\n  sum(rate({_CHATS}status=~"5.."}}[WINDOW]))\n'
            '  + sum(rate(citewire_streams_broken_total{dialect!~"grpc|progress"}[WINDOW]))\n'
            ")\n/ citewire:chats:rateWINDOW"
        ),
        comment="Questions rejected by an internal error, and answers that broke off after their status of 200.",
        budget=0.005,
        alert="CitewireChatErrors",
        what="of questions fail",
    ),
    Objective(
        name="chat-first-text",
        series="chat_slow_ratio",
        ratio=(
            f'1 - sum(rate(citewire_chat_first_text_seconds_bucket{{le="{FIRST_TEXT_SECONDS}"}}[WINDOW]))\n'
            "/ sum(rate(citewire_chat_first_text_seconds_count[WINDOW]))"
        ),
        comment=f"Answers whose first text came after more than {FIRST_TEXT_SECONDS} s, retrieval included.",
        budget=0.05,
        alert="CitewireFirstText",
        what=f"of answers begin after more than {FIRST_TEXT_SECONDS} s",
    ),
)


@dataclass(frozen=True, slots=True)
class Burn:
    """A burn rate that is too high: a multiple of the budget's even use, over a long and also over a short window."""

    factor: float
    long: str
    short: str


@dataclass(frozen=True, slots=True)
class Speed:
    """An alert for every objective."""

    name: str
    burns: tuple[Burn, ...]
    severity: str
    hold: str
    pace: str


SPEEDS: Final = (
    Speed("BurnFast", (Burn(14.4, "1h", "5m"), Burn(6, "6h", "30m")), "page", "2m", "is burning fast"),
    Speed("BurnSlowly", (Burn(3, "1d", "2h"), Burn(1, "3d", "6h")), "ticket", "15m", "won't last the month"),
)
_HOURS: Final = {"5m": 1 / 12, "30m": 0.5, "1h": 1, "2h": 2, "6h": 6, "1d": 24, "3d": 72}
WINDOWS: Final = tuple(_HOURS)
_SHORT_WINDOWS: Final = 5

_HEAD = """\
# Service level objectives: recording rules, and alerts on how fast their error budgets burn.
# `make monitoring` writes this file from scripts/monitoring/slo.py. docs/reference/observability.md explains the
# objectives; docs/how-to/runbook.md says what to do at each alert.
groups:
"""

_ALERTS = f"""\
  # Factors of a budget's even use over 30 days: 14.4 spends 2 % of it in an hour, 6 spends 5 % in six hours, 3 spends
  # 10 % in a day, 1 spends all of it by the end. The long window shows that it matters, the short one that it lasts.
  # Each needs {_LEAST_CHATS} questions in the long window: one failure of one question is no outage.
  - name: citewire-slo-alerts
    rules:
"""


def slo_rules() -> str:
    """Returns the rule file."""
    parts = [_HEAD]
    for name, interval, windows in (
        ("citewire-slo-short", "30s", WINDOWS[:_SHORT_WINDOWS]),
        ("citewire-slo-long", "5m", WINDOWS[_SHORT_WINDOWS:]),
    ):
        parts.append(f"  - name: {name}\n    interval: {interval}\n    rules:\n")
        parts.extend(rule for window in windows for rule in _recorded(window, explain=window == WINDOWS[0]))
    parts.append(_ALERTS)
    parts.extend(_alert(objective, speed) for objective in OBJECTIVES for speed in SPEEDS)
    return "".join(parts)


def _recorded(window: str, *, explain: bool) -> Iterator[str]:
    chats = f'sum(rate({_CHATS}status!~"4.."}}[{window}]))'
    comment = "Questions without client errors: a 4xx is the client's own (499: it left before an answer began)."
    yield _record(f"citewire:chats:rate{window}", chats, comment if explain else "")
    for objective in OBJECTIVES:
        ratio = objective.ratio.replace("WINDOW", window)
        yield _record(f"citewire:{objective.series}:rate{window}", ratio, objective.comment if explain else "")


def _record(name: str, expression: str, comment: str) -> str:
    line = f"      # {comment}\n" if comment else ""
    return f"{line}      - record: {name}\n        expr: |\n{_indented(expression, 10)}"


def _alert(objective: Objective, speed: Speed) -> str:
    name = objective.alert + speed.name
    expression = "\nor\n".join(_burns(objective, burn) for burn in speed.burns)
    allowed = f"{objective.budget:.1%}".replace(".0%", "%").replace("%", " %")
    return (
        f"      - alert: {name}\n"
        f"        expr: |\n{_indented(expression, 10)}"
        f"        for: {speed.hold}\n"
        f"        labels: {{severity: {speed.severity}, slo: {objective.name}}}\n"
        f"        annotations:\n"
        f'          summary: "The budget of {objective.name} {speed.pace}"\n'
        f'          description: "{{{{ $value | humanizePercentage }}}} {objective.what};'
        f' {allowed} may over 30 days."\n'
        f"          runbook_url: docs/how-to/runbook.md#{name.lower()}\n"
    )


def _burns(objective: Objective, burn: Burn) -> str:
    series, limit = f"citewire:{objective.series}:rate", f"{burn.factor:g} * {objective.budget}"
    least = f"{_LEAST_CHATS} / {_HOURS[burn.long] * 3600:.0f}"
    return (
        f"(\n  {series}{burn.long} > {limit}\n"
        f"  and {series}{burn.short} > {limit}\n"
        f"  and citewire:chats:rate{burn.long} > {least}\n)"
    )


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())
