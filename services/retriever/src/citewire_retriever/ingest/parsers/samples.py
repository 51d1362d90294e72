"""A small file of each kind that exercises its parser: reading them imports everything that parsing needs."""

import bz2
import gzip
import io
import lzma
import zlib
from base64 import b85decode
from zipfile import ZIP_DEFLATED, ZipFile

from citewire_retriever.ingest.detect import LANGUAGES

_MARKDOWN = """---
title: T
---

# Head `code` *a* **b** [link](http://a.example "t") ![image](i) &amp; <b>x</b> <http://b.example> \\* ~~s~~

- a
  1. b

> quote

| a | b |
|---|---|
| 1 | 2 |

```
code
```

[ref]: http://c.example
"""
_HTML = """<!doctype html><html><head><title>T</title></head><body><main><h1>H</h1><p>a &amp; b<br>c</p><ul><li>x</ul>
<pre>p</pre><table><caption>C</caption><tr><th>a<th>b<tr><td>1<td>2</table></main></body></html>
"""
_PDF = b"""%PDF-1.4
1 0 obj
<< /Type /Catalog /Pages 2 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [3 0 R] /Count 1 >>
endobj
3 0 obj
<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>
endobj
4 0 obj
<< /Length 31 >>
stream
BT /F 9 Tf 9 9 Td (Text) Tj ET
endstream
endobj
5 0 obj
<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>
endobj
trailer
<< /Root 1 0 R >>
startxref
0
%%EOF
"""


