from citewire.common.v1 import place_pb2 as _place_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DatePart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATE_PART_UNSPECIFIED: _ClassVar[DatePart]
    DATE_PART_YEAR: _ClassVar[DatePart]
    DATE_PART_QUARTER: _ClassVar[DatePart]
    DATE_PART_MONTH: _ClassVar[DatePart]
    DATE_PART_DAY: _ClassVar[DatePart]
    DATE_PART_YEAR_MONTH: _ClassVar[DatePart]

class TableOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TABLE_OPERATOR_UNSPECIFIED: _ClassVar[TableOperator]
    TABLE_OPERATOR_EQ: _ClassVar[TableOperator]
    TABLE_OPERATOR_NE: _ClassVar[TableOperator]
    TABLE_OPERATOR_LT: _ClassVar[TableOperator]
    TABLE_OPERATOR_LE: _ClassVar[TableOperator]
    TABLE_OPERATOR_GT: _ClassVar[TableOperator]
    TABLE_OPERATOR_GE: _ClassVar[TableOperator]
    TABLE_OPERATOR_IN: _ClassVar[TableOperator]
    TABLE_OPERATOR_CONTAINS: _ClassVar[TableOperator]
    TABLE_OPERATOR_EMPTY: _ClassVar[TableOperator]
    TABLE_OPERATOR_FILLED: _ClassVar[TableOperator]

class TableFunction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TABLE_FUNCTION_UNSPECIFIED: _ClassVar[TableFunction]
    TABLE_FUNCTION_COUNT: _ClassVar[TableFunction]
    TABLE_FUNCTION_COUNT_DISTINCT: _ClassVar[TableFunction]
    TABLE_FUNCTION_SUM: _ClassVar[TableFunction]
    TABLE_FUNCTION_AVG: _ClassVar[TableFunction]
    TABLE_FUNCTION_MIN: _ClassVar[TableFunction]
    TABLE_FUNCTION_MAX: _ClassVar[TableFunction]
    TABLE_FUNCTION_MEDIAN: _ClassVar[TableFunction]

class TableType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TABLE_TYPE_UNSPECIFIED: _ClassVar[TableType]
    TABLE_TYPE_TEXT: _ClassVar[TableType]
    TABLE_TYPE_NUMBER: _ClassVar[TableType]
    TABLE_TYPE_PERCENT: _ClassVar[TableType]
    TABLE_TYPE_CURRENCY: _ClassVar[TableType]
    TABLE_TYPE_DATE: _ClassVar[TableType]
    TABLE_TYPE_BOOLEAN: _ClassVar[TableType]
DATE_PART_UNSPECIFIED: DatePart
DATE_PART_YEAR: DatePart
DATE_PART_QUARTER: DatePart
DATE_PART_MONTH: DatePart
DATE_PART_DAY: DatePart
DATE_PART_YEAR_MONTH: DatePart
TABLE_OPERATOR_UNSPECIFIED: TableOperator
TABLE_OPERATOR_EQ: TableOperator
TABLE_OPERATOR_NE: TableOperator
TABLE_OPERATOR_LT: TableOperator
TABLE_OPERATOR_LE: TableOperator
TABLE_OPERATOR_GT: TableOperator
TABLE_OPERATOR_GE: TableOperator
TABLE_OPERATOR_IN: TableOperator
TABLE_OPERATOR_CONTAINS: TableOperator
TABLE_OPERATOR_EMPTY: TableOperator
TABLE_OPERATOR_FILLED: TableOperator
TABLE_FUNCTION_UNSPECIFIED: TableFunction
TABLE_FUNCTION_COUNT: TableFunction
TABLE_FUNCTION_COUNT_DISTINCT: TableFunction
TABLE_FUNCTION_SUM: TableFunction
TABLE_FUNCTION_AVG: TableFunction
TABLE_FUNCTION_MIN: TableFunction
TABLE_FUNCTION_MAX: TableFunction
TABLE_FUNCTION_MEDIAN: TableFunction
TABLE_TYPE_UNSPECIFIED: TableType
TABLE_TYPE_TEXT: TableType
TABLE_TYPE_NUMBER: TableType
TABLE_TYPE_PERCENT: TableType
TABLE_TYPE_CURRENCY: TableType
TABLE_TYPE_DATE: TableType
TABLE_TYPE_BOOLEAN: TableType

