"""`citewire table`: lists a document's tables and queries them."""

import re
import sys
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_objects, get_str, get_texts, parse_object
from citewire_cli.settings import load_client_settings

table_app = typer.Typer(help="List a document's tables and query them.", no_args_is_help=True)

_READ_SECONDS: Final = 120.0
"""A long table is read as a whole before the first byte of its answer."""
_OPERATORS: Final = {">=": "ge", "<=": "le", "!=": "ne", "=": "eq", ">": "gt", "<": "lt", "~": "contains"}
_CONDITION: Final = re.compile(r"(.+?)\s*(>=|<=|!=|=|>|<|~)\s*(.*)", re.S)
_PART: Final = re.compile(r"(year|quarter|month|day|year_month)\((.+)\)", re.S)
_SHOWN_ROWS: Final = 12

DocumentArgument = Annotated[int, typer.Argument(metavar="ID", help="The document's id.", show_default=False)]
VersionOption = Annotated[int | None, typer.Option("--version", min=1, help="The version; default: the live one.")]
ColumnsOption = list[str] | None


@table_app.command("list")
@output.async_command
async def list_tables(
    document_id: DocumentArgument, version: VersionOption = None, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """List a document's tables with their columns. Exits with 5 if it has none."""
    params = {} if version is None else {"version": version}
    async with Api(load_client_settings(url=url), read_seconds=_READ_SECONDS) as api:
        answer = await api.call("GET", f"/v1/documents/{document_id}/tables", params=params)
    tables = get_objects(answer, "tables")
    if json:
        output.print_json(answer)
    elif not tables:
        output.stdout().print("No tables.")
    else:
        columns = ("sheet", "header row", "rows", "column", "type", "values")
        output.print_table(columns, (row for table in tables for row in _column_rows(table)))
    return ExitCode.OK if tables else ExitCode.NOT_FOUND


@table_app.command("query")
@output.async_command
async def query(
    document_id: DocumentArgument,
    where: Annotated[
        ColumnsOption,
        typer.Option(
            "--where", "-w", help="A condition: 'Region = North', 'Amount >= 10', 'year(Date) = 2026', 'Name ~ ltd'."
        ),
    ] = None,
    by: Annotated[ColumnsOption, typer.Option("--by", help="Group by a column, or by 'month(Date)'.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Count the rows.")] = False,
    distinct: Annotated[ColumnsOption, typer.Option("--distinct", help="Count a column's distinct values.")] = None,
    total: Annotated[ColumnsOption, typer.Option("--sum", help="Sum a column.")] = None,
    avg: Annotated[ColumnsOption, typer.Option("--avg", help="A column's mean.")] = None,
    least: Annotated[ColumnsOption, typer.Option("--min", help="A column's minimum.")] = None,
    most: Annotated[ColumnsOption, typer.Option("--max", help="A column's maximum.")] = None,
    median: Annotated[ColumnsOption, typer.Option("--median", help="A column's median.")] = None,
    show: Annotated[
        ColumnsOption, typer.Option("--show", help="Show a column of the rows, instead of aggregates.")
    ] = None,
    order: Annotated[
        list[int] | None,
        typer.Option("--order", help="Order by a result column, from 1; -1: descending."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 100,
    sheet: Annotated[str | None, typer.Option("--sheet", help="The sheet, if several have the columns.")] = None,
    header_row: Annotated[int | None, typer.Option("--header-row", min=1, help="The line of the header.")] = None,
    version: VersionOption = None,
    typed: Annotated[
        str | None,
        typer.Option(
            "--query", help="The API's query as JSON, instead of these options; `-` is stdin, `@FILE` a file."
        ),
    ] = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Query a table of a document. Options that take a column may be repeated."""
    computed = {"count_distinct": distinct, "sum": total, "avg": avg, "min": least, "max": most, "median": median}
    aggregates = [
        {"function": name, "column": column} for name, columns in computed.items() for column in columns or ()
    ]
    body: JsonObject = {
        "columns": list(show or ()),
        "filters": [_condition(text) for text in where or ()],
        "group_by": [_column(text) for text in by or ()],
        "aggregates": [*([{"function": "count"}] if count else []), *aggregates],
        "order_by": [{"index": abs(index), "descending": index < 0} for index in order or ()],
        "sheet": sheet,
        "header_row": header_row,
        "version": version,
    }
    body = {key: value for key, value in body.items() if value} | {"limit": limit}
    if typed is not None:
        if len(body) > 1:
            raise CliError(
                "--query can't be combined with other options",
                f"Leave out the options for {', '.join(body)}.",
                ExitCode.USAGE,
            )
        body = _typed_query(typed)
    async with Api(load_client_settings(url=url), read_seconds=_READ_SECONDS) as api:
        answer = await api.call("POST", f"/v1/documents/{document_id}/tables:query", body=body)
    if json:
        output.print_json(answer)
    else:
        _print(answer)
    return ExitCode.OK


def _condition(text: str) -> JsonObject:
    """Parses `Amount >= 10` for the API; nothing after `=` means an empty cell."""
    match = _CONDITION.fullmatch(output.checked_text(text, "A condition").strip())
    if match is None:
        signs = ", ".join(_OPERATORS)
        raise CliError(
            f"Not a condition: {text}", f"Write COLUMN SIGN VALUE, where SIGN is one of {signs}.", ExitCode.USAGE
        )
    name, sign, value = match.groups()
    if not value and sign in {"=", "!="}:
        return _column(name) | {"op": "empty" if sign == "=" else "filled"}
    return _column(name) | {"op": _OPERATORS[sign], "values": [value]}


def _column(text: str) -> JsonObject:
    """`month(Date)`, or a column alone."""
    match = _PART.fullmatch(text.strip())
    return {"column": text.strip()} if match is None else {"column": match[2].strip(), "part": match[1]}


def _typed_query(text: str) -> JsonObject:
    """The query from the argument, the standard input, or a file."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError("The query can't be read", str(error), ExitCode.USAGE) from error
    query = parse_object(text)
    if query is None:
        raise CliError(
            "The query is not a JSON object", 'Write one like {"aggregates": [{"function": "count"}]}.', ExitCode.USAGE
        )
    return query


def _column_rows(table: JsonObject) -> list[tuple[str, ...]]:
    """Prints a table's columns, below its place and notes."""
    place = (get_str(table, "sheet"), get_str(table, "header_row"), get_str(table, "row_count"))
    rows: list[tuple[str, ...]] = []
    for column in get_objects(table, "columns"):
        values = get_str(column, "refusal") or ", ".join(get_texts(column, "samples"))
        kind = " ".join(filter(None, (get_str(column, "type"), get_str(column, "currency"))))
        rows.append((*place, get_str(column, "name"), kind, output.one_line(values, 80)))
        place = ("", "", "")
    if refusal := get_str(table, "refusal"):
        rows.append((*place, "", "not computed", refusal))
    return rows


def _print(answer: JsonObject) -> None:
    """Prints the rows, and below them their origin."""
    console, notes = output.stdout(), output.stderr()
    columns = get_objects(answer, "columns")
    names = [" ".join(filter(None, (get_str(each, "name"), get_str(each, "currency")))) for each in columns]
    rows = get_objects(answer, "rows")
    if rows:
        output.print_table((*names, "rows"), (_answer_row(row) for row in rows))
    else:
        console.print("No rows match.")
    total = get_int(answer, "total_rows") or 0
    if total > len(rows):
        notes.print(f"The first {len(rows)} of {total}.")
    notes.print(f"Computed: {output.one_line(get_str(answer, 'understood'), 1000)}.")
    if excluded := cast("list[object]", answer.get("excluded_rows") or []):
        notes.print(f"Left out as totals or notes: row {', '.join(map(str, excluded))}.")
    if skipped := get_int(answer, "skipped_values"):
        notes.print(f"Values that don't fit their column, and count as empty: {skipped}.")


def _answer_row(row: JsonObject) -> tuple[str, ...]:
    values = cast("list[object]", row.get("values") or [])
    numbers = cast("list[object]", row.get("row_numbers") or [])
    shown = ", ".join(map(str, numbers[:_SHOWN_ROWS]))
    count = get_int(row, "row_count") or 0
    more = f" and {count - min(len(numbers), _SHOWN_ROWS)} more" if count > min(len(numbers), _SHOWN_ROWS) else ""
    return (*("" if value is None else str(value) for value in values), f"{shown}{more}")
