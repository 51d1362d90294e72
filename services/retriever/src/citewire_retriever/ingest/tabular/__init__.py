"""Tables that are computed with: what their cells hold, and queries over them.

All of it runs in a confined process (`citewire_retriever.ingest.confined`), as it reads what strangers send.
"""


class TableQueryError(Exception):
    """A query doesn't fit the document's tables, or they can't be computed with."""

    def __init__(self, field: str, message: str) -> None:
        """Takes the query's field that is wrong, empty if it is the table's fault, and a sentence for people."""
        super().__init__(message)
        self.field = field
        self.message = message
