"""Bytes to text: the encoding is found, never asked for."""

import codecs
import re
import unicodedata
from mmap import mmap

from charset_normalizer import from_bytes

from citewire_retriever.ingest.encodings import codec_of, guess_single_byte, guess_wide
from citewire_retriever.ingest.errors import IngestCode, IngestError

_BOMS: tuple[tuple[bytes, str], ...] = (
    # UTF-32's little-endian mark starts with UTF-16's, so it is checked first.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 65_536
_PIECE = 1024 * 1024
_GUESSED = 16_384
_HEAD = 1_024
# Declarations of XML, HTML and editors near a file's beginning, such as `encoding="koi8-r"` or `coding: latin-1`.
_DECLARED = re.compile(rb"""(?:encoding|charset|coding)\s{0,4}[=:]\s{0,4}["']?([\w.:-]{2,40})""", re.I)
_ISO_2022_JP = re.compile(rb"\x1b\$(?:[@B]|\(D)")
_STRAY = re.compile(r"[\udc80-\udcff]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_STRAYS_SHARE = 4
_WESTERN = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
"""Bytes that aren't UTF-8, as read by `surrogateescape`."""
# Codecs of names and literals. No file uses them, and some take very long.
_NO_CHARSETS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"})
# Control characters without a use in text files, which excludes tab, LF, FF and CR.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_CONTROLS = re.compile(f"{_CONTROL.pattern}+")
_MAX_CONTROL_SHARE = 0.01
_FOREIGN = re.compile(r"\b[^\W\d_\x00-\x7f]{2,}\b")
"""Matches a word without a letter of ASCII. Languages in Latin letters have hardly any."""
_INSIDE_WORDS = "\u2019\u00ad\u2013\u2014\u00b7"  # apostrophe, hyphens, dashes, the Catalan dot
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]{0,30}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\))")
"""Escape sequences for colours of a terminal, in logs."""


def decode(data: bytes, *, what: str = "file") -> str:
    """Decodes a text file: byte order mark, UTF-8, UTF-16 by its zero bytes, else a single-byte encoding by content.

    Args:
        data: The whole file.
        what: The name for the error's text.

    Returns:
        Text as `clean` leaves it.

    Raises:
        IngestError: UNSUPPORTED_FORMAT if the bytes aren't text.
    """
    text = _decode_raw(data)
    if text is None or _is_binary(text):
        raise IngestError(
            IngestCode.UNSUPPORTED_FORMAT,
            f"The {what} contains binary data, not text in a known encoding: save it as UTF-8 text.",
        )
    return clean(text)


def in_utf8(data: bytes) -> bytes | None:
    """A text file's bytes in UTF-8, without a byte order mark; None if it has none and isn't UTF-16 either."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            is_wide = encoding != "utf-8-sig"
            return data.decode(encoding, "replace").encode() if is_wide else data.removeprefix(mark)
    wide = _utf16_without_mark(data)
    return data.decode(wide, "replace").encode() if wide is not None else None


def is_utf8(data: bytes | mmap) -> bool:
    """Whether a text file is certainly UTF-8 according to `decode`, without having all of it in memory."""
    head = data[:_SAMPLE]
    if any(head.startswith(mark) for mark, name in _BOMS if name != "utf-8-sig") or b"\0" in head:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):
            text = decoder.decode(data[start : start + _PIECE])
            if not start and (_ISO_2022_JP.search(head) or _is_binary(text)):
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def decode_as(data: bytes, encoding: str) -> str | None:
    """Decodes text with a declared encoding; None if that is unknown, or the bytes aren't text in it."""
    name = codec_of(encoding)
    if name is None or name in _NO_CHARSETS:
        return None
    # Many programs write UTF-8 and declare the most common encoding, whose texts are hardly ever valid UTF-8.
    for each in ("utf-8", name) if name == "cp1252" else (name,):
        try:
            text = data.decode(each)
        except (LookupError, ValueError):  # including codecs that aren't for text
            continue
        return None if _is_binary(text) else clean(text)
    return None


def clean(text: str) -> str:
    """Makes text storable: LF as line end; no byte order mark, no control characters (NUL), no lone surrogates."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.removeprefix("\ufeff")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = _CONTROLS.sub("", text)
    return _SURROGATE.sub("\ufffd", text)


def clean_units(text: str) -> str:
    """Like `clean`, for text put together from UTF-16 units: pairs of surrogates are combined."""
    return clean(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _decode_raw(data: bytes) -> str | None:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                break
    if _ISO_2022_JP.search(data, 0, _SAMPLE):
        try:
            return data.decode("iso2022_jp_2")
        except UnicodeDecodeError:
            pass
    wide = _utf16_without_mark(data)
    if wide is not None:
        try:
            return data.decode(wide)
        except UnicodeDecodeError:
            return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_single_byte(data)


def _utf16_without_mark(data: bytes) -> str | None:
    """UTF-16 text in a mostly Latin script has a zero in every second byte, and few in between.

    In other scripts only its spaces, line ends and digits have one.
    """
    sample = data[: _SAMPLE & ~1]
    if len(sample) < 4 or len(data) % 2 or b"\0" not in sample:
        return None
    half = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return guess_wide(sample)


def _decode_single_byte(data: bytes) -> str | None:
    if b"\0" in data[:_SAMPLE]:
        return None
    if (mixed := _mostly_utf8(data)) is not None:
        return mixed
    declared = _DECLARED.search(data, 0, _HEAD)
    if declared is not None and (text := decode_as(data, declared.group(1).decode())) is not None:
        return text
    if (guess := guess_single_byte(data[:_GUESSED])) is not None:
        return data.decode(guess, errors="replace")
    western = data.decode("cp1252", errors="replace")
    if _looks_western(western[:_SAMPLE]):
        return western
    best = from_bytes(data[:_SAMPLE]).best()
    if best is None:
        return western
    return data.decode(best.encoding, errors="replace")


def _mostly_utf8(data: bytes) -> str | None:
    """UTF-8 text into which lines in the most common other encoding were pasted."""
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_STRAY.findall(text))
    beyond = len(_BEYOND_ASCII.findall(text)) - strays
    return text.translate(_WESTERN) if beyond >= _STRAYS_SHARE * strays else None


def _looks_western(text: str) -> bool:
    """Whether cp1252 gives plausible words.

    A guess from few bytes is worse than the most common encoding. Other encodings show as words with only accented
    letters (Cyrillic, Greek, also among markup in ASCII) or signs in the middle of words (Central European).
    """
    letters = accented = odd = 0
    for before, char, after in zip(" " + text, text, text[1:] + " ", strict=False):
        if not char.isascii():
            category = unicodedata.category(char)
            if category[0] == "L":
                accented += 1
            elif char == "\ufffd" or (before.isalpha() and after.isalpha() and char not in _INSIDE_WORDS):
                odd += 1
        if char.isalpha():
            letters += 1
    foreign = sum(map(len, _FOREIGN.findall(text)))
    is_latin = accented <= 0.3 * max(letters, 1) and foreign <= 0.5 * max(accented, 9)
    return is_latin and odd <= 0.1 * max(accented, 9)


def _is_binary(text: str) -> bool:
    sample = _ESCAPES.sub("", text[:_SAMPLE])
    return len(_CONTROL.findall(sample)) > _MAX_CONTROL_SHARE * max(len(sample), 100)
