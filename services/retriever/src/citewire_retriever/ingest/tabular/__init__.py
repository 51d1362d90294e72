"""Computing over tables: typed cells, and queries.

All of it runs in a confined process (`citewire_retriever.ingest.confined`), as it reads untrusted files.
"""


class TableQueryError(Exception):
    """A query doesn't fit the document's tables, or they can't be queried."""

    def __init__(self, field: str, message: str) -> None:
        """Takes the invalid field of the query, empty if the table is at fault, and a readable message."""
        super().__init__(message)
        self.field = field
        self.message = message
