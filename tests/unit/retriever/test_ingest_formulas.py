"""Formulas in Word documents and presentations: their text, and where it stands."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.parsers.docx import read_docx_tables
from ingest_files import LIMITS, check_document, texts
from zip_packages import docx, paragraph, pptx

_M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def run(text: str, properties: str = "") -> str:
    return f"<m:r><m:rPr>{properties}</m:rPr><m:t>{text}</m:t></m:r>"


def part(name: str, *parts: tuple[str, str], properties: str = "") -> str:
    """An element with its arguments, by their names."""
    inner = "".join(f"<m:{each}>{content}</m:{each}>" for each, content in parts)
    return f"<m:{name}><m:{name}Pr>{properties}</m:{name}Pr>{inner}</m:{name}>"


def fraction(above: str, below: str, kind: str = "bar") -> str:
    return part("f", ("num", above), ("den", below), properties=f'<m:type m:val="{kind}"/>')


def power(base: str, above: str) -> str:
    return part("sSup", ("e", base), ("sup", above))


def index(base: str, below: str) -> str:
    return part("sSub", ("e", base), ("sub", below))


def root(inside: str, degree: str = "") -> str:
    hidden = f'<m:degHide m:val="{int(not degree)}"/>'
    return part("rad", ("deg", degree), ("e", inside), properties=hidden)


def brackets(inside: str, first: str = "(", last: str = ")") -> str:
    properties = f'<m:begChr m:val="{first}"/><m:endChr m:val="{last}"/>'
    return part("d", ("e", inside), properties=properties)


def n_ary(sign: str, below: str, above: str, inside: str) -> str:
    return part(
        "nary", ("sub", below), ("sup", above), ("e", inside), properties=f'<m:chr m:val="{sign}"/>' if sign else ""
    )


def function(name: str, inside: str) -> str:
    return part("func", ("fName", name), ("e", inside))


def matrix(*rows: tuple[str, ...]) -> str:
    lines = ("".join(f"<m:e>{run(cell)}</m:e>" for cell in row) for row in rows)
    return f"<m:m>{''.join(f'<m:mr>{line}</m:mr>' for line in lines)}</m:m>"


_SQUARE = power(run("b"), run("2"))
_CASES = part("eqArr", ("e", run("x,&amp;x≥0")), ("e", run("-x,&amp;x&lt;0")))
_LIMIT = part("limLow", ("e", run("lim")), ("lim", run("n→∞")))


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (fraction(run("a+b"), run("c")), "(a + b)/c"),
        (fraction(fraction(run("a"), run("b")), run("2c")), "(a/b)/(2c)"),
        (run("2") + fraction(run("1"), run("2")), "2 1/2"),
        (fraction(run("total cost", "<m:nor/>"), run("units", "<m:nor/>")), "(total cost)/units"),
        (power(run("x"), run("2")), "x^2"),
        (power(run("10"), run("−3")), "10^−3"),
        (power(brackets(run("a+b")), run("n+1")), "(a + b)^(n + 1)"),
        (power(run("f"), run("′")) + brackets(run("x")), "f′(x)"),
        (power(run("x"), run("2")) + run("dx"), "x^2 dx"),
        (index(run("v"), run("max")) + run("=3"), "v_max = 3"),
        (part("sSubSup", ("e", run("x")), ("sub", run("i")), ("sup", run("2"))), "x_i^2"),
        (part("sPre", ("sub", run("6")), ("sup", run("14")), ("e", run("C"))), "_6^14 C"),
        (root(run("x")), "√(x)"),
        (root(run("x"), run("3")), "∛(x)"),
        (root(run("x+1"), run("n")), "(x + 1)^(1/n)"),
        (run("x=") + fraction(run("−b±") + root(_SQUARE + run("−4ac")), run("2a")), "x = (−b ± √(b^2 − 4ac))/(2a)"),
        (n_ary("∑", run("i=1"), run("n"), index(run("x"), run("i"))), "∑_(i = 1)^n x_i"),
        (n_ary("", run("0"), run("1"), run("xdx")), "∫_0^1 xdx"),
        (run("A=") + brackets(matrix(("a", "b"), ("c", "-d"))), "A = (a, b; c, -d)"),
        (matrix(("1", "0"), ("0", "1")), "[1, 0; 0, 1]"),
        (brackets(fraction(run("n"), run("k"), "noBar")), "(n choose k)"),
        (brackets(run("x"), "|", "|") + run("+1"), "|x| + 1"),
        (run("f=") + brackets(_CASES, "{", ""), "f = {x,x ≥ 0; -x,x < 0"),
        (function(run("sin"), run("x")), "sin x"),
        (function(_LIMIT, index(run("a"), run("n"))) + run("=0"), "lim_(n → ∞) a_n = 0"),
        (part("bar", ("e", run("x")), properties='<m:pos m:val="top"/>') + run("=5"), "x\u0304 = 5"),
        (part("acc", ("e", run("a"))), "â"),
        (part("phant", ("e", run("x")), properties='<m:show m:val="0"/>') + run("y"), "y"),
        (run("well-known", "<m:nor/>"), "well-known"),
        (run("𝑎+𝛼ℎ"), "a + αh"),
        (f"<m:r><w:del/></m:r><w:del>{run('gone')}</w:del>" + run("-x"), "-x"),
    ],
)
def test_a_formula_is_text_on_one_line_in_its_place(formula: str, text: str) -> None:
    before = '<w:r><w:t xml:space="preserve">Here </w:t></w:r>'
    document = parse(docx(f"<w:p>{before}<m:oMath {_M}>{formula}</m:oMath><w:r><w:t>, so</w:t></w:r></w:p>"), "a.docx")
    check_document(document)
    assert texts(document) == [f"Here {text}, so"]
    slide = f"<sp><txBody><p><r><t>Here </t></r><m:oMath {_M}>{formula}</m:oMath><r><t>, so</t></r></p></txBody></sp>"
    slide = slide.replace("<w:del>", "<del>").replace("</w:del>", "</del>").replace("<w:del/>", "")
    document = parse(pptx(slide), "a.pptx")
    check_document(document)
    assert texts(document)[1:] == [f"Here {text}, so"]


def test_each_formula_of_a_group_has_its_own_line() -> None:
    group = "".join(f"<m:oMath>{run(each)}</m:oMath>" for each in ("a=1", "b=2"))
    body = f"<m:oMathPara {_M}>{group}</m:oMathPara>"
    assert texts(parse(docx(f"<w:p>{body}</w:p>{body}"), "a.docx")) == ["a = 1\nb = 2"] * 2


def test_a_formula_in_a_cell_is_not_a_number_to_compute_with() -> None:
    formula = f"<w:p><m:oMath {_M}>{run('12')}</m:oMath></w:p>"
    (grid,) = read_docx_tables(
        docx(f"<w:tbl><w:tr><w:tc>{paragraph('12')}</w:tc><w:tc>{formula}</w:tc></w:tr></w:tbl>"), LIMITS
    )
    assert [(cell.text, cell.plain) for cell in grid.rows[0]] == [("12", True), ("12", False)]


@pytest.mark.parametrize("name", ["f", "acc", "sSup", "func", "d"])
def test_deep_formulas_stay_small(name: str) -> None:
    argument = {"f": "num", "func": "fName"}.get(name, "e")
    inner = run("ab+" * 20_000)
    for _ in range(60):
        inner = f"<m:{name}><m:{argument}>{inner}</m:{argument}></m:{name}>"
    document = parse(docx(f"<w:p><m:oMath {_M}>{inner}</m:oMath></w:p>"), "a.docx")
    assert len(document.text) < 120_000
