"""Charts of Office documents: the values that one is drawn from, as a table of categories by series.

Names of elements are those of DrawingML's charts (ECMA-376 part 1, chapter 21).
"""

from collections.abc import Iterator
from math import isfinite
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, TextBuilder
from citewire_retriever.ingest.parsers.cell_formats import general, show
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.package import Package, attribute, local
from citewire_retriever.ingest.parsers.pairs import one_line

_MOST_SERIES: Final = 100
_MOST_POINTS: Final = 5_000
_CATEGORIES: Final = frozenset({"cat", "xVal"})
_VALUES: Final = frozenset({"val", "yVal"})


def add_chart(builder: TextBuilder, package: Package, part: str, place: Place | None = None) -> None:
    """Adds a chart's title, and a row for each of its categories.

    Args:
        builder: The document's builder.
        package: The package with the chart.
        part: The chart's part; a missing or empty one adds nothing.
        place: The chart's place.

    Raises:
        IngestError: CORRUPT, TOO_LARGE.
    """
    root = package.tree(part)
    if root is None:
        return
    title, rows = _title(root), list(_rows(root))
    if title and rows:
        builder.add(Block(BlockKind.PARAGRAPH, *builder.write(title), place=place or Place()))
    for row in rows:
        builder.add(Block(BlockKind.ROW, *builder.write(row), place=place or Place()))


def _title(root: Element) -> str:
    """The chart's own title, not those of its axes."""
    chart = next(root.iter("{*}chart"), None)
    title = next((each for each in chart if local(each.tag) == "title"), None) if chart is not None else None
    return one_line("".join(each.text or "" for each in title.iter("{*}t"))) if title is not None else ""


def _rows(root: Element) -> Iterator[str]:
    """Each category with its values in the series."""
    columns: list[tuple[str, dict[int, str]]] = []
    labels: dict[int, str] = {}
    for series in list(root.iter("{*}ser"))[:_MOST_SERIES]:
        columns.append((_name(series), _points(series, _VALUES)))
        labels = _points(series, _CATEGORIES) | labels
    places = sorted({place for _, values in columns for place in values})
    for place in places[:_MOST_POINTS]:
        values = [f"{name}: {values[place]}" if name else values[place] for name, values in columns if place in values]
        yield "\n".join([labels.get(place, str(place + 1)), *values])


def _name(series: Element) -> str:
    text = next((each for each in series if local(each.tag) == "tx"), None)
    return one_line(next((each.text or "" for each in text.iter("{*}v")), "")) if text is not None else ""


def _points(series: Element, tags: frozenset[str]) -> dict[int, str]:
    """The stored values or categories of a series, by number; for categories with levels, the innermost."""
    source = next((each for each in series if local(each.tag) in tags), None)
    if source is None:
        return {}
    code = next((each.text or "" for each in source.iter("{*}formatCode")), "General")
    level = next(source.iter("{*}lvl"), source)
    return dict(_shown(level, code))


def _shown(source: Element, code: str) -> Iterator[tuple[int, str]]:
    for point in source.iter("{*}pt"):
        number = attribute(point, "idx")
        value = next((each.text or "" for each in point if local(each.tag) == "v"), "")
        if number.isdecimal() and number.isascii() and len(number) < 8 and value.strip():
            yield int(number), one_line(_as_shown(value, attribute(point, "formatCode") or code))


def _as_shown(value: str, code: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    if not isfinite(number):
        return value
    return general(number) if code == "General" else show(number, code)
