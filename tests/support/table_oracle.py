# ruff: noqa: DTZ001 - a sheet's dates have no zone
"""Random tables and queries, with answers computed in plain Python from the tables' source, without the engine.

A table is written as a workbook, an OpenDocument spreadsheet or CSV, in German or English, with titles above it,
totals and notes below, empty cells, and cells that don't fit their column.
"""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from xml.sax.saxutils import escape, quoteattr

from citewire.retriever.v1 import table_pb2 as pb
from openpyxl import Workbook
from openpyxl.cell.cell import Cell

from zip_packages import odf

Grid = dict[int, list[tuple[str, str]]]
"""Cells of a table's rows, by the rows' numbers: texts as CSV has them, and kinds."""
Value = Decimal | datetime | bool | str | None

EXACT = Context(prec=300)
TEXTS = (
    "Nord", "SÜD", "Süd", "süd", "Straße", "STRASSE", "a; b", 'say "hi"', "=1+1", "'; DROP TABLE whole; --", "東京",
    "Ost West",
    "100 %?", "null", "NaN", "O’Neil", "{0}", "$1 off", "50/50 split", "c1",
)  # fmt: skip
NAMES = (
    "Region", "Kunde Nr.", '"; drop table whole; --', "c1", "Betrag (€)", "select", "Größe", "n", "o0",
    "rows", "名前", "Menge",
    "{0}", "Stück %", "Wert\\Last", "Datum",
)  # fmt: skip
NO_VALUES = ("n/a", "k. A.", "?", "offen")
PARTS = (
    pb.DATE_PART_UNSPECIFIED, pb.DATE_PART_YEAR, pb.DATE_PART_QUARTER, pb.DATE_PART_MONTH, pb.DATE_PART_DAY,
    pb.DATE_PART_YEAR_MONTH,
)  # fmt: skip
OPERATORS = (
    pb.TABLE_OPERATOR_EQ, pb.TABLE_OPERATOR_NE, pb.TABLE_OPERATOR_LT, pb.TABLE_OPERATOR_LE, pb.TABLE_OPERATOR_GT,
    pb.TABLE_OPERATOR_GE, pb.TABLE_OPERATOR_IN, pb.TABLE_OPERATOR_CONTAINS, pb.TABLE_OPERATOR_EMPTY,
    pb.TABLE_OPERATOR_FILLED,
)  # fmt: skip
KINDS = ("text", "number", "whole", "percent", "currency", "date", "moment", "boolean")
NUMBERS = frozenset({"number", "whole", "percent", "currency"})
TYPES = {
    "text": pb.TABLE_TYPE_TEXT, "number": pb.TABLE_TYPE_NUMBER, "whole": pb.TABLE_TYPE_NUMBER,
    "percent": pb.TABLE_TYPE_PERCENT, "currency": pb.TABLE_TYPE_CURRENCY, "date": pb.TABLE_TYPE_DATE,
    "moment": pb.TABLE_TYPE_DATE, "boolean": pb.TABLE_TYPE_BOOLEAN,
}  # fmt: skip


@dataclass
class MadeColumn:
    """A generated column."""

    name: str
    kind: str
    values: list[Value]
    places: int
    """Digits behind the decimal point."""
    odd: dict[int, str] = field(default_factory=dict[int, str])
    """Texts in place of values, by row."""


@dataclass
class MadeTable:
    """A generated table and its file."""

    columns: list[MadeColumn]
    rows: list[int]
    """Line numbers of its rows in the file."""
    header_row: int
    excluded: list[int]
    sheet: str
    name: str
    data: bytes


