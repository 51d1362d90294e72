"""Score distributions as an SVG, alone or in an HTML page.

Written without matplotlib, which would add 78 MB and seconds of import time for histograms and lines.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from citewire_cli.jsonio import JsonObject, get_float
from citewire_eval.results import Run, write_atomically

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _RIGHT = 720, 230, 48, 44, 40, 16
_BINS = 50
_COLOURS = {
    "gold": "#0b7285",
    "other": "#e8590c",
    "answerable": "#0b7285",
    "unanswerable": "#e8590c",
    "left out": "#862e9c",
}
_NAMES = {"gold": "best gold chunk", "other": "best other chunk"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: distributions over an axis, with thresholds on it."""

    title: str
    axis: str
    series: Mapping[str, Sequence[float]]
    marks: Mapping[str, float]


def write_plot(run: Run, stored: JsonObject, path: Path) -> None:
    """Writes the distributions of a run as `.svg`, or as an HTML page if the name ends in `.html`.

    Args:
        run: The run, with its calibration if it has one.
        stored: The calibration stored with the space.
        path: The file to write.
    """
    picture = draw(panels(run, stored))
    if path.suffix.lower() in (".html", ".htm"):
        picture = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>citewire eval</title></head>\n'
            f'<body style="margin:24px;background:#fff">\n{picture}</body></html>\n'
        )
    write_atomically(path, picture)


def panels(run: Run, stored: JsonObject) -> list[Panel]:
    """The panels to draw: the similarities of each dense search and the scores of each profile's answers."""
    drawn: list[Panel] = []
    for row in run.rows:
        if row.part == "search" and row.label.startswith("dense"):
            axis, threshold = "cosine similarity of question and chunk", "relevance_threshold"
        elif row.part == "answers":
            axis, threshold = "score of the answer", "answerable_threshold"
        else:
            continue
        series = {name: list(values.values()) for name, values in row.scores.items() if values}
        if series:
            values = {"stored": get_float(stored, threshold), "derived": get_float(run.calibration or {}, threshold)}
            marks = {name: value for name, value in values.items() if value is not None}
            drawn.append(Panel(f"{row.dataset}, {row.label}", axis, series, marks))
    return drawn


def draw(pictures: Sequence[Panel]) -> str:
    """The panels as one SVG, one below the other."""
    height = max(1, len(pictures)) * _HEIGHT
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        "<title>Score distributions</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
    ]
    if not pictures:
        body.append('<text x="20" y="30">No scores were measured.</text>')
    for number, panel in enumerate(pictures):
        body.append(f'<g transform="translate(0 {number * _HEIGHT})">')
        body.extend(_panel(panel))
        body.append("</g>")
    return "\n".join([*body, "</svg>", ""])


def _panel(panel: Panel) -> Iterable[str]:
    low, high = _range([*panel.series.values(), list(panel.marks.values())])
    shares = {name: _histogram(values, low, high) for name, values in panel.series.items()}
    top = max(map(max, shares.values()), default=1.0) or 1.0
    base = _HEIGHT - _BOTTOM

    def x(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(share: float) -> float:
        return base - share / top * (base - _TOP)

    yield f'<text x="{_LEFT}" y="16" font-weight="600">{escape(panel.title)}</text>'
    at = float(_LEFT)
    for name, values in panel.series.items():
        colour = _COLOURS.get(name, "#495057")
        label = f"{_NAMES.get(name, name)} ({len(values)})"
        yield f'<rect x="{at:.0f}" y="24" width="10" height="10" fill="{colour}" fill-opacity="0.6"/>'
        yield f'<text x="{at + 14:.0f}" y="33">{escape(label)}</text>'
        at += 34 + 6.6 * len(label)
        points = [(x(low + (high - low) * (i + 0.5) / _BINS), y(share)) for i, share in enumerate(shares[name])]
        outline = " ".join(f"{left:.1f} {top:.1f}" for left, top in points)
        closed = f"M{x(low):.1f} {base}L{outline}L{x(high):.1f} {base}Z"
        yield f'<path d="{closed}" fill="{colour}" fill-opacity="0.3" stroke="{colour}"/>'
    yield from _axis(panel.axis, low, high, base)
    for number, (name, value) in enumerate(panel.marks.items()):
        dash = ' stroke-dasharray="4 3"' if name == "stored" else ""
        yield f'<path d="M{x(value):.1f} {_TOP}V{base}" stroke="#212529" stroke-width="1.5"{dash}/>'
        near_edge = x(value) > _WIDTH - 120  # then the label goes to the left
        at, anchor = (x(value) - 4, "end") if near_edge else (x(value) + 4, "start")
        text = f"{escape(name)} {value:.3f}"
        yield f'<text x="{at:.1f}" y="{_TOP + 12 + 14 * number}" text-anchor="{anchor}">{text}</text>'


def _axis(title: str, low: float, high: float, base: float) -> Iterable[str]:
    width = _WIDTH - _LEFT - _RIGHT
    yield f'<path d="M{_LEFT} {base}h{width}" stroke="#868e96"/>'
    for step in range(6):
        value = low + (high - low) * step / 5
        at = _LEFT + width * step / 5
        yield f'<text x="{at:.0f}" y="{base + 15}" text-anchor="middle" fill="#495057">{value:.2f}</text>'
    middle = _LEFT + width / 2
    yield f'<text x="{middle:.0f}" y="{base + 31}" text-anchor="middle" fill="#495057">{escape(title)}</text>'


def _range(series: Iterable[Sequence[float]]) -> tuple[float, float]:
    values = list(itertools.chain.from_iterable(series))
    low, high = min(values), max(values)
    return (low, high) if high - low > 1e-6 else (low - 0.05, high + 0.05)


def _histogram(values: Sequence[float], low: float, high: float) -> list[float]:
    """The share of the values in each bin, smoothed with its neighbours."""
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int((value - low) / (high - low) * _BINS))] += 1
    padded = [0, *counts, 0]
    return [(padded[i] + 2 * padded[i + 1] + padded[i + 2]) / (4 * len(values)) for i in range(_BINS)]
