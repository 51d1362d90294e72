"""Tables of a file: the same under which its rows are searched, with all cell values."""

from mmap import mmap

from citewire_retriever.ingest.detect import HEAD_BYTES, detect
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.collector import Collector
from citewire_retriever.ingest.tabular.readers import READERS, Source, refusal_of
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.totals import Verdict


def read_tables(
    data: bytes | mmap, file_name: str, media_type: str, limits: ParseLimits, used: frozenset[str] | None
) -> list[Table]:
    """The tables of a file.

    Args:
        data: The whole file.
        file_name: For its suffix.
        media_type: Its detected media type.
        limits: Limits on reading.
        used: Folded names of the columns to keep; None for all.

    Raises:
        IngestError: The file can't be read.
        TableQueryError: Its format isn't supported, or a table is too large.
    """
    detected = detect(data[:HEAD_BYTES], file_name, media_type)
    if detected.format not in READERS:
        raise TableQueryError("", refusal_of(detected.format))
    source = Source(data, detected, limits)
    tables = _collect(source, used)
    if not any(table.candidates for table in tables):
        return tables
    if used is None:
        for table in tables:
            table.settle_totals()
    else:
        _settle_by_all_columns(source, tables)
    return tables


def _settle_by_all_columns(source: Source, tables: list[Table]) -> None:
    """Decides which rows are totals, for tables with only some columns' cells, by reading all columns."""
    try:
        whole = _collect(source, None)
    except TableQueryError:  # too many cells: the candidates stay undecided
        whole = []
    for index, table in enumerate(tables):
        if whole:
            whole[index].settle_totals()
            table.take(whole[index].verdicts)
        else:
            table.take([Verdict.UNDECIDED] * len(table.candidates))


def _collect(source: Source, used: frozenset[str] | None) -> list[Table]:
    tables: list[Table] = []
    for source_rows in READERS[source.detected.format](source):
        collector = Collector(source_rows.name, used, by_lines=source_rows.by_lines)
        source_rows.feed(collector)
        for table in collector.finish():
            table.refusal = source_rows.refusal or table.refusal
            table.is_sheet = source_rows.is_sheet
            tables.append(table)
    return tables