class TableQuery(_message.Message):
    __slots__ = ("columns", "filters", "group_by", "aggregates", "order_by", "limit", "sheet", "header_row")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    HEADER_ROW_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedScalarFieldContainer[str]
    filters: _containers.RepeatedCompositeFieldContainer[TableFilter]
    group_by: _containers.RepeatedCompositeFieldContainer[TableGroup]
    aggregates: _containers.RepeatedCompositeFieldContainer[TableAggregate]
    order_by: _containers.RepeatedCompositeFieldContainer[TableOrder]
    limit: int
    sheet: str
    header_row: int
    def __init__(self, columns: _Optional[_Iterable[str]] = ..., filters: _Optional[_Iterable[_Union[TableFilter, _Mapping]]] = ..., group_by: _Optional[_Iterable[_Union[TableGroup, _Mapping]]] = ..., aggregates: _Optional[_Iterable[_Union[TableAggregate, _Mapping]]] = ..., order_by: _Optional[_Iterable[_Union[TableOrder, _Mapping]]] = ..., limit: _Optional[int] = ..., sheet: _Optional[str] = ..., header_row: _Optional[int] = ...) -> None: ...

class TableFilter(_message.Message):
    __slots__ = ("column", "op", "values", "part")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    column: str
    op: TableOperator
    values: _containers.RepeatedScalarFieldContainer[str]
    part: DatePart
    def __init__(self, column: _Optional[str] = ..., op: _Optional[_Union[TableOperator, str]] = ..., values: _Optional[_Iterable[str]] = ..., part: _Optional[_Union[DatePart, str]] = ...) -> None: ...

class TableGroup(_message.Message):
    __slots__ = ("column", "part")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    column: str
    part: DatePart
    def __init__(self, column: _Optional[str] = ..., part: _Optional[_Union[DatePart, str]] = ...) -> None: ...

class TableAggregate(_message.Message):
    __slots__ = ("function", "column")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    function: TableFunction
    column: str
    def __init__(self, function: _Optional[_Union[TableFunction, str]] = ..., column: _Optional[str] = ...) -> None: ...

class TableOrder(_message.Message):
    __slots__ = ("index", "descending")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    index: int
    descending: bool
    def __init__(self, index: _Optional[int] = ..., descending: _Optional[bool] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("document_id", "version")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    version: int
    def __init__(self, document_id: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("version", "tables")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    version: int
    tables: _containers.RepeatedCompositeFieldContainer[Table]
    def __init__(self, version: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[Table, _Mapping]]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("sheet", "header_row", "last_row", "row_count", "columns", "refusal")
    SHEET_FIELD_NUMBER: _ClassVar[int]
    HEADER_ROW_FIELD_NUMBER: _ClassVar[int]
    LAST_ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    sheet: str
    header_row: int
    last_row: int
    row_count: int
    columns: _containers.RepeatedCompositeFieldContainer[TableColumn]
    refusal: str
    def __init__(self, sheet: _Optional[str] = ..., header_row: _Optional[int] = ..., last_row: _Optional[int] = ..., row_count: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[TableColumn, _Mapping]]] = ..., refusal: _Optional[str] = ...) -> None: ...

class QueryTableRequest(_message.Message):
    __slots__ = ("document_id", "version", "query")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    version: int
    query: TableQuery
    def __init__(self, document_id: _Optional[int] = ..., version: _Optional[int] = ..., query: _Optional[_Union[TableQuery, _Mapping]] = ...) -> None: ...

class QueryTableResponse(_message.Message):
    __slots__ = ("version", "answer")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    version: int
    answer: TableAnswer
    def __init__(self, version: _Optional[int] = ..., answer: _Optional[_Union[TableAnswer, _Mapping]] = ...) -> None: ...

