"""The dashboard to look at first."""

from typing import Final

from scripts.monitoring.panels import Dashboard, Panel, Query, Row
from scripts.monitoring.queries import BACKLOG, CHATS, CITATIONS, COST, FIRST_TEXT, OLDEST, RECALL, TOKENS, rate
from scripts.monitoring.slo import OBJECTIVES


def _burn() -> Panel:
    queries = tuple(
        Query(f"citewire:{objective.series}:rate1h / {objective.budget}", objective.name) for objective in OBJECTIVES
    )
    says = "Burn rate of the budgets; 1 uses them evenly over 30 days. From 14.4 on, somebody is paged."
    return Panel("Budgets burn", queries, says=says, alarm=14.4)


def _left() -> tuple[Panel, ...]:
    says = "Share of the budget for three days. Below zero, the month's objective is at risk."
    return tuple(
        Panel(
            f"Budget left: {objective.name}",
            (Query(f"1 - citewire:{objective.series}:rate3d / {objective.budget}"),),
            unit="percentunit",
            says=says,
            kind="stat",
            alarm=0,
            low_is_bad=True,
        )
        for objective in OBJECTIVES
    )


OVERVIEW: Final = Dashboard(
    uid="citewire-overview",
    title="Citewire overview",
    says="Success, speed, quality and cost of answers.",
    rows=(
        Row(
            "Objectives",
            (
                *_left(),
                Panel(
                    "Alerts",
                    (Query('count(ALERTS{alertname=~"Citewire.+", alertstate="firing"}) or vector(0)'),),
                    kind="stat",
                    alarm=1,
                ),
                Panel("Processes up", (Query('sum by (job) (up{job=~"citewire-.+"})', "{{job}}"),), kind="stat"),
            ),
            across=4,
        ),
        Row(
            "Questions",
            (
                Panel("Questions per second, by status", (Query(rate(CHATS, "status"), "{{status}}"),), unit="reqps"),
                Panel(
                    "Failed, excluding client errors",
                    (
                        Query("citewire:chat_error_ratio:rate5m", "in 5 minutes"),
                        Query("citewire:chat_error_ratio:rate1h", "in 1 hour"),
                    ),
                    unit="percentunit",
                    says="5xx responses, and streams that broke off.",
                    alarm=0.005,
                ),
                _burn(),
                FIRST_TEXT,
                Panel(
                    "Streams in flight",
                    (Query('sum by (dialect) (citewire_streams_in_flight{dialect!="grpc"})', "{{dialect}}"),),
                    stack=True,
                ),
                Panel(
                    "Streams cut off",
                    (Query(rate('citewire_streams_cancelled_total{job="citewire-gateway"}', "cause"), "{{cause}}"),),
                    unit="ops",
                    says="client: the client disconnected. drain: a process that was shutting down ran out of time.",
                ),
                Panel(
                    "Runs, by outcome",
                    (Query(rate("citewire_runs_total", "outcome"), "{{outcome}}"),),
                    unit="ops",
                    says="lost: their gateway died.",
                ),
            ),
        ),
        Row("Answers and their cost", (TOKENS, COST, CITATIONS)),
        Row("Documents", (BACKLOG, OLDEST, RECALL)),
    ),
)
