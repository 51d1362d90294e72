"""Detects a file's format: by its content first, by its name and media type if the content is ambiguous."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from struct import Struct

from citewire_retriever.ingest.decode import in_utf8
from citewire_retriever.ingest.document import Format
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.kinds import (
    BY_MEDIA_TYPE,
    BY_SUFFIX,
    BZIP2,
    CALENDAR,
    CONTACTS,
    GZIP,
    HAS_XLS,
    HTML,
    JPEG,
    KINDS,
    MAIL,
    MAILBOX,
    OUTLOOK,
    PACKAGES,
    PDF,
    PNG,
    RTF,
    TAR,
    TEXT,
    TIFF,
    WEB_ARCHIVE,
    WEBP,
    XLS,
    XZ,
    ZIP,
    Kind,
)
from citewire_retriever.ingest.unread import OLE, refuse_binary, refuse_noise, refuse_package

HEAD_BYTES = 65_536
"""How much of a file is used to detect its format."""
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MESSAGE_STREAM = "__properties_version1.0".encode("utf-16-le")
_OLD_OFFICE = {
    ".doc": ("an old Word document", ".docx"), ".dot": ("an old Word document", ".docx"),
    ".xls": ("an old Excel workbook", ".xlsx"), ".xlt": ("an old Excel workbook", ".xlsx"),
    ".ppt": ("an old PowerPoint presentation", ".pptx"), ".pps": ("an old PowerPoint presentation", ".pptx"),
}  # fmt: skip
_OLE_STREAMS = {"WordDocument": ".doc", "Workbook": ".xls", "PowerPoint Document": ".ppt"}
"""Names of streams that identify an OLE file's kind; current Office versions only write such files for encryption."""
_OLDEST_EXCEL = (b"\x09\x00\x04\x00", b"\x09\x02\x06\x00", b"\x09\x04\x06\x00")
"""The first record of workbooks of Excel 2 to 4, which aren't OLE files."""
LANGUAGES = {
    "python": (".py", ".pyi", ".pyw"),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "go": (".go",),
    "java": (".java",),
    "rust": (".rs",),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"),
    "csharp": (".cs",),
    "ruby": (".rb",),
    "php": (".php",),
    "bash": (".sh", ".bash"),
    # Without a grammar: cut by indentation.
    "kotlin": (".kt", ".kts"),
    "swift": (".swift",),
    "scala": (".scala",),
    "lua": (".lua",),
    "perl": (".pl", ".pm"),
    "r": (".r",),
    "sql": (".sql",),
    "protobuf": (".proto",),
    "dart": (".dart",),
    "elixir": (".ex", ".exs"),
    "haskell": (".hs",),
    "zig": (".zig",),
    "css": (".css", ".scss", ".less"),
    "vue": (".vue", ".svelte"),
}
_SUFFIX_LANGUAGE = {suffix: language for language, suffixes in LANGUAGES.items() for suffix in suffixes}
_FILE_LANGUAGE = {"dockerfile": "docker", "makefile": "make", "rakefile": "ruby", "gemfile": "ruby"}
_SHEBANG = re.compile(rb"#!\s*\S*?/(?:env\s+(?:-S\s+)?)?(python|node|bash|sh|ruby|php|perl)[\d.]*\s")
_SHEBANG_LANGUAGE = {b"python": "python", b"node": "javascript", b"bash": "bash", b"sh": "bash", b"ruby": "ruby",
                     b"php": "php", b"perl": "perl"}  # fmt: skip
_MEDIA_LANGUAGE = {
    "text/x-python": "python", "application/x-python-code": "python", "text/javascript": "javascript",
    "application/javascript": "javascript", "text/typescript": "typescript", "text/x-go": "go", "text/x-java": "java",
    "text/x-java-source": "java", "text/rust": "rust", "text/x-rust": "rust", "text/x-c": "c", "text/x-csrc": "c",
    "text/x-c++src": "cpp", "application/x-sh": "bash", "text/x-shellscript": "bash", "text/x-ruby": "ruby",
    "application/x-php": "php",
}  # fmt: skip
_ZIP = b"PK\x03\x04"
_ARCHIVES = ((_ZIP, ZIP), (b"\x1f\x8b\x08", GZIP), (b"BZh", BZIP2), (b"\xfd7zXZ\x00", XZ))
_IMAGES = ((b"\x89PNG\r\n\x1a\n", PNG), (b"\xff\xd8\xff", JPEG), (b"II*\x00", TIFF), (b"MM\x00*", TIFF))
_WEBP = re.compile(rb"RIFF.{4}WEBP", re.S)
_TAR_MARK = slice(257, 262)
_MEMBER = Struct("<6x H 10x I 4x HH")
"""A member's header in a ZIP archive: flags, compressed size, lengths of its name and of what follows the name."""
_SIZE_FOLLOWS = 0x8
_LONG_SIZE = 0xFFFFFFFF
_DESCRIPTORS = ((12, 4), (16, 4), (20, 8), (24, 8))
"""Lengths of what may follow a member, and of the two sizes at its end."""
_STATED = re.compile(rb"PK\x03\x04.{26}mimetype(application/[a-z0-9.+-]{1,99}?)(?=PK|[^a-z0-9.+-])", re.S)
"""The media type at the beginning of OpenDocument files and EPUBs."""
_CARDS = re.compile(rb"\s{0,100}BEGIN:(VCARD|VCALENDAR)\s", re.I)
_MAILBOX = re.compile(rb"From \S{1,300} [^\r\n]{0,40}\d\d:\d\d[^\r\n]{0,40}\r?\n[A-Za-z][\w-]{0,60}:")
_HEADER = re.compile(rb"([A-Za-z][\w-]{0,60}):\s*([^\r\n]{0,60})")
_MOST_HEADERS = 16_384
_MAIL_HEADERS = frozenset({b"received", b"message-id", b"mime-version"})
_XML = re.compile(rb"\s{0,100}<\?xml\s")
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?>(?:<!--.{0,2000}?-->\s*)*)<(?:!doctype\s+html|html)[\s>]",
    re.I | re.S,
)