class TableColumn(_message.Message):
    __slots__ = ("name", "type", "samples", "currency", "refusal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: TableType
    samples: _containers.RepeatedScalarFieldContainer[str]
    currency: str
    refusal: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[TableType, str]] = ..., samples: _Optional[_Iterable[str]] = ..., currency: _Optional[str] = ..., refusal: _Optional[str] = ...) -> None: ...

class TableValue(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class TableAnswerRow(_message.Message):
    __slots__ = ("values", "row_numbers", "row_count")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    ROW_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[TableValue]
    row_numbers: _containers.RepeatedScalarFieldContainer[int]
    row_count: int
    def __init__(self, values: _Optional[_Iterable[_Union[TableValue, _Mapping]]] = ..., row_numbers: _Optional[_Iterable[int]] = ..., row_count: _Optional[int] = ...) -> None: ...

class TableAnswer(_message.Message):
    __slots__ = ("sheet", "header_row", "last_row", "columns", "rows", "total_rows", "understood", "excluded_rows", "skipped_values", "skipped_rows")
    SHEET_FIELD_NUMBER: _ClassVar[int]
    HEADER_ROW_FIELD_NUMBER: _ClassVar[int]
    LAST_ROW_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_ROWS_FIELD_NUMBER: _ClassVar[int]
    UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_ROWS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_VALUES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ROWS_FIELD_NUMBER: _ClassVar[int]
    sheet: str
    header_row: int
    last_row: int
    columns: _containers.RepeatedCompositeFieldContainer[TableColumn]
    rows: _containers.RepeatedCompositeFieldContainer[TableAnswerRow]
    total_rows: int
    understood: str
    excluded_rows: _containers.RepeatedScalarFieldContainer[int]
    skipped_values: int
    skipped_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sheet: _Optional[str] = ..., header_row: _Optional[int] = ..., last_row: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[TableColumn, _Mapping]]] = ..., rows: _Optional[_Iterable[_Union[TableAnswerRow, _Mapping]]] = ..., total_rows: _Optional[int] = ..., understood: _Optional[str] = ..., excluded_rows: _Optional[_Iterable[int]] = ..., skipped_values: _Optional[int] = ..., skipped_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class AnswerFromTablesRequest(_message.Message):
    __slots__ = ("question", "document_ids", "time_zone", "describe", "query")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    question: str
    document_ids: _containers.RepeatedScalarFieldContainer[int]
    time_zone: str
    describe: bool
    query: TableQuery
    def __init__(self, question: _Optional[str] = ..., document_ids: _Optional[_Iterable[int]] = ..., time_zone: _Optional[str] = ..., describe: _Optional[bool] = ..., query: _Optional[_Union[TableQuery, _Mapping]] = ...) -> None: ...

class TableInReach(_message.Message):
    __slots__ = ("document_id", "file_name", "table")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    file_name: str
    table: Table
    def __init__(self, document_id: _Optional[int] = ..., file_name: _Optional[str] = ..., table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class AnswerFromTablesResponse(_message.Message):
    __slots__ = ("computed", "tables")
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    computed: ComputedAnswer
    tables: _containers.RepeatedCompositeFieldContainer[TableInReach]
    def __init__(self, computed: _Optional[_Union[ComputedAnswer, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[TableInReach, _Mapping]]] = ...) -> None: ...

class ComputedAnswer(_message.Message):
    __slots__ = ("document_id", "version", "query", "answer", "text", "place")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    document_id: int
    version: int
    query: TableQuery
    answer: TableAnswer
    text: str
    place: _place_pb2.Place
    def __init__(self, document_id: _Optional[int] = ..., version: _Optional[int] = ..., query: _Optional[_Union[TableQuery, _Mapping]] = ..., answer: _Optional[_Union[TableAnswer, _Mapping]] = ..., text: _Optional[str] = ..., place: _Optional[_Union[_place_pb2.Place, _Mapping]] = ...) -> None: ...
