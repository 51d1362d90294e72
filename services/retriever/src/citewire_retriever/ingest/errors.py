"""Why a document can't be ingested: a closed set of codes, each with a text for the person who uploaded it.

The codes are those that ``citewire.retriever.v1.IngestError`` documents. They are final: trying again with the same
bytes gives the same answer. What may pass by itself (a lost database, a busy embedder) is never an ``IngestError``.
"""

from enum import StrEnum
from typing import Final

HOW_TO_HAVE_IT: Final = (
    "The file holds no text, only images. Where Tesseract is installed beside the worker (on Debian: apt-get install "
    "tesseract-ocr), its text is recognised; else run text recognition (OCR) on it first."
)


class IngestCode(StrEnum):
    """The codes, as they are stored with a failed version and shown to clients."""

    EMPTY = "EMPTY"
    """No byte, or nothing but white space."""
    CORRUPT = "CORRUPT"
    """Not a whole file of the format that it claims to be; also a file that crashes the parser."""
    PASSWORD_REQUIRED = "PASSWORD_REQUIRED"  # noqa: S105 - an error code, not a password
    """Encrypted, and the empty password doesn't open it."""
    NO_TEXT = "NO_TEXT"
    """A valid file without text, such as a scan."""
    UNSUPPORTED_FORMAT = "UNSUPPORTED_FORMAT"
    """A format that isn't read, or binary content under a text file's name."""
    TOO_LARGE = "TOO_LARGE"
    """More text, pages, rows or memory than the limits allow."""
    TIMEOUT = "TIMEOUT"
    """Reading took longer than the limit."""
    PROVIDER = "PROVIDER"
    """The embedding provider can't be used: none is configured where an own one is demanded, or it refused."""
    INTERNAL = "INTERNAL"
    """Every attempt failed for a reason of ours."""


class IngestError(Exception):
    """A permanent failure of one version."""

    def __init__(self, code: IngestCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """What is wrong, for programs."""
        self.message = message
        """What is wrong and what would be right, for people; never driver or library text."""

    def __reduce__(self) -> tuple[type["IngestError"], tuple[IngestCode, str]]:
        """Pickle by the constructor's arguments: exceptions otherwise replay ``args``, which hold the joined text."""
        return (type(self), (self.code, self.message))
