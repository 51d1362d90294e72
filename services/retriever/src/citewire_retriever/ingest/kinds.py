"""The kinds of files that are read, source code apart: a row for each, with what tells it from the others."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from citewire_retriever.ingest.document import Format


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file."""

    name: str
    """Its name in messages, which several kinds may share."""
    format: Format
    """The parser for it."""
    media_types: tuple[str, ...]
    """Media types: the first is the document's; clients may also send one of the others."""
    suffixes: tuple[str, ...]
    """Suffixes of file names, in lower case."""
    may_be_html: bool = True
    """Whether a file with such a name that starts like an HTML page is one."""
    member: bytes = b""
    """Prefix of a part's name that only such a ZIP package has; packages with a media type need none."""


_OOXML: Final = "application/vnd.openxmlformats-officedocument"
_ODF: Final = "application/vnd.oasis.opendocument"
PDF: Final = Kind("PDF", Format.PDF, ("application/pdf",), (".pdf",))
RTF: Final = Kind("RTF", Format.RTF, ("application/rtf", "text/rtf"), (".rtf",), may_be_html=False)
XLS: Final = Kind(
    "old Excel (XLS)", Format.OLD_WORKBOOK, ("application/vnd.ms-excel",), (".xls", ".xlt"), may_be_html=False
)
HAS_XLS: Final = find_spec("python_calamine") is not None
"""Whether old workbooks are supported here, by an optional package: `pip install 'citewire-retriever[xls]'`."""
HTML: Final = Kind("HTML", Format.HTML, ("text/html", "application/xhtml+xml"), (".html", ".htm", ".xhtml"))
MAIL: Final = Kind("e-mails (EML, MSG)", Format.MAIL, ("message/rfc822",), (".eml",))
OUTLOOK: Final = Kind("e-mails (EML, MSG)", Format.MAIL, ("application/vnd.ms-outlook",), (".msg",), may_be_html=False)
WEB_ARCHIVE: Final = Kind(
    "saved web pages (MHT)", Format.MAIL, ("application/x-mimearchive", "multipart/related"), (".mht", ".mhtml")
)
_CARDS: Final = "contacts and calendars (VCF, ICS)"
CONTACTS: Final = Kind(_CARDS, Format.CARDS, ("text/vcard", "text/x-vcard", "text/directory"), (".vcf", ".vcard"))
CALENDAR: Final = Kind(_CARDS, Format.CARDS, ("text/calendar",), (".ics", ".ical", ".ifb"))
TEXT: Final = Kind(
    "plain text", Format.TEXT, ("text/plain",),
    (".txt", ".text", ".log", ".tex", ".conf", ".properties", ".diff", ".patch"),
)  # fmt: skip
_ARCHIVES: Final = "archives (ZIP, TAR, GZ, BZ2, XZ)"
MAILBOX: Final = Kind("mailboxes (MBOX)", Format.ARCHIVE, ("application/mbox",), (".mbox",))
ZIP: Final = Kind(_ARCHIVES, Format.ARCHIVE, ("application/zip", "application/x-zip-compressed"), (".zip",))
_IMAGES: Final = "images (PNG, JPEG, TIFF, WebP)"
PNG: Final = Kind(_IMAGES, Format.IMAGE, ("image/png",), (".png",))
JPEG: Final = Kind(_IMAGES, Format.IMAGE, ("image/jpeg",), (".jpg", ".jpeg"))
TIFF: Final = Kind(_IMAGES, Format.IMAGE, ("image/tiff",), (".tif", ".tiff"))
WEBP: Final = Kind(_IMAGES, Format.IMAGE, ("image/webp",), (".webp",))
TAR: Final = Kind(_ARCHIVES, Format.ARCHIVE, ("application/x-tar",), (".tar",))
GZIP: Final = Kind(_ARCHIVES, Format.ARCHIVE, ("application/gzip", "application/x-gzip"), (".gz", ".tgz"))
BZIP2: Final = Kind(_ARCHIVES, Format.ARCHIVE, ("application/x-bzip2",), (".bz2", ".tbz2"))
XZ: Final = Kind(_ARCHIVES, Format.ARCHIVE, ("application/x-xz",), (".xz", ".txz"))
KINDS: Final = (
    PDF,
    Kind("Markdown", Format.MARKDOWN, ("text/markdown", "text/x-markdown"),
         (".md", ".markdown", ".mdown", ".mkd", ".mdx")),
    HTML,
    Kind("CSV and TSV", Format.SHEET, ("text/csv",), (".csv", ".psv"), may_be_html=False),
    Kind("CSV and TSV", Format.SHEET, ("text/tab-separated-values",), (".tsv", ".tab"), may_be_html=False),
    Kind("Word (DOCX)", Format.DOCX, (f"{_OOXML}.wordprocessingml.document",), (".docx", ".docm", ".dotx", ".dotm"),
         member=b"word/"),
    Kind("Excel (XLSX)", Format.WORKBOOK, (f"{_OOXML}.spreadsheetml.sheet",), (".xlsx", ".xlsm", ".xltx", ".xltm"),
         member=b"xl/"),
    Kind("PowerPoint (PPTX)", Format.SLIDES, (f"{_OOXML}.presentationml.presentation",),
         (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), member=b"ppt/"),
    Kind("Jupyter notebooks", Format.NOTEBOOK, ("application/x-ipynb+json",), (".ipynb",)),
    MAIL,
    OUTLOOK,
    WEB_ARCHIVE,
    Kind("JSON", Format.DATA, ("application/json", "text/json"), (".json", ".geojson")),
    Kind("JSON", Format.DATA, ("application/jsonl", "application/x-ndjson"), (".jsonl", ".ndjson")),
    Kind("YAML", Format.DATA, ("application/yaml", "application/x-yaml", "text/yaml"), (".yaml", ".yml")),
    Kind("XML", Format.DATA, ("application/xml", "text/xml", "image/svg+xml"), (".xml", ".svg")),
    Kind("reStructuredText", Format.MARKUP, ("text/x-rst",), (".rst", ".rest")),
    Kind("AsciiDoc", Format.MARKUP, ("text/asciidoc", "text/x-asciidoc"), (".adoc", ".asciidoc", ".asc")),
    Kind("Org", Format.MARKUP, ("text/org", "text/x-org"), (".org",)),
    Kind("TOML", Format.CONFIGURATION, ("application/toml", "text/x-toml"), (".toml",)),
    Kind("INI", Format.CONFIGURATION, ("text/x-ini",), (".ini", ".cfg")),
    Kind("subtitles", Format.SUBTITLES, ("application/x-subrip",), (".srt",)),
    Kind("subtitles", Format.SUBTITLES, ("text/vtt",), (".vtt",)),
    Kind("OpenDocument (ODT, ODS, ODP)", Format.OPEN_TEXT, (f"{_ODF}.text", f"{_ODF}.text-template"),
         (".odt", ".ott")),
    Kind("OpenDocument (ODT, ODS, ODP)", Format.OPEN_WORKBOOK, (f"{_ODF}.spreadsheet", f"{_ODF}.spreadsheet-template"),
         (".ods", ".ots")),
    Kind("OpenDocument (ODT, ODS, ODP)", Format.OPEN_SLIDES, (f"{_ODF}.presentation", f"{_ODF}.presentation-template"),
         (".odp", ".otp")),
    Kind("EPUB", Format.EBOOK, ("application/epub+zip",), (".epub",)),
    RTF,
    ZIP,
    TAR,
    GZIP,
    BZIP2,
    XZ,
    MAILBOX,
    PNG,
    JPEG,
    TIFF,
    WEBP,
    CONTACTS,
    CALENDAR,
    *((XLS,) if HAS_XLS else ()),
    TEXT,
)  # fmt: skip
"""In the order used in messages."""

SUPPORTED: Final = f"{', '.join(dict.fromkeys(kind.name for kind in KINDS))}, source code"
"""All kinds, for messages."""

PACKAGES: Final = frozenset(
    {
        Format.DOCX,
        Format.WORKBOOK,
        Format.SLIDES,
        Format.OPEN_TEXT,
        Format.OPEN_WORKBOOK,
        Format.OPEN_SLIDES,
        Format.EBOOK,
    }
)
"""Formats of files that are ZIP archives."""

_BY_NAME: Final = [kind for kind in KINDS if kind is not XLS]  # files named so are often HTML pages or text tables
BY_SUFFIX: Final = {suffix: kind for kind in _BY_NAME for suffix in kind.suffixes}
BY_MEDIA_TYPE: Final = {media_type: kind for kind in _BY_NAME for media_type in kind.media_types}