def make_table(chance: random.Random, rows: int) -> MadeTable:
    """A random table with this many rows as a file."""
    names = chance.sample(NAMES, chance.randint(3, 7))
    kinds = ["text", "currency", *(chance.choice(KINDS) for _ in names[2:])]
    columns = [_column(chance, name, kind, rows) for name, kind in zip(names, kinds, strict=True)]
    style = chance.choice(("german", "english"))
    currency = chance.choice(("€", "$", "EUR"))
    grid = [[_cell(column, index, style, currency) for column in columns] for index in range(rows)]
    above = [["Report 2026"], []] if chance.random() < 0.4 else []
    below = [["Summe" if style == "german" else "Total", *("9" for _ in names[1:])]] if chance.random() < 0.5 else []
    below += [[], ["Source: our own books"]] if chance.random() < 0.4 else []
    gaps = {index for index in range(1, rows) if chance.random() < 0.02 and columns[1].values[index] is not None}
    header_row = len(above) + 1
    lines: list[list[str]] = [*above, list(names)]
    numbers: list[int] = []
    for index, row in enumerate(grid):
        if index in gaps:
            lines.append([])
        lines.append([cell for cell, _ in row])
        numbers.append(len(lines))
    excluded: list[int] = []
    for row in below:
        lines.append(list(row))
        excluded += [len(lines)] if row else []
    form = chance.choice(("xlsx", "ods", "csv", "tsv"))
    sheet = "" if form in {"csv", "tsv"} else chance.choice(("Umsatz 2026", "A & B", "Tabelle1"))
    data = _write(form, sheet, lines, dict(zip(numbers, grid, strict=True)), columns, style)
    return MadeTable(columns, numbers, header_row, excluded, sheet, f"table.{form}", data)


def _column(chance: random.Random, name: str, kind: str, rows: int) -> MadeColumn:
    places = {"number": chance.choice((1, 2, 6)), "currency": 2, "percent": 3}.get(kind, 0)
    few = [_value(chance, kind, places) for _ in range(chance.choice((2, 5, 40)))]
    values = [chance.choice(few) for _ in range(rows)]
    column = MadeColumn(name, kind, values, places)
    for index in range(rows):
        if kind != "text" and chance.random() < 0.05:
            values[index] = None
        elif kind in NUMBERS and chance.random() < 0.03:
            values[index] = None
            column.odd[index] = chance.choice(NO_VALUES)
    # Most cells determine the type of a column, and empty rows don't count.
    values[0] = values[0] if values[0] is not None and 0 not in column.odd else few[0]
    column.odd.pop(0, None)
    return column


def _value(chance: random.Random, kind: str, places: int) -> Value:
    if kind == "text":
        return chance.choice(TEXTS)
    if kind == "boolean":
        return chance.random() < 0.5
    if kind in {"date", "moment"}:
        day = datetime(1999, 1, 1) + timedelta(days=chance.randint(0, 12_000))
        return day + timedelta(seconds=chance.randint(1, 86_399)) if kind == "moment" else day
    size = chance.choice((10, 10_000, 10**8))
    number = Decimal(chance.randint(-size, size) * 10 + chance.randint(1, 9)).scaleb(
        -places - (1 if places else 0), EXACT
    )
    return number.quantize(Decimal(1).scaleb(-places), context=EXACT)


def _cell(column: MadeColumn, index: int, style: str, currency: str) -> tuple[str, str]:
    """A cell as text as CSV has it, and its value's kind; empty for none."""
    if index in column.odd:
        return column.odd[index], "odd"
    value = column.values[index]
    if value is None:
        return "", ""
    if isinstance(value, bool):
        return ("ja" if value else "nein") if style == "german" else ("TRUE" if value else "false"), column.kind
    if isinstance(value, datetime):
        pattern = "%d.%m.%Y" if style == "german" else "%Y-%m-%d"
        return value.strftime(pattern + (" %H:%M:%S" if column.kind == "moment" else "")), column.kind
    if isinstance(value, Decimal):
        number = value.scaleb(2, EXACT) if column.kind == "percent" else value
        text = f"{number:,.{max(column.places - (2 if column.kind == 'percent' else 0), 0)}f}"
        if style == "german":
            text = text.translate(str.maketrans(",.", ".,"))
        # A single separator before three digits is ambiguous, so whole numbers have none.
        text = str(number) if column.kind == "whole" else text
        return (
            f"{text} %" if column.kind == "percent" else f"{text} {currency}" if column.kind == "currency" else text,
            column.kind,
        )
    return value, column.kind


