"""Builds Grafana's JSON from short descriptions: a dashboard has rows, a row has panels, a panel has queries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Json = dict[str, object]

SCHEMA_VERSION: Final = 39  # read by Grafana 10.4 and later
_WIDTH: Final = 24
_HEIGHTS: Final = {"stat": 4, "timeseries": 8, "table": 8}
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Kind = Literal["stat", "timeseries", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and the name of its lines, with `{{label}}` where labels distinguish them."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel."""

    title: str
    """The panel's title."""
    queries: tuple[Query, ...]
    """The queries with its data."""
    unit: str = "short"
    """Grafana's name for the unit: `s`, `reqps`, `percentunit`, `short`, `bytes`, `currencyUSD`."""
    says: str = ""
    """An explanation, if the title isn't enough."""
    kind: Kind = "timeseries"
    """`stat` for a single figure, `timeseries`, or `table`."""
    stack: bool = False
    """Whether lines are stacked."""
    alarm: float | None = None
    """The value from which the panel is red; None if higher values aren't worse."""
    low_is_bad: bool = False
    """Whether values below `alarm` are bad, instead of those above."""
    most: float | None = None
    """The maximum of the axis; None if unknown."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side at equal width, at most `across` per line."""

    title: str
    panels: tuple[Panel, ...]
    across: int = 3


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; its uid is part of its URL and never changes."""

    uid: str
    title: str
    says: str
    rows: tuple[Row, ...]
    choose_job: bool = False
    """Whether users can choose the displayed processes: queries use `job=~"$job"`."""


def to_json(dashboard: Dashboard) -> Json:
    """Returns the JSON for Grafana's import."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.says,
        "tags": ["citewire"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "graphTooltip": 1,  # one crosshair for all panels
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "tags": ["citewire"],
                "title": "",
                "type": "dashboards",
            }
        ],
        "annotations": {"list": [_alert_annotations()]},
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_panels(dashboard)),
    }


def _variables(dashboard: Dashboard) -> Iterator[Json]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    if dashboard.choose_job:
        yield {
            "name": "job",
            "label": "Processes",
            "type": "query",
            "datasource": _DATASOURCE,
            "query": {"query": 'label_values(up{job=~"citewire-.+"}, job)', "refId": "job"},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "current": {"text": "All", "value": "$__all"},
        }


def _alert_annotations() -> Json:
    return {
        "name": "Alerts",
        "datasource": _DATASOURCE,
        "enable": True,
        "expr": 'ALERTS{alertname=~"Citewire.+", alertstate="firing", severity="page"}',
        "iconColor": "red",
        "titleFormat": "{{alertname}}",
    }


def _panels(dashboard: Dashboard) -> Iterator[Json]:
    number, top = 0, 0
    for row in dashboard.rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
            "panels": [],
        }
        top += 1
        across = min(row.across, len(row.panels))
        width = _WIDTH // across
        for start in range(0, len(row.panels), across):
            line = row.panels[start : start + across]
            height = max(_HEIGHTS[panel.kind] for panel in line)
            for column, panel in enumerate(line):
                number += 1
                place = {"x": column * width, "y": top, "w": width, "h": height}
                yield _panel(panel, number, place)
            top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "targets": [_target(panel, query, chr(ord("A") + index)) for index, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _target(panel: Panel, query: Query, name: str) -> Json:
    target: Json = {
        "refId": name,
        "datasource": _DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
    }
    if panel.kind == "table":
        target |= {"format": "table", "instant": True}
    elif panel.kind == "stat":
        target |= {"instant": True}
    return target


def _defaults(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0, "color": {"mode": "palette-classic"}}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stack else 5,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stack else "none"},
            "thresholdsStyle": {"mode": "off" if panel.alarm is None else "line"},
        }
    if panel.alarm is not None:
        below, above = ("red", "green") if panel.low_is_bad else ("green", "red")
        steps = [{"color": below, "value": None}, {"color": above, "value": panel.alarm}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        if panel.kind == "stat":
            defaults["color"] = {"mode": "thresholds"}
    return defaults


def _options(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none", "textMode": "value_and_name"}
    return {"showHeader": True}
