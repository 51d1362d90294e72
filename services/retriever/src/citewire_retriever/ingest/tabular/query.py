"""A query as SQL: names become column positions, values become parameters, and neither is part of a statement.

Numbers are integer multiples of a power of ten, which DuckDB adds exactly or refuses to add. Quotients are computed
outside (`engine`), and compared inside by their integer part and remainder, which doubles distinguish below 2^26 rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import accumulate
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.values import MOST_DIGITS, Column, fold, read_value, scale_of
from citewire_retriever.ingest.tabular.wording import Wording

NUMBERS: Final = frozenset({pb.TABLE_TYPE_NUMBER, pb.TABLE_TYPE_PERCENT, pb.TABLE_TYPE_CURRENCY})
TYPE_NAMES: Final = {
    pb.TABLE_TYPE_TEXT: "texts",
    pb.TABLE_TYPE_NUMBER: "numbers, like -1234.5",
    pb.TABLE_TYPE_PERCENT: "percentages, like 0.15 or 15%",
    pb.TABLE_TYPE_CURRENCY: "amounts, like -1234.5",
    pb.TABLE_TYPE_DATE: "dates, like 2026-03-31",
    pb.TABLE_TYPE_BOOLEAN: "true or false",
}
_SIGNS: Final = {
    pb.TABLE_OPERATOR_EQ: "=",
    pb.TABLE_OPERATOR_LT: "<",
    pb.TABLE_OPERATOR_LE: "<=",
    pb.TABLE_OPERATOR_GT: ">",
    pb.TABLE_OPERATOR_GE: ">=",
}
_PARTS: Final = {
    pb.DATE_PART_YEAR: "year({})",
    pb.DATE_PART_QUARTER: "quarter({})",
    pb.DATE_PART_MONTH: "month({})",
    pb.DATE_PART_DAY: "day({})",
    pb.DATE_PART_YEAR_MONTH: "strftime({}, '%Y-%m')",
}
_ORDERING: Final = frozenset({pb.TABLE_OPERATOR_LT, pb.TABLE_OPERATOR_LE, pb.TABLE_OPERATOR_GT, pb.TABLE_OPERATOR_GE})
_COUNTING: Final = frozenset({pb.TABLE_FUNCTION_COUNT, pb.TABLE_FUNCTION_COUNT_DISTINCT})
_ADDING: Final = frozenset({pb.TABLE_FUNCTION_SUM, pb.TABLE_FUNCTION_AVG, pb.TABLE_FUNCTION_MEDIAN})
_SORTED: Final = "list_sort(list({0}) FILTER (WHERE {0} IS NOT NULL))"
_ENGLISH: Final = Wording()
REPEATED: Final = "merged cells repeat values in it, which can't be added"
_EXACT: Final = Context(prec=200)
_BEYOND: Final = Decimal(10) ** MOST_DIGITS
"""Larger than any column's number, and within DuckDB's integers."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the answer."""

    column: pb.TableColumn
    expressions: tuple[str, ...]
    """Selected expressions: one value, or the two operands of a quotient."""
    keys: tuple[str, ...]
    """Sort keys; `{0}` and `{1}` stand for the selected expressions."""
    scale: int = 0
    """Decimal places of the selected expressions, if they are numbers."""


@dataclass(slots=True)
class Statement:
    """A query in DuckDB over a table of rows `n` with columns `c1`, … as in the sheet, and `f1`, … for folded texts."""

    outputs: list[Output] = field(default_factory=list[Output])
    groups: int = 0
    """Number of leading outputs that rows are grouped by."""
    is_aggregate: bool = False
    counts_rows: bool = False
    condition: str = "true"
    parameters: list[object] = field(default_factory=list[object])
    order: list[str] = field(default_factory=list[str])
    understood: str = ""