def _write(  # what a file is made of
    form: str, sheet: str, lines: list[list[str]], grid: Grid, columns: list[MadeColumn], style: str
) -> bytes:
    if form in {"csv", "tsv"}:
        buffer = io.StringIO(newline="")
        delimiter = "\t" if form == "tsv" else ";" if style == "german" else ","
        csv.writer(buffer, delimiter=delimiter).writerows(lines)
        return buffer.getvalue().encode()
    return _xlsx(sheet, lines, grid, columns) if form == "xlsx" else _ods(sheet, lines, grid, columns)


def _xlsx(sheet: str, lines: list[list[str]], grid: Grid, columns: list[MadeColumn]) -> bytes:
    book = Workbook()
    page = book.active
    assert page is not None
    page.title = sheet
    formats = {"percent": "0.0%", "currency": '#,##0.00 "€"', "date": "dd.mm.yyyy", "moment": "yyyy-mm-dd hh:mm:ss"}
    for number, line in enumerate(lines, start=1):
        for place, text in enumerate(line, start=1):
            if text == "":
                continue
            cell = page.cell(number, place)
            assert isinstance(cell, Cell)
            row = grid.get(number)
            if row is not None and row[place - 1][1] not in {"", "odd", "text"}:
                column = columns[place - 1]
                cell.value = column.values[list(grid).index(number)]
                if column.kind in formats:
                    cell.number_format = formats[column.kind]
            else:
                cell.value = text
                cell.data_type = "s"
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _ods(sheet: str, lines: list[list[str]], grid: Grid, columns: list[MadeColumn]) -> bytes:
    rows: list[str] = []
    kinds = {"whole": "float", "number": "float", "percent": "percentage", "currency": "currency"}
    order = list(grid)
    for number, line in enumerate(lines, start=1):
        cells: list[str] = []
        for place, text in enumerate(line, start=1):
            kind = grid[number][place - 1][1] if number in grid else ""
            value = columns[place - 1].values[order.index(number)] if kind not in {"", "odd", "text"} else None
            if isinstance(value, bool):
                attributes = f'office:value-type="boolean" office:boolean-value="{str(value).lower()}"'
            elif isinstance(value, datetime):
                attributes = f'office:value-type="date" office:date-value="{value.isoformat()}"'
            elif isinstance(value, Decimal):
                extra = ' office:currency="EUR"' if kind == "currency" else ""
                attributes = f'office:value-type="{kinds[kind]}" office:value="{value:f}"{extra}'
            else:
                attributes = 'office:value-type="string"'
            shown = f"<text:p>{escape(str(text))}</text:p>" if text != "" else ""
            cells.append(f"<table:table-cell {attributes if shown else ''}>{shown}</table:table-cell>")
        rows.append(f"<table:table-row>{''.join(cells) or '<table:table-cell/>'}</table:table-row>")
    return odf("spreadsheet", f"<table:table table:name={quoteattr(sheet)}>{''.join(rows)}</table:table>")


def make_query(chance: random.Random, table: MadeTable) -> pb.TableQuery:
    """A random query that fits a table."""
    query = pb.TableQuery(limit=chance.choice((0, 1, 5, 1000)))
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        query.filters.append(_filter(chance, table, chance.choice(table.columns)))
    if chance.random() < 0.25:
        query.columns.extend(
            column.name for column in chance.sample(table.columns, chance.randint(1, len(table.columns)))
        )
    elif chance.random() < 0.95:
        for column in chance.sample(table.columns, chance.choice((0, 0, 1, 1, 2))):
            part = chance.choice(PARTS) if column.kind in {"date", "moment"} else PARTS[0]
            query.group_by.append(pb.TableGroup(column=_any_case(chance, column.name), part=part))
        for _ in range(chance.randint(0 if query.group_by else 1, 4)):
            query.aggregates.append(_aggregate(chance, chance.choice(table.columns)))
    width = len(query.group_by) + len(query.aggregates) or len(query.columns) or len(table.columns)
    for _ in range(chance.choice((0, 1, 1, 2))):
        query.order_by.append(pb.TableOrder(index=chance.randint(1, width), descending=chance.random() < 0.5))
    return query


def _any_case(chance: random.Random, name: str) -> str:
    return chance.choice((name, name.upper(), name.lower(), f" {name} "))


