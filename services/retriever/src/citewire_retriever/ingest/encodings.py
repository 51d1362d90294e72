"""Encodings of texts that don't name theirs, where general detection is often wrong: by letters and scripts.

Which letters a language adds to ASCII, and how frequent letters are, tells more about a short text than bytes do.
"""

import codecs
import re
import unicodedata
from collections import Counter
from typing import Final

_WIDER: Final = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
"""Encodings that programs mean by the name of a narrower one, as in the WHATWG's Encoding Standard."""
_SIGNS: Final = frozenset("„“”‚‘’»«–—…€§°©®·•´\u00a0¿¡ºª")
_MEASURES: Final = re.compile(
    r"(?<![^\W\d])(?:[£¥±] ?(?=\d)|[¼½¾](?![^\W\d])|µ(?=[A-Za-z]{1,3}\b))|(?<=\d)¢(?!\w)|(?<=[\d ])[×÷](?=[\d ])"
    r"|(?:(?<=[\d/]m)|(?<=[\d/] m)|(?<=[\d/][cdkm]m)|(?<=[\d/] [cdkm]m))[²³](?!\w)"
)
"""Matches signs of prices and measures, used as such: their bytes are letters in other encodings."""
_LATIN: Final = (
    ("cp1252", "äöüßÄÖÜé"),
    ("cp1252", "àâæçéèêëîïôùûüÿœÀÂÇÉÈÊËÎÏÔÙÛ"),
    ("cp1252", "áéíñóúüÁÉÍÑÓÚ"),
    ("cp1252", "àáâãçéêíóôõúÀÁÂÃÇÉÊÍÓÔÕÚ"),
    ("cp1252", "àèéìíòóùÀÈÉÌÒÙ"),
    ("cp1252", "åäöæøéÅÄÖÆØ"),
    ("cp1252", "áðéíóúýþæöÁÐÉÍÓÚÝÞÆÖ"),
    ("cp1254", "çğıöşüâîûÇĞİÖŞÜ"),
    ("cp1250", "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ"),
    ("iso8859-2", "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ"),
    ("cp1250", "áčďéěíňóřšťúůýžÁČĎÉĚÍŇÓŘŠŤÚŮÝŽ"),
    ("iso8859-2", "áčďéěíňóřšťúůýžÁČĎÉĚÍŇÓŘŠŤÚŮÝŽ"),
    ("cp1250", "áéíóöőúüűÁÉÍÓÖŐÚÜŰ"),
    ("iso8859-2", "áéíóöőúüűÁÉÍÓÖŐÚÜŰ"),
    ("cp1250", "ăâîşţĂÂÎŞŢ"),
    ("cp1250", "čćđšžČĆĐŠŽ"),
    ("iso8859-2", "čćđšžČĆĐŠŽ"),
    ("cp1257", "ąčęėįšųūžĄČĘĖĮŠŲŪŽ"),
    ("cp1257", "āčēģīķļņšūžĀČĒĢĪĶĻŅŠŪŽ"),
    ("cp850", "äöüßÄÖÜé"),
    ("cp850", "àâæçéèêëîïôùûüÿÀÂÇÉÈÊËÎÏÔÙÛ"),
    ("cp850", "áéíñóúüÁÉÍÑÓÚ"),
    ("cp850", "åäöæøéÅÄÖÆØ"),
)
"""Encodings, with the letters that a language adds to ASCII; of equals, the first wins."""
_LOOKED_AT: Final = 2000
_CYRILLIC: Final = ("cp1251", "koi8-u", "cp866", "iso8859-5")
_FREQUENT: Final = frozenset("оеаинтсрвл")
_LEAST_FREQUENT: Final = 0.5
"""Share of the frequent letters: in seven languages' first article of human rights 0.51 to 0.74; in Greek, Hebrew,
Arabic and Thai ones, read as Cyrillic, at most 0.45."""
_MOST_ACCENTED: Final = 0.45
"""Share of letters beyond ASCII in a Latin text."""
_LEAST_KNOWN: Final = 0.97
_WIDE: Final = ("utf-16-le", "utf-16-be")
_PRINTED: Final = frozenset(b"\t\r\n" + bytes(range(0x20, 0x7F)))
_MOST_PRINTED: Final = 0.85
"""Share of ASCII bytes above which a text with some zeros isn't UTF-16, although it could be read as Chinese."""
_LEAST_OF_SCRIPT: Final = 0.9
"""Share of a text's characters in its two most frequent scripts, or ASCII. Read in the wrong byte order, a text has
characters of many scripts."""