class Compiler:
    """Compiles a query to a statement, and records the columns that it uses.

    Raises TableQueryError with the invalid field.
    """

    def __init__(self, table: Table, query: pb.TableQuery) -> None:
        self.columns: dict[int, Column] = {}
        """The columns used, by position."""
        self.folded: set[int] = set()
        """Positions of columns compared as texts."""
        self._table = table
        self._query = query
        self._places = {fold(name): place for place, name in table.names.items()}

    def compile(self) -> Statement:
        """The whole statement."""
        query = self._query
        statement = Statement()
        conditions = [self._filter(index, statement.parameters) for index in range(len(query.filters))]
        statement.condition = " AND ".join(conditions) or "true"
        statement.is_aggregate = bool(query.group_by or query.aggregates)
        statement.groups = len(query.group_by)
        statement.counts_rows = any(not each.column for each in query.aggregates)
        if statement.is_aggregate:
            if query.columns:
                raise TableQueryError("query.columns", "must be empty if rows are grouped or aggregated")
            statement.outputs = [self._group(index) for index in range(len(query.group_by))]
            statement.outputs += [self._aggregate(index) for index in range(len(query.aggregates))]
        else:
            names = list(query.columns) or list(self._table.names.values())[:100]
            statement.outputs = [self._shown(f"query.columns[{index}]", name) for index, name in enumerate(names)]
        statement.order = self._order(statement.outputs)
        statement.understood = _ENGLISH.query(query, self._table)
        return statement

    def _column(self, where: str, name: str) -> tuple[int, Column]:
        place = self._places.get(fold(name))
        if place is None:
            known = ", ".join(list(self._table.names.values())[:20])
            raise TableQueryError(where, f"must be one of the table's columns: {known}")
        if place not in self.columns:
            self.columns[place] = self._table.column(place)
        return place, self.columns[place]

    def _filter(self, index: int, parameters: list[object]) -> str:
        """A condition."""
        each = self._query.filters[index]
        where = f"query.filters[{index}]"
        place, column = self._column(f"{where}.column", each.column)
        kind, expression = self._part(f"{where}.part", place, column, each.part)
        if each.op in {pb.TABLE_OPERATOR_EMPTY, pb.TABLE_OPERATOR_FILLED}:
            check = "IS NULL" if each.op == pb.TABLE_OPERATOR_EMPTY else "IS NOT NULL"
            return f"({expression} {check})"
        if kind == pb.TABLE_TYPE_TEXT:
            if each.op in _ORDERING:
                raise TableQueryError(
                    f"{where}.op", _hint("must be a different one, because the column contains texts", column)
                )
            if not each.part:
                self.folded.add(place)
                expression = f"f{place}"
            texts = [fold(value) for value in each.values]
            parameters.extend(texts)
            if each.op == pb.TABLE_OPERATOR_CONTAINS:
                return f"(coalesce(contains({expression}, ?), false))"
            return _equal(expression, each.op, len(texts))
        if each.op == pb.TABLE_OPERATOR_CONTAINS:
            raise TableQueryError(
                f"{where}.op", f"must be a different one, because the column contains {TYPE_NAMES[kind]}"
            )
        if kind == pb.TABLE_TYPE_BOOLEAN and each.op not in {
            pb.TABLE_OPERATOR_EQ,
            pb.TABLE_OPERATOR_NE,
            pb.TABLE_OPERATOR_IN,
        }:
            raise TableQueryError(f"{where}.op", "must be a different one, because the column contains true or false")
        scale = self.scale(place) if kind in NUMBERS and not each.part else 0
        conditions = [
            _compare(expression, each.op, _value(f"{where}.values[{number}]", text, kind), text, scale, parameters)
            for number, text in enumerate(each.values)
        ]
        condition = " OR ".join(conditions)
        return f"({'NOT ' if each.op == pb.TABLE_OPERATOR_NE else ''}coalesce({condition}, false))"

    def _part(self, where: str, place: int, column: Column, part: pb.DatePart) -> tuple[pb.TableType, str]:
        """The type and expression of a column, or of a part of its dates."""
        if not part:
            return column.type, f"c{place}"
        if column.type != pb.TABLE_TYPE_DATE:
            problem = f"must be absent, because the column contains {TYPE_NAMES[column.type]}, not dates"
            raise TableQueryError(where, _hint(problem, column))
        kind = pb.TABLE_TYPE_TEXT if part == pb.DATE_PART_YEAR_MONTH else pb.TABLE_TYPE_NUMBER
        return kind, _PARTS[part].format(f"c{place}")

    def scale(self, place: int) -> int:
        """Decimal places of a column's numbers."""
        return scale_of([value for value in self.columns[place].values if isinstance(value, Decimal)]) or 0

    def _name(self, place: int, part: pb.DatePart) -> str:
        return _ENGLISH.part(part, self._table.names[place])

    def _shown(self, where: str, name: str) -> Output:
        place, column = self._column(where, name)
        return self._output(place, column, pb.DATE_PART_UNSPECIFIED, column.type, f"c{place}")

    def _group(self, index: int) -> Output:
        each = self._query.group_by[index]
        place, column = self._column(f"query.group_by[{index}].column", each.column)
        kind, expression = self._part(f"query.group_by[{index}].part", place, column, each.part)
        return self._output(place, column, each.part, kind, expression)

    def _output(self, place: int, column: Column, part: pb.DatePart, kind: pb.TableType, expression: str) -> Output:
        described = pb.TableColumn(name=self._name(place, part), type=kind, currency="" if part else column.currency)
        keys = ("{0}",)
        scale = self.scale(place) if kind in NUMBERS and not part else 0
        return Output(described, (expression,), keys, scale)

    def _aggregate(self, index: int) -> Output:
        each = self._query.aggregates[index]
        where = f"query.aggregates[{index}]"
        function = each.function
        if not each.column:
            described = pb.TableColumn(name=_ENGLISH.aggregate(function, ""), type=pb.TABLE_TYPE_NUMBER)
            return Output(described, ("count(*)",), ("{0}",))
        place, column = self._column(f"{where}.column", each.column)
        name = _ENGLISH.aggregate(function, self._table.names[place])
        if function in {pb.TABLE_FUNCTION_COUNT, pb.TABLE_FUNCTION_COUNT_DISTINCT}:
            distinct = "DISTINCT " if function == pb.TABLE_FUNCTION_COUNT_DISTINCT else ""
            return Output(
                pb.TableColumn(name=name, type=pb.TABLE_TYPE_NUMBER), (f"count({distinct}c{place})",), ("{0}",)
            )
        if column.type not in NUMBERS and (function in _ADDING or column.type != pb.TABLE_TYPE_DATE):
            raise TableQueryError(
                f"{where}.column", _hint(f"must contain numbers; it contains {TYPE_NAMES[column.type]}", column)
            )
        if function in _ADDING and column.repeats:
            raise TableQueryError("", f"column {self._table.names[place]!r}: {REPEATED}")
        described = pb.TableColumn(name=name, type=column.type, currency=column.currency)
        scale = self.scale(place) if column.type in NUMBERS else 0
        value = f"c{place}"
        if function == pb.TABLE_FUNCTION_SUM:
            return Output(described, (f"sum({value}::HUGEINT)",), ("{0}",), scale)
        if function == pb.TABLE_FUNCTION_AVG:
            keys = ("{0} // {1}", "({0} - {1} * ({0} // {1}))::DOUBLE / {1}")
            return Output(described, (f"sum({value}::HUGEINT)", f"nullif(count({value}), 0)"), keys, scale)
        if function == pb.TABLE_FUNCTION_MEDIAN:
            values = _SORTED.format(value)
            middle = f"{values}[(count({value}) + 1) // 2]::HUGEINT + {values}[count({value}) // 2 + 1]::HUGEINT"
            return Output(described, (middle, "2"), ("{0}",), scale)
        return Output(
            described, (f"{'min' if function == pb.TABLE_FUNCTION_MIN else 'max'}({value})",), ("{0}",), scale
        )

    def _order(self, outputs: Sequence[Output]) -> list[str]:
        """The sort expressions; `{0}` is the first selected expression, and so on."""
        firsts = list(accumulate((len(output.expressions) for output in outputs), initial=0))
        order: list[str] = []
        for index, each in enumerate(self._query.order_by):
            if not 1 <= each.index <= len(outputs):
                raise TableQueryError(
                    f"query.order_by[{index}].index", f"must be 1 to {len(outputs)}, a column of the answer"
                )
            output = outputs[each.index - 1]
            places = [f"o{firsts[each.index - 1] + number}" for number in range(len(output.expressions))]
            direction = "DESC" if each.descending else "ASC"
            order += [f"{key.format(*places)} {direction} NULLS LAST" for key in output.keys]
        return order