def _aggregate(chance: random.Random, column: MadeColumn) -> pb.TableAggregate:
    functions = [pb.TABLE_FUNCTION_COUNT, pb.TABLE_FUNCTION_COUNT_DISTINCT]
    if column.kind in NUMBERS:
        functions += [pb.TABLE_FUNCTION_SUM, pb.TABLE_FUNCTION_AVG, pb.TABLE_FUNCTION_MEDIAN] * 2
    if column.kind in NUMBERS | {"date", "moment"}:
        functions += [pb.TABLE_FUNCTION_MIN, pb.TABLE_FUNCTION_MAX]
    if chance.random() < 0.15:
        return pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT)
    return pb.TableAggregate(function=chance.choice(functions), column=_any_case(chance, column.name))


def _filter(chance: random.Random, table: MadeTable, column: MadeColumn) -> pb.TableFilter:
    values = [value for value in column.values if value is not None]
    operators = list(OPERATORS)
    if column.kind in {"text", "boolean"}:
        operators = [operator for operator in operators if operator not in {3, 4, 5, 6}]
    if column.kind != "text":
        operators.remove(pb.TABLE_OPERATOR_CONTAINS)
    condition = pb.TableFilter(column=_any_case(chance, column.name), op=chance.choice(operators))
    if column.kind in {"date", "moment"} and chance.random() < 0.4:
        condition.part = chance.choice(PARTS[1:])
        if condition.part == pb.DATE_PART_YEAR_MONTH and condition.op in {3, 4, 5, 6}:
            condition.op = pb.TABLE_OPERATOR_EQ
    if condition.op in {pb.TABLE_OPERATOR_EMPTY, pb.TABLE_OPERATOR_FILLED}:
        return condition
    for _ in range(chance.randint(1, 4) if condition.op == pb.TABLE_OPERATOR_IN else 1):
        condition.values.append(
            _query_value(chance, column, chance.choice(values), condition.part, contains=condition.op == 8)
        )
    return condition


