"""Why a document can't be ingested: a closed set of codes, each with a text for the person who uploaded it.

The codes are those that ``citewire.retriever.v1.IngestError`` documents. They are final: trying again with the same
bytes gives the same answer. What may pass by itself (a lost database, a busy embedder) is never an ``IngestError``.
"""

from enum import StrEnum
from typing import Final

HOW_TO_HAVE_IT: Final = (
    "The file contains no text, only images. If Tesseract is installed with the worker (on Debian: apt-get install "
    "tesseract-ocr), its text is recognised; otherwise run text recognition (OCR) on it first."
)


ONLY_IMAGES: Final = (
    "The file contains no text, only images, and images in files of this format aren't read: save it as a PDF and "
    "upload that. If Tesseract is installed with the worker (on Debian: apt-get install tesseract-ocr), the PDF's text "
    "is recognised."
)
"""For documents other than PDFs."""


class IngestCode(StrEnum):
    """The codes, as they are stored with a failed version and shown to clients."""

    EMPTY = "EMPTY"
    """Empty, or only white space."""
    CORRUPT = "CORRUPT"
    """Not a complete file of its format; also a file that crashes the parser."""
    PASSWORD_REQUIRED = "PASSWORD_REQUIRED"  # noqa: S105 - an error code, not a password
    """Encrypted, and the empty password doesn't open it."""
    NO_TEXT = "NO_TEXT"
    """A valid file without text, such as a scan."""
    UNSUPPORTED_FORMAT = "UNSUPPORTED_FORMAT"
    """An unsupported format, or binary content with a text file's name."""
    TOO_LARGE = "TOO_LARGE"
    """More text, pages, rows or memory than the limits allow."""
    TIMEOUT = "TIMEOUT"
    """Reading took longer than the limit."""
    PROVIDER = "PROVIDER"
    """The embedding provider can't be used: an own one is required but not configured, or it rejected the request."""
    INTERNAL = "INTERNAL"
    """All attempts failed because of an internal error."""


class IngestError(Exception):
    """A permanent failure of one version."""

    def __init__(self, code: IngestCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """The error, for programs."""
        self.message = message
        """The error and how to fix it, for users; never driver or library text."""

    def __reduce__(self) -> tuple[type["IngestError"], tuple[IngestCode, str]]:
        """Pickles by the constructor's arguments: exceptions otherwise use ``args``, which have the joined text."""
        return (type(self), (self.code, self.message))
