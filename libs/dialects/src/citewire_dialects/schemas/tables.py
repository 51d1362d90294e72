"""Tables of documents, and queries over them."""

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from citewire.retriever.v1 import table_pb2
from pydantic import MISSING, AfterValidator, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from citewire_http.api.schemas import Count, Id, RequestModel, ResponseModel
from citewire_kit.enums import enum_number

_MOST_DIGITS = 15
"""Number of decimal digits that every double can represent."""

ColumnName = Annotated[
    StrictStr,
    Field(min_length=1, max_length=300, description="Its name in the header, ignoring case.", examples=["Amount"]),
]
PartName = Literal["year", "quarter", "month", "day", "year_month"]
OperatorName = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "empty", "filled"]
FunctionName = Literal["count", "count_distinct", "sum", "avg", "min", "max", "median"]
TypeName = Literal["text", "number", "percent", "currency", "date", "boolean", "unspecified"]


def _exact(value: str | bool | float) -> str | bool | float:
    if isinstance(value, float) and len(Decimal(repr(value)).as_tuple().digits) > _MOST_DIGITS:
        raise ValueError(f"must be a string, because JSON numbers have at most {_MOST_DIGITS} digits")
    return value


FilterValue = Annotated[
    Annotated[StrictStr, Field(max_length=1000)] | StrictBool | StrictInt | StrictFloat, AfterValidator(_exact)
]
Part = Annotated[PartName | None, Field(description="A part of a date; `year_month` is like `2026-03`.")]


def _shown(value: object) -> object:
    if not isinstance(value, table_pb2.TableValue):
        return value
    return value.text if value.HasField("text") else None


AnswerValue = Annotated[str | None, BeforeValidator(_shown)]


class TableFilterBody(RequestModel):
    """A condition on a column."""

    column: ColumnName
    op: OperatorName = Field(
        description="Texts are compared ignoring case, and can't be greater or less. `ne` also holds for empty cells.",
        examples=["ge"],
    )
    values: Annotated[list[FilterValue], Field(max_length=500)] = Field(
        default_factory=list[str | bool | int | float],
        description="One value; up to 500 for `in`, none for `empty` and `filled`. A date like `2026-03-31` means the "
        "whole day; a percentage is `0.15` or `15%`.",
        examples=[["2026-03-31"]],
    )
    part: Part = None

    def to_proto(self) -> table_pb2.TableFilter:
        """Returns it as the retriever's message."""
        return self.to_message(
            table_pb2.TableFilter,
            op=enum_number(table_pb2.TableOperator, self.op),
            values=[_as_text(value) for value in self.values],
            part=_part(self.part),
        )


class TableGroupBody(RequestModel):
    """Groupings of the rows."""

    column: ColumnName
    part: Part = None

    def to_proto(self) -> table_pb2.TableGroup:
        """Returns it as the retriever's message."""
        return self.to_message(table_pb2.TableGroup, part=_part(self.part))


class TableAggregateBody(RequestModel):
    """Aggregates over all rows, or over each group."""

    function: FunctionName = Field(
        description="`sum`, `avg` and `median` of numbers, `min` and `max` of numbers or dates.", examples=["sum"]
    )
    column: ColumnName | None = Field(
        default=None, description="May be absent only for `count`, which then counts rows."
    )

    def to_proto(self) -> table_pb2.TableAggregate:
        """Returns it as the retriever's message."""
        function = enum_number(table_pb2.TableFunction, self.function)
        return self.to_message(table_pb2.TableAggregate, function=function, column=self.column or "")


class TableOrderBody(RequestModel):
    """A sort key of the result; empty values come last."""

    index: Annotated[StrictInt, Field(ge=1, le=1000, description="Column of the answer, from 1.", examples=[2])]
    descending: StrictBool = False