def _query_value(chance: random.Random, column: MadeColumn, value: Value, part: int, *, contains: bool) -> str:
    """A value of a column, or one near it, in the format of queries."""
    if isinstance(value, datetime):
        value += timedelta(days=chance.choice((0, 0, 1, -400)))
        if part:
            number = _part(value, part)
            return number if isinstance(number, str) else f"{number:f}"
        return value.date().isoformat() if column.kind == "date" or chance.random() < 0.5 else value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        value += chance.choice((Decimal(0), Decimal(0), Decimal("0.0005"), Decimal(-1), Decimal("1e-9")))
        if column.kind == "percent" and chance.random() < 0.5:
            return f"{value.scaleb(2, EXACT):f}%"
        return f"{value:f}"
    text = str(value)
    return chance.choice((text.upper(), text[: len(text) // 2 + 1] if contains else text.swapcase(), text))


def _part(value: datetime, part: int) -> Decimal | str:
    if part == pb.DATE_PART_YEAR_MONTH:
        return f"{value.year:04}-{value.month:02}"
    return Decimal((value.year, (value.month + 2) // 3, value.month, value.day)[part - 1])


def answer_of(table: MadeTable, query: pb.TableQuery) -> tuple[list[tuple[list[str | None], list[int]]], int]:
    """The rows of an answer, each with its source lines, and their number without the limit."""
    columns = {_fold(column.name): column for column in table.columns}
    matching = [
        index
        for index in range(len(table.rows))
        if all(_holds(columns, condition, index) for condition in query.filters)
    ]
    rows: list[tuple[list[object], list[int]]]
    if not query.group_by and not query.aggregates:
        shown = [columns[_fold(name)] for name in query.columns] or table.columns
        rows = [
            ([column.values[index] if index not in column.odd else None for column in shown], [index])
            for index in matching
        ]
    else:
        groups: dict[tuple[object, ...], list[int]] = {} if query.group_by else {(): []}
        for index in matching:
            key = tuple(_value_of(columns[_fold(grouping.column)], index, grouping.part) for grouping in query.group_by)
            groups.setdefault(key, []).append(index)
        rows = [
            ([*key, *(_compute(columns, aggregate, group) for aggregate in query.aggregates)], group)
            for key, group in groups.items()
        ]
        for place in reversed(range(len(query.group_by))):
            _sort(rows, place, descending=False)
    for order in reversed(query.order_by):
        _sort(rows, order.index - 1, descending=order.descending)
    limited = rows[: query.limit or 100]
    return [
        ([_write_value(value) for value in row], [table.rows[index] for index in group]) for row, group in limited
    ], len(rows)


def _sort(rows: list[tuple[list[object], list[int]]], place: int, *, descending: bool) -> None:
    rows.sort(key=lambda row: _Key(row[0][place], descending=descending))


class _Key:
    """Sorts empty values last in both directions."""

    def __init__(self, value: object, *, descending: bool) -> None:
        self.value, self.descending = value, descending

    def __lt__(self, other: _Key) -> bool:
        if self.value is None or other.value is None:
            return self.value is not None and other.value is None
        return other.value < self.value if self.descending else self.value < other.value  # type: ignore[operator]  # both are of the same column, so of the same type


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _value_of(column: MadeColumn, index: int, part: int) -> object:
    value = column.values[index]
    return _part(value, part) if part and isinstance(value, datetime) else value


def _holds(columns: dict[str, MadeColumn], condition: pb.TableFilter, index: int) -> bool:
    column = columns[_fold(condition.column)]
    value = _value_of(column, index, condition.part)
    if condition.op == pb.TABLE_OPERATOR_EMPTY:
        return value is None
    if condition.op == pb.TABLE_OPERATOR_FILLED:
        return value is not None
    results = [value is not None and _compares(value, condition.op, asked) for asked in condition.values]
    return not results[0] if condition.op == pb.TABLE_OPERATOR_NE else any(results)


def _compares(value: object, operator: int, asked: str) -> bool:
    """Compares a value; NE like EQ, which the caller inverts."""
    other: object = _fold(asked)
    if isinstance(value, bool):
        other = asked == "true"
    elif isinstance(value, Decimal):
        other = Decimal(asked[:-1]).scaleb(-2, EXACT) if asked.endswith("%") else Decimal(asked)
    elif isinstance(value, datetime):
        other = datetime.fromisoformat(asked)
        value = datetime(value.year, value.month, value.day) if len(asked) == 10 else value
    else:
        value = _fold(str(value))
    if operator == pb.TABLE_OPERATOR_CONTAINS:
        return str(other) in str(value)
    return {3: value < other, 4: value <= other, 5: value > other, 6: value >= other}.get(operator, value == other)  # type: ignore[operator]  # both are of the same column, so of the same type


def _compute(columns: dict[str, MadeColumn], aggregate: pb.TableAggregate, group: list[int]) -> object:
    if not aggregate.column:
        return Decimal(len(group))
    column = columns[_fold(aggregate.column)]
    values = [value for index in group if (value := column.values[index]) is not None]
    if aggregate.function == pb.TABLE_FUNCTION_COUNT:
        return Decimal(len(values))
    if aggregate.function == pb.TABLE_FUNCTION_COUNT_DISTINCT:
        return Decimal(len(set(values)))
    if not values:
        return None
    if aggregate.function in {pb.TABLE_FUNCTION_MIN, pb.TABLE_FUNCTION_MAX}:
        return (min if aggregate.function == pb.TABLE_FUNCTION_MIN else max)(values)  # type: ignore[type-var]  # both are of the same column, so of the same type
    numbers = sorted(Fraction(value) for value in values if isinstance(value, Decimal))
    if aggregate.function == pb.TABLE_FUNCTION_SUM:
        return sum(numbers, Fraction(0))
    if aggregate.function == pb.TABLE_FUNCTION_AVG:
        return sum(numbers, Fraction(0)) / len(numbers)
    return (numbers[(len(numbers) - 1) // 2] + numbers[len(numbers) // 2]) / 2


def _write_value(value: object) -> str | None:
    """A value in the format of answers."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("T00:00:00")
    if isinstance(value, Fraction):
        value = Context(prec=34).divide(Decimal(value.numerator), Decimal(value.denominator))
    if isinstance(value, Decimal):
        text = f"{value:f}" if value else "0"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return " ".join(str(value).split())