def codec_of(label: str) -> str | None:
    """The codec for a declared encoding, the wider one where its name is used for two; None if it is unknown."""
    label = label.strip().lower()
    # Such as x-sjis, windows-874 and, for Hebrew in the order in which it is read, iso-8859-8-i.
    for name in (label, label.removeprefix("x-"), label.replace("windows-", "cp"), re.sub(r"-[ie]\Z", "", label)):
        try:
            codec = codecs.lookup(name).name
        except (LookupError, ValueError):
            continue
        return _WIDER.get(codec, codec)
    return None


def guess_wide(sample: bytes) -> str | None:
    """The byte order of UTF-16 without a mark, in which a text with zero bytes is mostly in one script."""
    if sum(byte in _PRINTED for byte in sample) > _MOST_PRINTED * len(sample):
        return None
    best, share = max(((name, _of_one_script(sample, name)) for name in _WIDE), key=lambda each: each[1])
    return best if share >= _LEAST_OF_SCRIPT else None


def guess_single_byte(sample: bytes) -> str | None:
    """The encoding of a text in a Latin or Cyrillic script; None if it isn't certain."""
    high = sum(byte > 127 for byte in sample)
    letters = high + sum(chr(byte).isalpha() for byte in sample if byte < 128)
    if not high:
        return None
    if high <= _MOST_ACCENTED * letters:
        best, share = max(((name, _known(sample, name, known)) for name, known in _LATIN), key=lambda each: each[1])
        if share >= _LEAST_KNOWN:
            return best
    best, share = max(((name, _frequent(sample, name)) for name in _CYRILLIC), key=lambda each: each[1])
    return best if share >= _LEAST_FREQUENT else None


def _of_one_script(sample: bytes, encoding: str) -> float:
    try:
        text = sample[: len(sample) & ~1].decode(encoding)
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:  # otherwise a pair that is cut by the end of the sample
            return 0.0
        text = sample[: error.start].decode(encoding)
    scripts = Counter(map(_script, text))
    if not text or any(unicodedata.category(char) in {"Cn", "Co"} for char in text[:_LOOKED_AT]):
        return 0.0
    ascii_signs = scripts.pop(0, 0)
    return (ascii_signs + sum(count for _, count in scripts.most_common(2))) / len(text) if ascii_signs else 0.0


def _script(char: str) -> int:
    """Its block of 256 characters; one number for ASCII, one for Han with kana and their signs, one for Hangul."""
    code = ord(char)
    if code < 0x80:
        return 0 if code >= 0x20 or char in "\t\n\r\f" else -1 - code
    if 0x3000 <= code < 0xA000 or code >= 0xFF00:
        return 0x30
    return 0xAC if 0xAC00 <= code < 0xD7B0 else code >> 8


def _known(sample: bytes, encoding: str, letters: str) -> float:
    """Share of the characters beyond ASCII that belong to a language."""
    text = _MEASURES.sub("€", sample.decode(encoding, "replace"))
    beyond = [char for char in text if not char.isascii()]
    return sum(char in letters or char in _SIGNS for char in beyond) / len(beyond)


def _frequent(sample: bytes, encoding: str) -> float:
    """Share of the letters beyond ASCII that are among Cyrillic's most frequent, in lower case."""
    text = sample.decode(encoding, "replace")
    beyond = [char for char in text if not char.isascii() and unicodedata.category(char)[0] in "LCS"]
    return sum(char in _FREQUENT for char in beyond) / len(beyond) if beyond else 0.0