def _package(parts: dict[str, str]) -> bytes:
    """A ZIP package of parts."""
    data = io.BytesIO()
    with ZipFile(data, "w", ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return data.getvalue()


_DOCX = """<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>Text
</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>"""
_MAIL = """From: =?utf-8?q?J=C3=B6?= <a@b.example>
To: "c, d" <c@d.example>, e@f.example
Date: Mon, 2 Nov 2026 10:00:00 +0100
Subject: =?iso-8859-1?b?R3L832U=?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="m"

--m
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Gr=FC=DFe
--m
Content-Type: text/html

<p>Text</p>
--m
Content-Type: text/csv; name="a.csv"
Content-Disposition: attachment; filename*=utf-8''%C3%A4.csv
Content-Transfer-Encoding: base64

YSxiCjEsMgo=
--m
Content-Type: message/rfc822

Subject: Inner

Text
--m--
"""
_OUTLOOK = """c-rll%}T>S5Xb*XYHVxOdQe0V1aBhJC?bkz{RY8{dM|AeKhU-
`wdl>ePvIl@B>Dh?3O<7;HBL5L3~KF8QYlLRWt;4l$!~XNcXrd;o4$vu>!C+{(gF;;IWd^NHjRo=t0Vzkw!Jxy<2FU9IBoqYp@Gtv_2$6E<@4~?o
o3*5(XBs4yx(^aPP^E{87hJ8H}Qfp_US2wK=wy8!Yn34FS0m63CDELmx2C-
Dc1u>OVsZ|2>)e;eHyutW2p6CXWA{JNbC`8P!x)|XZJrR?8Emzxc?@QhmC4b`|(`d8lQ~gkIK#6K?>UX7uu%vSET$qf;Gw`6<WpTEc*d;XtlkBll
v~@K_Ww+lE@t;TJvS<!6993YORX8P4y!6%%XLg`sO()=z_1yvxh1_jSs$!Q_4R!vG*k>LnVbN%!sRn^}5d)lYE20*L-
=l9^Vq=lrlfU;Op|N_Vf5x=zd9=-
@)L!zDhLUPh(Y(Rrw}^9})BRgI}hZmZy1Esx#{{81+TN`_wcCP4L|fpp%hvf#%NtC}aF?tOgtSe@c2@)&DUD-<0KN{wz_~l=-
UXS;#mIg^IuRCH_5h-_^qSCm8;Z{zCk_8T^>{`q;Ag$3MkCOXLcD=W)Q!0P`~bu6kP-
|0KizT?+Z%+xyh_zdi;(A!E>(Z^<&*)cAM%#@__7`At?RzUF%eh{(OclsVFEdu{(k@~`y{RTekI"""
"""An Outlook message with an attachment, compressed."""
_OLD_WORKBOOK = """c-rk)OK4L;6g~6u(k7wJr?yHfgb--e+DgTZn>H%du2QNl{8ZG$W+9bSLN~gxTC)@cSBjfLTX0i#;|FcgoeLqN3qcSP#g!{T!9|
+qz4yJ)m?|Wo0cFl(?%cU^?tI?N-1m8v3+3nTcNI{DA-GVoylAShDN5dQAqc9sELO|8hmxi7Pr>V<g=});N$bmIUPE5*0u0<Up
OXYWP&$G07@bO|A`Qeo8AC$x7zRly+$M`3oieI6k!M715P4UaPetw#%QcaM#LcVY$i+r`cRRcIs1cPqKe*k8;`2@{JJEp`yo)b
gS2ov;y_vI#bB(A7n=P0Jt-?quoyu_8iv^g#z>b0Luo=K2e84e6e>~nlJe)^6xz6L86#>4M&*ig-wl~(UK=$v|_J!Zr7uVTu7_
`PSuujW1&r*n8cG(-_a1oopy33Bf2}(&K6)}C%$H7<*Z}6wX+bWy7h2#VRqK9N_2Pr%k?|gY3PmaY-iDgCtwjI{Hc?_^{nLWta
FEwtF%<UDqUE~#Mb+hPQB6(hv_l$Ko%7IzoT$S1$>SveWO>9erzLoUs=Yx;J*^jYpq%VyWF19bdjm;rS_h5qj`I<$a>QlFFG9J
guxpG3ldy$>%!hy#KI%Bt-XIB8Le0=OD7r`zmDk+Drs`$&)2irmzH#p=(b37+z8sfRebQ>P$9^3V<U-ayfdS<QATwPAj%r>joE
5tU1&5Tb}Qp7i<&mp4?54aHua%=EGLqkJDLqkJDL!%}r=LMf%Pfh2QpFbm-o&P$kluG(H$$yJOn4)W%K1uf@O?d_v>e@dW;a26
gRE<96|AmYr)O!Y#NXj@S>)yZg8K^4fQ?q06&mEz9`!Cfq&cEFM5B*@m`v"""
"""An old workbook, compressed."""
_NOTEBOOK = """{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "# T"}, {"cell_type": "code",
"source": "1 + 1", "outputs": [{"data": {"text/plain": "2"}}]}, {"cell_type": "raw", "source": "r"}]}
"""

_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORKBOOK = {
    "xl/workbook.xml": f'<workbook xmlns:r="{_RELATION}"><sheets><sheet name="S" r:id="r"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f"""<Relationships><Relationship Id="r" Type="{_RELATION}/worksheet" Target="s.xml"/>
<Relationship Id="t" Type="{_RELATION}/styles" Target="t.xml"/></Relationships>""",
    "xl/s.xml": """<worksheet><sheetData><row><c><v>1</v></c><c s="0"><v>1.5</v></c></row></sheetData></worksheet>""",
    "xl/t.xml": '<styleSheet><cellXfs><xf numFmtId="15"/></cellXfs></styleSheet>',
}
_SLIDES = {
    "ppt/presentation.xml": f'<presentation xmlns:r="{_RELATION}"><sldId r:id="r"/></presentation>',
    "ppt/_rels/presentation.xml.rels": f"""<Relationships><Relationship Id="r" Type="{_RELATION}/slide"
Target="slide.xml"/></Relationships>""",
    "ppt/slide.xml": """<sld><sp><p><r><t>Text</t></r></p></sp>
<graphicFrame><tbl><tr><tc/></tr></tbl></graphicFrame></sld>""",
}
_OPEN = """<document-content><page><frame class="title"><p>Text<s c="2"/></p></frame><h>Head</h><list><list-item>
<p>a</p></list-item></list><table name="S"><table-row><table-cell><p>1</p></table-cell></table-row></table></page>
</document-content>"""
_EBOOK = {
    "META-INF/container.xml": '<container><rootfile full-path="a.opf"/></container>',
    "a.opf": """<package><item id="a" href="a.html" media-type="application/xhtml+xml"/><itemref idref="a"/>
</package>""",
    "a.html": _HTML,
}

_ARCHIVED = {"a.txt": "Text.", "b.md": _MARKDOWN}

XLS = "a.xls"
"""Needs an optional package."""
FILES: dict[str, bytes] = {
    XLS: zlib.decompress(b85decode("".join(_OLD_WORKBOOK.split()))),
    "a.md": _MARKDOWN.encode(),
    "a.html": _HTML.encode(),
    "a.csv": b'a;b\n1;"x;y"\n',
    "a.txt": b"Text.\n\nMore text.",
    "western.txt": "Größe und Maß".encode("cp1252"),
    "cyrillic.txt": "Это довольно длинный текст, по которому видно кодировку.".encode("cp1251"),
    "wide.txt": "Text".encode("utf-16"),
    "a.pdf": _PDF,
    "a.docx": _package({"word/document.xml": _DOCX}),
    "a.xlsx": _package(_WORKBOOK),
    "a.pptx": _package(_SLIDES),
    "a.ipynb": _NOTEBOOK.encode(),
    "a.json": b'{"a": ["\\u00fc", 1.5e3, true, null, {"b c": "d"}]}',
    "a.eml": _MAIL.encode(),
    "a.msg": zlib.decompress(b85decode("".join(_OUTLOOK.split()))),
    "a.rst": b"T\n===\n\nText::\n\n  code\n",
    "a.adoc": b"= T\n\n----\ncode\n----\n",
    "a.org": b"#+TITLE: T\n* H\n| a |\n|---|\n| 1 |\n#+begin_src\ncode\n#+end_src\n",
    "a.toml": b"[a]\nb = 'c'\n",
    "a.vcf": b"BEGIN:VCARD\nFN:A\nNOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=utf-8:=C3=BC\nEND:VCARD\n",
    "a.ics": b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101T100000Z\nEND:VEVENT\nEND:VCALENDAR\n",
    "a.ini": b"[a]\nb = c\n",
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\n<i>Text.</i>\n",
    "a.jsonl": b'{"a": 1}\n{"a": 2}\n',
    "a.yaml": b"a: &a [1, 2.5]\nb: |\n  text\nc: *a\n---\n- !!str 2026-01-01\n",
    "a.xml": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e "x">]><a b="c">&e;<!-- d --><![CDATA[e]]></a>',
    "a.epub": _package(_EBOOK),
    "a.rtf": rb"{\rtf1\ansi Text\par \intbl a\cell b\cell\row}",
    **{f"a.{suffix}": _package({"content.xml": _OPEN}) for suffix in ("odt", "ods", "odp")},
    "a.zip": _package(_ARCHIVED),
    "a.txt.gz": gzip.compress(b"Text."),
    "a.txt.bz2": bz2.compress(b"Text."),
    "a.txt.xz": lzma.compress(b"Text."),
    **{f"a{suffixes[0]}": b"class A { f() { } }\n# a\ndef f(): 1\n" for suffixes in LANGUAGES.values()},
}
"""By name."""
