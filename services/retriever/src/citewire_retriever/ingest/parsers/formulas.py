"""Formulas of Office documents as text on one line: ``(a + b)/c``, ``x^2``, ``√(x)``.

Names of elements are those of Office's mathematics (ECMA-376 part 1, chapter 22). A formula is put together from the
inside out in one walk, so its depth costs no stack. While that lasts, control characters, which XML can't contain, mark
where spaces may be needed.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from citewire_retriever.ingest.parsers.lxml_facade import Element, walk
from citewire_retriever.ingest.parsers.package import attribute, local

FORMULAS: Final = frozenset({"oMath", "oMathPara"})
"""Elements that contain a formula or several."""
_LEFT_OUT: Final = frozenset({"del", "moveFrom", "delText", "instrText", "Fallback", "ctrlPr"})
_HIDDEN: Final = frozenset({"0", "off", "false"})
_SIGN: Final = "\x01"
"""Stands before an operator."""
_EDGE: Final = "\x02"
"""Stands at an end of something that its neighbour would change, like a fraction after a digit; two of them, if an
opening bracket would, too.
"""
_OPERATORS: Final = re.compile(r"[-+−±∓×÷=≠≈≡≅≃∼∝<>≤≥≪≫→←↔⇒⇐⇔↦∈∉∋⊂⊃⊆⊇∪∩∧∨⊕⊗≔∗]")
_SIGNS: Final = frozenset("-+−±∓")
"""Those that may stand before one operand."""
_INVISIBLE: Final = re.compile("[\u2061-\u2064\u200b]")
_ATOM: Final = re.compile(rf"(?:{_SIGN}[-+−±])?(?:\d+(?:\.\d+)?%?|[^\W\d_]+[′″‴]*|[^\w\s]|[√∛∜]?\(\))")
"""What needs no brackets as a script; like the next ones, without what is in its own brackets."""
_FACTOR: Final = re.compile(rf"{_ATOM.pattern}(?:[_^]{_ATOM.pattern}){{0,4}}")
_PRIMES: Final = re.compile("[′″‴°†‡'*]+")
_OPEN, _CLOSE = "([{⟨⌈⌊", ")]}⟩⌉⌋"
_TIGHT: Final = frozenset(f"{_CLOSE} \n,.;:!?%|′″‴°*")
"""Characters that stand close to what is before them."""
_PIECES: Final = re.compile(f"({_SIGN}.|{_EDGE}+)", re.S)
_ENDS: Final = frozenset(f"{_CLOSE}!%′″‴°")
"""Characters that, like letters and digits, end an operand."""
_LONGEST: Final = 500
"""Longer parts get brackets without a look at what is in them."""
_MOST_MARKED: Final = 50
_SYMBOLS: Final = re.compile("[\U0001d400-\U0001d7ff\u210e]+")
"""Letters in the styles of formulas, such as italics."""
_ABOVE, _BELOW = "\u0305", "\u0332"
_ROOTS: Final = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_INTEGRAL: Final = "∫"
_ARROWS: Final = frozenset("←→↔⇐⇒⇔⇄⇌")


@dataclass(slots=True)
class _Part:
    """An element whose end hasn't come yet."""

    name: str
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The texts of its children that say anything, or may be empty, by name."""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    """The values in its properties."""

    def of(self, name: str) -> str:
        return next((text for each, text in self.texts if each == name), "")

    def all(self, name: str) -> list[str]:
        return [text for each, text in self.texts if each == name]


def formula_text(formula: Element, read: Callable[[Element], str]) -> str:
    """A formula on one line.

    Args:
        formula: The element with the formula.
        read: Gives the text of an element within a run, apart from those below it.
    """
    stack = [_Part("")]
    events = walk(formula)
    for event, each in events:
        name = local(each.tag)
        if event == "end":
            if name.endswith("Pr") and name not in _LEFT_OUT:
                settings = stack.pop().settings
                stack[-1].settings.update(settings)
            elif name not in _LEFT_OUT:
                part = stack.pop()
                stack[-1].texts.append((name, _WRITERS.get(name, _sequence)(part, stack)))
        elif name in _LEFT_OUT:
            events.skip_subtree()
        else:
            stack[-1].settings.setdefault(name, attribute(each, "val", "1"))
            stack.append(_Part(name))
            text = read(each)
            if text:
                stack[-1].texts.append(("", text))
    return _finished(stack[0].of(local(formula.tag)))


def _sequence(part: _Part, _stack: list[_Part]) -> str:
    return "".join(text for _, text in part.texts)


def _run(part: _Part, stack: list[_Part]) -> str:
    text = _INVISIBLE.sub("", _sequence(part, stack))
    text = _SYMBOLS.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    if any(each.name == "eqArr" for each in stack[-3:]):
        text = text.replace("&", "").replace("#", " ")  # the places where lines are aligned, and an equation's number
    return text if "nor" in part.settings else _OPERATORS.sub(rf"{_SIGN}\g<0>", text)


def _fraction(part: _Part, stack: list[_Part]) -> str:
    above, below = part.of("num"), part.of("den")
    if part.settings.get("type") == "noBar":
        return f"{_bare(above)}{' choose ' if _is_delimited(stack) else '; '}{_bare(below)}"
    return f"{_EDGE}{_base(above, signed=True)}/{_wrapped(below, _FACTOR)}{_EDGE}{_EDGE}"


def _root(part: _Part, _stack: list[_Part]) -> str:
    degree = "" if part.settings.get("degHide", "0") not in _HIDDEN else _bare(part.of("deg"))
    if degree in _ROOTS:
        return f"{_ROOTS[degree]}({_bare(part.of('e'))})"
    return f"({_bare(part.of('e'))})^(1/{_wrapped(degree)}){_EDGE}"


def _scripted(part: _Part, _stack: list[_Part]) -> str:
    base = part.of("e")
    return f"{_base(base)}{_scripts(part)}{_EDGE}"


def _scripted_before(part: _Part, _stack: list[_Part]) -> str:
    return f"{_EDGE}{_scripts(part)} {part.of('e')}{_EDGE}"


def _scripts(part: _Part) -> str:
    below, above = part.of("sub"), part.of("sup")
    text = f"_{_wrapped(below)}" if _bare(below) else ""
    if _PRIMES.fullmatch(_bare(above)):
        return _bare(above) + text
    return text + (f"^{_wrapped(above)}" if _bare(above) else "")


def _n_ary(part: _Part, _stack: list[_Part]) -> str:
    return f"{_EDGE}{part.settings.get('chr', _INTEGRAL)}{_scripts(part)} {part.of('e')}{_EDGE}"


def _function(part: _Part, _stack: list[_Part]) -> str:
    name, text = _bare(part.of("fName")), _bare(part.of("e"))
    if name.endswith(")"):  # a limit
        return f"{_EDGE}{name} {text}{_EDGE}"
    text = text if _outside(text) == "()" else _base(text, signed=False)
    return f"{_EDGE}{name}{'' if text.startswith('(') else ' '}{text}{_EDGE}"


def _delimited(part: _Part, _stack: list[_Part]) -> str:
    opening, closing = part.settings.get("begChr", "("), part.settings.get("endChr", ")")
    return opening + part.settings.get("sepChr", "|").join(map(_bare, part.all("e"))) + closing + _EDGE


def _lines(part: _Part, _stack: list[_Part]) -> str:
    return "; ".join(text for text in map(_bare, part.all("e")) if text)


def _row(part: _Part, _stack: list[_Part]) -> str:
    return ", ".join(map(_bare, part.all("e")))


def _matrix(part: _Part, stack: list[_Part]) -> str:
    text = "; ".join(part.all("mr"))
    return text if _is_delimited(stack) else f"[{text}]"


def _is_delimited(stack: list[_Part]) -> bool:
    return len(stack) > 1 and stack[-2].name == "d"


def _limit(part: _Part, _stack: list[_Part]) -> str:
    sign = "_" if part.name == "limLow" else "^"
    return f"{_base(part.of('e'))}{sign}{_wrapped(part.of('lim'))}{_EDGE}"


def _accented(part: _Part, _stack: list[_Part]) -> str:
    return _marked(part.of("e"), part.settings.get("chr", "\u0302"))


def _barred(part: _Part, _stack: list[_Part]) -> str:
    return _marked(part.of("e"), _ABOVE if part.settings.get("pos") == "top" else _BELOW)


def _marked(text: str, mark: str) -> str:
    """A text with a mark on each letter and digit."""
    if not unicodedata.combining(mark[:1] or " ") or len(text) > _MOST_MARKED:
        return text
    if mark == _ABOVE and len(_bare(text)) == 1:
        mark = "\u0304"
    return unicodedata.normalize("NFC", "".join(f"{each}{mark}" if each.isalnum() else each for each in text))


def _grouped(part: _Part, _stack: list[_Part]) -> str:
    """What a brace or arrow is drawn above or below; only an arrow means anything by itself."""
    sign = part.settings.get("chr", "")
    return f"{_SIGN}{sign}({_bare(part.of('e'))})" if sign in _ARROWS else part.of("e")


def _phantom(part: _Part, _stack: list[_Part]) -> str:
    return "" if part.settings.get("show", "1") in _HIDDEN else part.of("e")


def _formulas(part: _Part, stack: list[_Part]) -> str:
    """The formulas of a paragraph of formulas, each on its line."""
    texts = [text for name, text in part.texts if name == "oMath"]
    return "\n".join(texts) if texts else _sequence(part, stack)


_WRITERS: Final[dict[str, Callable[[_Part, list[_Part]], str]]] = {
    "r": _run, "f": _fraction, "rad": _root, "sSup": _scripted, "sSub": _scripted, "sSubSup": _scripted,
    "sPre": _scripted_before, "nary": _n_ary, "func": _function, "d": _delimited, "eqArr": _lines, "m": _matrix,
    "mr": _row, "limLow": _limit, "limUpp": _limit, "acc": _accented, "bar": _barred, "groupChr": _grouped,
    "phant": _phantom, "oMathPara": _formulas,
}  # fmt: skip


def _bare(text: str) -> str:
    return text.strip(f"{_EDGE} ")


def _wrapped(text: str, plain: re.Pattern[str] = _ATOM) -> str:
    """A text in brackets, unless it can't be misunderstood without."""
    text = _bare(text)
    return text if plain.fullmatch(_outside(text)) else f"({text})"