@dataclass(frozen=True, slots=True)
class Detected:
    """A file's detected format."""

    format: Format
    """The parser to use."""
    media_type: str
    """The media type by content and name, regardless of the client's."""
    language: str = ""
    """Programming language of source code; empty otherwise."""


def detect(head: bytes, file_name: str, media_type: str = "") -> Detected:
    """Finds a file's format.

    Args:
        head: Its first 64 KiB, or all of it if it is shorter.
        file_name: Its name; empty for text that wasn't a file.
        media_type: The client's; only used if content and name aren't conclusive.

    Raises:
        IngestError: EMPTY, CORRUPT (named as a PDF or package and isn't one), PASSWORD_REQUIRED, UNSUPPORTED_FORMAT.
    """
    if not head:
        raise IngestError(IngestCode.EMPTY, "The file is empty.")
    name = PurePosixPath(file_name.replace("\\", "/")).name.lower()
    suffix = PurePosixPath(name).suffix
    if b"%PDF-" in head[:1024]:
        return _detected(PDF)
    if head.startswith(b"{\\rtf"):
        return _detected(RTF)
    package = _package(head, suffix, media_type) or _by_magic(head)
    if package is not None:
        return _detected(package)
    _refuse_binary(head)
    text = in_utf8(head) or head
    cards = _CARDS.match(text)
    if cards is not None:
        return _detected(CONTACTS if cards[1].lower() == b"vcard" else CALENDAR)
    if _MAILBOX.match(head):
        return _detected(MAILBOX)
    if suffix == ".pdf":
        raise IngestError(IngestCode.CORRUPT, "The file is named .pdf but isn't a PDF.")
    if suffix == ".rtf":
        raise IngestError(IngestCode.CORRUPT, "The file is named .rtf but isn't RTF.")
    message = _message(text)
    if suffix in OUTLOOK.suffixes:
        if message is not None:
            return _detected(message)
        raise IngestError(IngestCode.CORRUPT, "The file is named .msg but isn't an Outlook message.")
    by_name = BY_SUFFIX.get(suffix)
    language = _SUFFIX_LANGUAGE.get(suffix) or _FILE_LANGUAGE.get(name)
    refuse_noise(head, is_named=by_name is not None or language is not None)
    if language is not None:
        return _code(language)
    if (by_name is None or by_name.may_be_html) and _HTML_START.match(text):
        return _detected(HTML)
    if by_name is TEXT and message is not None and b"mime-version" in text[:_MOST_HEADERS].lower():
        return _detected(message)  # whose parts may be encoded
    if by_name is not None:
        return _detected(by_name)
    if suffix in XLS.suffixes and b"\t" in text.partition(b"\n")[0]:
        return _detected(BY_SUFFIX[".tsv"])  # many programs name these like workbooks
    if _XML.match(text):
        return _detected(BY_SUFFIX[".xml"])
    if message is not None:
        return _detected(message)
    return _by_media_type(text, media_type.partition(";")[0].strip().lower())


def _package(head: bytes, suffix: str, media_type: str) -> Kind | None:
    """The kind of a ZIP package: by its parts, or else by its name if nothing contradicts it."""
    named = BY_SUFFIX.get(suffix) or BY_MEDIA_TYPE.get(media_type.partition(";")[0].strip().lower())
    if named is not None and named.format not in PACKAGES:
        named = None
    if head.startswith(OLE):
        if suffix in OUTLOOK.suffixes or _MESSAGE_STREAM in head:
            return OUTLOOK
        if HAS_XLS and _is_xls(head, suffix):
            return XLS
        _refuse_ole(head, suffix, named)
    if not head.startswith(_ZIP):
        if named is not None and suffix in named.suffixes:
            raise IngestError(IngestCode.CORRUPT, f"The file is named {suffix} but isn't one: save or export it again.")
        return None
    stated = _STATED.match(head)
    says = stated.group(1).decode() if stated is not None else ""
    kind = BY_MEDIA_TYPE.get(says)
    if kind is not None and kind.format in PACKAGES:
        return kind
    names = _members(head)
    refuse_package(names, says)
    for kind in KINDS:
        if kind.member and any(name.startswith(kind.member) for name in names):
            return kind
    return named


