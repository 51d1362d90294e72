"""Characters of Microsoft's symbol fonts, whose texts contain the fonts' codes instead of characters.

Symbol is complete, by Adobe's table; of Wingdings and Webdings, those that mean something without their looks.
"""

from typing import Final

_SYMBOL: Final = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
)
"""From 0x20 to 0x7E, and from 0xA0 to 0xFE."""
_WINGDINGS: Final = {
    0x21: "✏", 0x22: "✂", 0x28: "☎", 0x29: "✆", 0x2A: "✉", 0x36: "⌛", 0x3F: "✍", 0x45: "☜", 0x46: "☞", 0x47: "☝",
    0x48: "☟", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "☐", 0x71: "❑", 0x72: "❒", 0x73: "◆",
    0x74: "◆", 0x75: "◆", 0x76: "❖", 0x77: "◆", 0x78: "☒", 0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "☐",
    0xAB: "★", 0xB7: "•", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE7: "←", 0xE8: "➔", 0xE9: "↑",
    0xEA: "↓", 0xEF: "⇦", 0xF0: "⇨", 0xF1: "⇧", 0xF2: "⇩", 0xF3: "⇔", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    **{0x80 + number: chr(0x245F + number) for number in range(1, 11)},  # ①
    **{0x8B + number: chr(0x2775 + number) for number in range(1, 11)},  # ❶
}  # fmt: skip
_FONTS: Final[dict[str, dict[int, str]]] = {
    "symbol": {
        first + place: each
        for first, each_range in zip((0x20, 0xA0), _SYMBOL, strict=True)
        for place, each in enumerate(each_range)
    },
    "wingdings": _WINGDINGS,
    "wingdings 2": {
        0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0x95: "•", 0x96: "●", 0x97: "●", 0x98: "●",
        0xA2: "■", 0xA3: "☐",
    },
    "wingdings 3": {
        0x66: "←", 0x67: "→", 0x68: "↑", 0x69: "↓", 0x70: "▲", 0x71: "▼", 0x74: "◀", 0x75: "▶", 0x7D: "▶", 0x84: "◀",
    },
    "webdings": {
        0x33: "◀", 0x34: "▶", 0x35: "▲", 0x36: "▼", 0x61: "✓", 0x63: "☐", 0x67: "■", 0x69: "ℹ", 0x6E: "●", 0x72: "✗",
    },
}  # fmt: skip
_PRIVATE: Final = 0xF000
_SPACE: Final = 0x20


def is_symbol_font(font: str) -> bool:
    """Whether a font's texts contain its codes."""
    return font.casefold() in _FONTS


def in_font(font: str, text: str, *, only_private: bool = False) -> str:
    """The characters that a text in a symbol font shows; a text in any other font is as it is.

    Args:
        font: The font's name.
        text: Its codes, as they are or in the private area from U+F000; what isn't known there is left out.
        only_private: Whether only those in the private area are codes.
    """
    characters = _FONTS.get(font.casefold())
    if characters is None:
        return text
    return "".join(_character(characters, each, only_private=only_private) for each in text)


def _character(characters: dict[int, str], each: str, *, only_private: bool) -> str:
    code = ord(each)
    if _PRIVATE <= code <= _PRIVATE + 0xFF:
        code -= _PRIVATE
        return " " if code == _SPACE else characters.get(code, "")
    return each if only_private or each.isspace() else characters.get(code, each)