def _equal(expression: str, operator: pb.TableOperator, count: int) -> str:
    condition = f"coalesce({expression} IN ({', '.join('?' * count)}), false)"
    return f"(NOT {condition})" if operator == pb.TABLE_OPERATOR_NE else f"({condition})"


def _hint(text: str, column: Column) -> str:
    return f"{text}: {column.refusal}" if column.refusal else text


def _value(where: str, text: str, kind: pb.TableType) -> Decimal | datetime | bool:
    value = read_value(text, kind)
    if value is None or isinstance(value, str):
        raise TableQueryError(where, f"must fit the column, which contains {TYPE_NAMES[kind]}")
    return value


def _compare(  # the parts of a comparison
    expression: str,
    operator: pb.TableOperator,
    value: Decimal | datetime | bool,
    text: str,
    scale: int,
    parameters: list[object],
) -> str:
    sign = "=" if operator in {pb.TABLE_OPERATOR_IN, pb.TABLE_OPERATOR_NE} else _SIGNS[operator]
    if isinstance(value, Decimal):
        return _compare_number(expression, sign, value, scale, parameters)
    if isinstance(value, datetime) and len(text.strip()) <= len("2026-03-31"):
        expression = f"date_trunc('day', {expression})"
    parameters.append(value)
    return f"{expression} {sign} ?"


def _compare_number(expression: str, sign: str, value: Decimal, scale: int, parameters: list[object]) -> str:
    """Compares with a number that may have more digits than the column's numbers."""
    exact = max(min(value.scaleb(scale, _EXACT), _BEYOND), -_BEYOND)
    whole = exact.to_integral_value(ROUND_FLOOR if sign in {"<=", ">"} else ROUND_CEILING)
    if sign == "=" and whole != exact:
        return f"({expression} IS NULL AND false)"
    parameters.append(str(int(whole)))
    return f"{expression}::HUGEINT {sign} ?::HUGEINT"