def _base(text: str, *, signed: bool = False) -> str:
    """What carries a script or a fraction: a number, a name or a product of them needs no brackets."""
    text = _bare(text)
    outside = _outside(text)
    if signed:
        outside = outside.removeprefix(_SIGN)
    return f"({text})" if any(each in f"{_SIGN}/ ,;" for each in outside) else text


def _outside(text: str) -> str:
    """A text without what is in its brackets, or a sign if it is long."""
    if len(text) > _LONGEST:
        return _SIGN * 2
    pieces: list[str] = []
    depth = 0
    for each in text:
        depth -= each in _CLOSE and depth > 0
        if not depth:
            pieces.append(each)
        depth += each in _OPEN
    return "".join(pieces)


def _finished(text: str) -> str:
    """Puts spaces around operators between two operands, and where neighbours would change each other's meaning."""
    pieces: list[str] = []
    last = ""  # the character before, and the number of ends after it
    ended = 0
    for piece in _PIECES.split(text):
        if not piece:
            continue
        if piece.startswith(_EDGE):
            ended = len(piece) if last.isalnum() or last in _ENDS | {"|"} else 0
            continue
        if piece.startswith(_SIGN):
            sign = piece[1:]
            if ended or last.isalnum() or last in _ENDS:
                piece = f" {sign} "
            else:
                piece = sign if sign in _SIGNS or last in {"^", "_", *_OPEN} else f" {sign} "
        elif ended and piece[0] not in (_TIGHT if ended > 1 else _TIGHT | set(_OPEN)):
            piece = f" {piece}"
        pieces.append(piece)
        last, ended = piece.strip()[-1:] or last, 0
    return "\n".join(" ".join(line.split()) for line in "".join(pieces).split("\n")).strip()