def _members(head: bytes) -> list[bytes]:
    """Names of an archive's members, without those of archives that are stored in it, as in slides with charts."""
    names: list[bytes] = []
    at = 0
    while 0 <= at <= len(head) - _MEMBER.size:
        flags, size, name, more = _MEMBER.unpack_from(head, at)
        start = at + _MEMBER.size
        names.append(head[start : start + name])
        data = start + name + more
        if flags & _SIZE_FOLLOWS and not size and not names[-1].endswith(b"/"):
            at = _after_descriptor(head, data)
        else:
            at = head.find(_ZIP, data if size == _LONG_SIZE else data + size)
    return names


def _after_descriptor(head: bytes, data: int) -> int:
    """The next member, after one whose size is written behind it; negative if its end isn't in the head."""
    at = head.find(_ZIP, data)
    while at >= 0:
        for length, width in _DESCRIPTORS:
            if int.from_bytes(head[at - 2 * width : at - width], "little") == at - length - data:
                return at
        at = head.find(_ZIP, at + 1)
    return at


def _by_magic(head: bytes) -> Kind | None:
    """The kind of an archive or an image."""
    if head[_TAR_MARK] == b"ustar":
        return TAR
    if _WEBP.match(head):
        return WEBP
    return next((each for magic, each in (*_ARCHIVES, *_IMAGES) if head.startswith(magic)), None)


def _message(head: bytes) -> Kind | None:
    """An e-mail or a saved web page, if a file begins with the header of one."""
    headers: dict[bytes, bytes] = {}
    for line in re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0].splitlines():
        header = _HEADER.match(line)
        if header is not None:
            headers[header.group(1).lower()] = header.group(2).lower()
        elif not line.startswith((b" ", b"\t")):
            return None
    if b"from" in headers and headers.keys() & _MAIL_HEADERS:
        return MAIL
    is_page = b"mime-version" in headers and headers.get(b"content-type", b"").startswith(b"multipart/related")
    return WEB_ARCHIVE if is_page else None


def _is_xls(head: bytes, suffix: str) -> bool:
    """Whether an OLE file is an old workbook, unencrypted and not part of another kind of document."""
    streams = [old for name, old in _OLE_STREAMS.items() if name.encode("utf-16-le") in head]
    if _ENCRYPTED in head or (streams and ".xls" not in streams):
        return False
    return suffix in XLS.suffixes or (bool(streams) and suffix not in _OLD_OFFICE and ".doc" not in streams)


def _refuse_ole(head: bytes, suffix: str, named: Kind | None) -> None:
    """Returns the error for an old Office document, or for a newer one with a password."""
    stream = next((old for name, old in _OLE_STREAMS.items() if name.encode("utf-16-le") in head), None)
    if stream is None and (named is not None or _ENCRYPTED in head):
        raise IngestError(
            IngestCode.PASSWORD_REQUIRED,
            "The document is protected by a password: save it without one and upload it again.",
        )
    old = _OLD_OFFICE.get(suffix) or _OLD_OFFICE.get(stream or "")
    if old is not None:
        kind, newer = old
        raise IngestError(IngestCode.UNSUPPORTED_FORMAT, _how_to_convert(kind, newer))


def _how_to_convert(kind: str, newer: str) -> str:
    command = f"soffice --headless --convert-to {newer.removeprefix('.')} FILE"
    return f"The file is {kind}: save it as {newer} or PDF and upload that. LibreOffice does so with `{command}`."


def _refuse_binary(head: bytes) -> None:
    if head.startswith(_OLDEST_EXCEL):
        kind = "a workbook from before Excel 5"
        raise IngestError(IngestCode.UNSUPPORTED_FORMAT, _how_to_convert(kind, ".xlsx"))
    refuse_binary(head)


def _by_media_type(head: bytes, media_type: str) -> Detected:
    """For an inconclusive name: the client's media type, then a shebang line, else plain text."""
    if media_type == "application/pdf":
        raise IngestError(IngestCode.CORRUPT, "The file was sent as a PDF but isn't one.")
    if media_type in _MEDIA_LANGUAGE:
        return _code(_MEDIA_LANGUAGE[media_type])
    shebang = _SHEBANG.match(head[:200])
    if shebang:
        return _code(_SHEBANG_LANGUAGE[shebang.group(1)])
    return _detected(BY_MEDIA_TYPE.get(media_type, TEXT))


def _code(language: str) -> Detected:
    return Detected(Format.CODE, f"text/x-{language}", language)


def _detected(kind: Kind) -> Detected:
    return Detected(kind.format, kind.media_types[0])
