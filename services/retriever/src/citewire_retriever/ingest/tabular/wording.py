"""Queries and answers in words, in the languages of `tables/words.toml`."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import table_pb2 as pb

from citewire_kit.enums import enum_text
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.values import fold
from citewire_retriever.tables.vocabulary import answer_words

_MOST_SHOWN: Final = 50
_SMALLEST: Final = Decimal("0.000001")
_EXACT: Final = Context(prec=100)
_NUMBERS: Final = frozenset({pb.TABLE_TYPE_NUMBER, pb.TABLE_TYPE_PERCENT, pb.TABLE_TYPE_CURRENCY})
_SIGNS: Final = {
    pb.TABLE_OPERATOR_EQ: "=",
    pb.TABLE_OPERATOR_NE: "<>",
    pb.TABLE_OPERATOR_LT: "<",
    pb.TABLE_OPERATOR_LE: "<=",
    pb.TABLE_OPERATOR_GT: ">",
    pb.TABLE_OPERATOR_GE: ">=",
}


class Wording:
    """Writes in one language."""

    def __init__(self, language: str = "en") -> None:
        self._words: Mapping[str, str] = answer_words(language)

    def part(self, part: pb.DatePart, name: str) -> str:
        """A column, or a part of its dates."""
        return self._say(enum_text(pb.DatePart, part), name) if part else name

    def aggregate(self, function: pb.TableFunction, name: str) -> str:
        """The computation over a column or, without a name, over the rows."""
        if not name:
            return self._words["count"]
        return self._say(
            "count_of" if function == pb.TABLE_FUNCTION_COUNT else enum_text(pb.TableFunction, function), name
        )

    def query(self, query: pb.TableQuery, table: Table) -> str:
        """A query of a table, without the table."""
        names = {fold(name): name for name in table.names.values()}
        groups = [self.part(each.part, names[fold(each.column)]) for each in query.group_by]
        computed = [self.aggregate(each.function, names.get(fold(each.column), "")) for each in query.aggregates]
        if groups or computed:
            shown = computed or [self._words["groups"]]
        else:
            shown = [names[fold(name)] for name in query.columns] or list(table.names.values())[:100]
        text = ", ".join(shown)
        text = self._say("by", text, ", ".join(groups)) if groups else text
        filters = [self._filter(each, self.part(each.part, names[fold(each.column)])) for each in query.filters]
        text = self._say("where", text, self._words["and"].join(filters)) if filters else text
        outputs = [*groups, *computed] if groups or computed else shown
        order = [
            self._say("descending", outputs[each.index - 1]) if each.descending else outputs[each.index - 1]
            for each in query.order_by
        ]
        return self._say("ordered", text, ", ".join(order)) if order else text

    def answer(  # the parts of an answer
        self, question: str, query: pb.TableQuery, table: Table, result: pb.TableAnswer, place: Place, file_name: str
    ) -> str:
        """`Sum of Amount, where Region = North: 12.5 €.`, or one group per line, followed by the rows used.

        A question is given if the query covers all of its words, so that an answer in its words is supported. Without
        one, a model has filled in the query, and the text says so.
        """
        where = file_name
        if table.sheet:
            where = self._say("sheet" if table.is_sheet else "part", table.sheet, file_name)
        asked = " ".join(question.split())
        origin = self._say("computed" if asked else "computed_by_model", asked, self._rows(query, result, place, where))
        head = self.query(query, table)
        return "\n".join([*self._shown(head[:1].upper() + head[1:], query, result), origin, *self._notes(result)])

    def _filter(self, each: pb.TableFilter, name: str) -> str:
        sign = _SIGNS.get(each.op) or self._words[enum_text(pb.TableOperator, each.op)]
        return " ".join([name, sign, *([", ".join(each.values)] if each.values else [])])

    def _shown(self, head: str, query: pb.TableQuery, result: pb.TableAnswer) -> list[str]:
        count = sum(row.row_count for row in result.rows)
        if len(result.rows) == 1 and (count or result.rows[0].values[0].HasField("text")):
            return [f"{head}: {self._values(result.columns, result.rows[0])}."]
        if not count:
            return [f"{head}: {self._words['no_rows']}."]
        shown = result.rows[:_MOST_SHOWN]
        lines = [f"{head}:", *(f"- {self._values(result.columns, row)}" for row in shown)]
        if result.total_rows > len(shown) and not query.limit:
            lines.append(self._say("first_of", str(len(shown)), str(result.total_rows)))
        return lines

    def _rows(self, query: pb.TableQuery, result: pb.TableAnswer, place: Place, where: str) -> str:
        """`rows 2–57 of Sales.csv`, or how many of these."""
        noun = "line" if place.HasField("start_line") else "row"
        first, last = (place.start_line, place.end_line) if noun == "line" else (place.row, place.end_row)
        if (last or first) == first:
            return self._say(noun, str(first), where)
        count = sum(row.row_count for row in result.rows)
        whole = query.limit or last - first + 1 == count
        return self._say(f"{noun}s" if whole else f"some_{noun}s", f"{first}–{last}", where, str(count))

    def _notes(self, result: pb.TableAnswer) -> list[str]:
        """Notes on rows and values left out."""
        lines: list[str] = []
        if result.excluded_rows:
            rows = ", ".join(self._say("excluded_row", str(row)) for row in result.excluded_rows)
            lines.append(self._say("excluded", rows))
        if result.skipped_values:
            lines.append(self._say("skipped", str(result.skipped_values)))
        return lines

    def _values(self, columns: Sequence[pb.TableColumn], row: pb.TableAnswerRow) -> str:
        texts = [self._value(column, value) for column, value in zip(columns, row.values, strict=True)]
        return f"{', '.join(texts[:-1])}: {texts[-1]}" if len(texts) > 1 else texts[0]

    def _value(self, column: pb.TableColumn, value: pb.TableValue) -> str:
        """A readable value; a mean has at most six decimal places."""
        if not value.HasField("text"):
            return self._words["none"]
        if column.type not in _NUMBERS:
            return value.text
        number = Decimal(value.text)
        if column.type == pb.TABLE_TYPE_PERCENT:
            number = number.scaleb(2, _EXACT)
        short = number.quantize(_SMALLEST, ROUND_HALF_EVEN, _EXACT)
        sign = "%" if column.type == pb.TABLE_TYPE_PERCENT else f" {column.currency}" if column.currency else ""
        text = f"{short.normalize(_EXACT):f}".replace(".", self._words["decimal"]) + sign
        return text if short == number else self._say("about", text)

    def _say(self, name: str, *texts: str) -> str:
        return self._words[name].format(*texts)