class TableQueryBody(RequestModel):
    """A query over one table of a document."""

    columns: Annotated[list[ColumnName], Field(max_length=100)] = Field(
        default_factory=list[str],
        description="Columns to show, if there are no groups or aggregates; none means all.",
        examples=[[]],
    )
    filters: Annotated[list[TableFilterBody], Field(max_length=50)] = Field(
        default_factory=list[TableFilterBody],
        description="Conditions, all of which must hold.",
        examples=[[{"column": "Date", "part": "year", "op": "eq", "values": [2026]}]],
    )
    group_by: Annotated[list[TableGroupBody], Field(max_length=10)] = Field(
        default_factory=list[TableGroupBody], examples=[[{"column": "Region"}]]
    )
    aggregates: Annotated[list[TableAggregateBody], Field(max_length=20)] = Field(
        default_factory=list[TableAggregateBody],
        description="Per group with `group_by`, else over all rows.",
        examples=[[{"function": "sum", "column": "Amount"}]],
    )
    order_by: Annotated[list[TableOrderBody], Field(max_length=10)] = Field(
        default_factory=list[TableOrderBody],
        description="Default and tie-breaker: the order of the table, or of the groups.",
        examples=[[{"index": 2, "descending": True}]],
    )
    limit: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=100, description="Maximum number of rows in the answer."
    )
    sheet: Annotated[StrictStr, Field(max_length=300)] | None = Field(
        default=None, description="Needed only if tables of several sheets have the columns.", examples=["Sales"]
    )
    header_row: Annotated[StrictInt, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None,
        description="Row of the header; needed only if several tables of a sheet have the columns.",
        examples=[1],
    )
    version: Annotated[StrictInt, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="Absent means the live one.", examples=[1]
    )

    def to_proto(self, document_id: int) -> table_pb2.QueryTableRequest:
        """Returns it as the retriever's message."""
        query = self.to_message(
            table_pb2.TableQuery,
            filters=[each.to_proto() for each in self.filters],
            group_by=[each.to_proto() for each in self.group_by],
            aggregates=[each.to_proto() for each in self.aggregates],
            order_by=[each.to_message(table_pb2.TableOrder) for each in self.order_by],
            sheet=self.sheet or "",
            header_row=self.header_row or 0,
        )
        return table_pb2.QueryTableRequest(document_id=document_id, version=self.version, query=query)


class TableColumn(ResponseModel):
    """A column."""

    name: str = Field(description="Its name in the header, or the aggregate.", examples=["sum of Amount"])
    type: TypeName = Field(description="The type of most of its cells.", examples=["currency"])
    currency: str | MISSING = Field(default=MISSING, description="As the table writes it.", examples=["€"])


class DescribedColumn(TableColumn):
    """A column of a table."""

    samples: list[str] = Field(description="Its most frequent values, at most 5.", examples=[["1234.5", "10"]])
    refusal: str | MISSING = Field(
        default=MISSING,
        description="Why it can't be used.",
        examples=["its amounts are in several currencies: $, €"],
    )


class DocumentTable(ResponseModel):
    """A table of a document."""

    sheet: str | MISSING = Field(default=MISSING, description="Absent if the format has no sheets.", examples=["Sales"])
    header_row: Id = Field(description="Row of the header.", examples=[1])
    last_row: Id = Field(examples=[57])
    row_count: Count = Field(description="Number of data rows.", examples=[56])
    columns: list[DescribedColumn] = Field(description="At most 200.")
    refusal: str | MISSING = Field(
        default=MISSING,
        description="Why it can't be queried.",
        examples=["tables of different lengths stand side by side in it"],
    )


class DocumentTables(ResponseModel):
    """The tables of a version, in its order, at most 200."""

    version: Id = Field(examples=[1])
    tables: list[DocumentTable]


class TableAnswerRow(ResponseModel):
    """A row of an answer."""

    values: list[AnswerValue] = Field(
        description="One per column, exact and formatted by type; null if empty.",
        examples=[["North", "1234.75"]],
    )
    row_numbers: list[Id] = Field(
        description="Rows from which it was computed, at most the first 100.", examples=[[2, 4]]
    )
    row_count: Count = Field(description="Number of rows from which it was computed.", examples=[2])


class TableAnswer(ResponseModel):
    """The result of a query."""

    version: Id = Field(examples=[1])
    sheet: str | MISSING = Field(default=MISSING, description="Absent if the format has no sheets.", examples=["Sales"])
    header_row: Id = Field(examples=[1])
    last_row: Id = Field(examples=[57])
    understood: str = Field(description="The query in words.", examples=["sum of Amount by Region"])
    columns: list[TableColumn]
    rows: list[TableAnswerRow]
    total_rows: Count = Field(description="Number of rows without the limit.", examples=[4])
    excluded_rows: list[Id] = Field(
        description="Rows left out as totals or notes, at most the first 100.", examples=[[58]]
    )
    skipped_values: Count = Field(
        description="Number of values that don't have their column's type and so count as empty.", examples=[0]
    )
    skipped_rows: list[Id] = Field(description="The rows of these values, at most the first 100.", examples=[[]])

    @classmethod
    def from_proto(cls, response: table_pb2.QueryTableResponse) -> "TableAnswer":
        """Reads the retriever's answer."""
        return cls.read(response.answer, version=response.version)


def http_field(field: str) -> str:
    """Returns a query field's name in bodies: `query.filters[0].op` becomes `filters.0.op`."""
    return re.sub(r"\[(\d+)\]", r".\1", field.removeprefix("query."))


def _part(name: PartName | None) -> table_pb2.DatePart:
    return table_pb2.DATE_PART_UNSPECIFIED if name is None else enum_number(table_pb2.DatePart, name)


def _as_text(value: Any) -> str:  # noqa: ANN401 # a text, a number or a boolean
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
