"""E-mails: sender, recipients and text, and attachments as parts with their own places."""

from base64 import b64encode
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind
from citewire_retriever.ingest.errors import IngestCode, IngestError
from ingest_files import by_part, make_pdf, parse_bytes, prose_page, text_of


def mail(subject: str = "Prices", text: str = "As said.\n") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Jürgen Groß <j@a.example>"
    message["To"] = "Ann <ann@b.example>, Bob <bob@b.example>"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    message["Subject"] = subject
    message.set_content(text)
    return message


def test_headers_and_text(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.eml", mail("Größen und Preise").as_bytes())
    assert document.title == "Größen und Preise"
    assert document.media_type == "message/rfc822"
    assert by_part(document)[""] == [
        "From: Jürgen Groß <j@a.example>\nTo: Ann <ann@b.example>, Bob <bob@b.example>\n"
        "Date: Mon, 02 Nov 2026 10:00:00 +0100\nSubject: Größen und Preise",
        "As said.",
    ]


def test_html_is_read_if_there_is_no_plain_text(tmp_path: Path) -> None:
    message = mail()
    message.add_alternative("<h1>Loud</h1><p>As <b>painted</b>.</p>", subtype="html")
    assert "painted" not in parse_bytes(tmp_path, "a.eml", message.as_bytes()).text
    message = mail()
    message.set_content("<h1>Loud</h1><p>As <b>painted</b>.</p>", subtype="html")
    document = parse_bytes(tmp_path, "a.eml", message.as_bytes())
    assert by_part(document)[""][1:] == ["As painted."]
    assert [block.label for block in document.blocks if block.kind is BlockKind.HEADING] == ["Loud"]


def test_every_attachment_that_can_be_read_is_a_part(tmp_path: Path) -> None:
    inner = mail("The older one", "It was cheaper.\n")
    inner.add_attachment("deep inside\n", filename="note.txt")
    pdf = make_pdf([prose_page("Travel", [["Here it is thirty euros."]]), prose_page("Meals", [["Not paid."]])])
    message = mail()
    message.add_attachment(b"name,price\ntea,3\n", maintype="text", subtype="csv", filename="Preisliste für März.csv")
    message.add_attachment(pdf, maintype="application", subtype="pdf", filename="trip.pdf")
    message.add_attachment(b"\x89PNG\r\n\x1a\n123", maintype="image", subtype="png", filename="photo.png")
    message.add_attachment("first\n\nsecond\n", filename="note.txt")
    message.add_attachment("other\n", filename="note.txt")
    message.add_attachment(inner)
    document = parse_bytes(tmp_path, "a.eml", message.as_bytes())
    parts = by_part(document)
    assert "Attachments: Preisliste für März.csv, trip.pdf, photo.png, note.txt, note (2).txt" in parts[""][0]
    assert parts["Preisliste für März.csv"] == ["name: tea\nprice: 3"]
    assert parts["photo.png"] == ["photo.png (not read)"]
    assert parts["note.txt"] == ["first", "second"]
    assert parts["note (2).txt"] == ["other"]
    assert parts["The older one.eml"][1:] == ["It was cheaper."]
    assert parts["The older one.eml/note.txt"] == ["deep inside"]
    places = {text_of(document, block): block.place for block in document.blocks}
    assert places["Not paid."].page == 2
    assert places["name: tea\nprice: 3"].row == 2
    assert (places["second"].start_line, places["second"].end_line) == (3, 3)
    assert not places["As said."].ListFields()


def test_a_quote_is_in_its_part(tmp_path: Path) -> None:
    """Checked with the standard library's reader of whole messages."""
    message = mail()
    for number in range(5):
        message.add_attachment(f"Text of number {number}.\n\nGrüße, {number}\n", filename=f"{number}.txt")
    data = message.as_bytes()
    whole = message_from_bytes(data, policy=default)
    contents = {part.get_filename() or "": part.get_content() for part in whole.iter_attachments()}
    for name, texts in by_part(parse_bytes(tmp_path, "a.eml", data)).items():
        for text in texts:
            assert not name or text in contents[name]


def test_quoted_lines_and_forwarded_messages_are_recognised(tmp_path: Path) -> None:
    text = "I agree.\n\nOn Monday, Ann wrote:\n> Shall we?\n\n-----Original Message-----\nFrom: Bob\n\nOlder words.\n"
    document = parse_bytes(tmp_path, "a.eml", mail(text=text).as_bytes())
    assert "> Shall we?" in document.text
    (heading,) = [block for block in document.blocks if block.kind is BlockKind.HEADING]
    assert heading.label == "Original Message"
    assert document.text.index("Older words.") > heading.end > document.text.index("Shall we?")


def test_texts_without_an_encoding_or_with_a_wrong_one(tmp_path: Path) -> None:
    head = b"Subject: gr\xc3\xbc\xc3\x9fe\nContent-Type: text/plain; charset="
    for charset, body in [
        ("x-unknown", "Die Größe ist genannt".encode("cp1252")),
        ("punycode", b"Plain."),
        ("utf-8", b"Die Gr\xf6\xdfe ist genannt"),
    ]:
        document = parse_bytes(tmp_path, "a.eml", head + charset.encode() + b"\n\n" + body)
        assert document.title == "grüße"
        assert document.text.endswith(("Die Größe ist genannt", "Plain."))
    koi8 = "Это было вчера".encode("koi8-r")
    assert parse_bytes(tmp_path, "a.eml", head + b"koi8-r\n\n" + koi8).text.endswith("Это было вчера")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.eml", "a.txt"])
def test_a_mail_that_an_editor_saved_in_another_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    head = "From: a@b.example\nSubject: grüße\nMIME-Version: 1.0\nContent-Type: text/plain; charset=iso-8859-2\n"
    for transfer, body in [("8bit", "Größe “5 €”, ą"), ("quoted-printable", "=B1")]:
        data = f"{head}Content-Transfer-Encoding: {transfer}\n\n{body}".encode(encoding)
        document = parse_bytes(tmp_path, name, data)
        assert document.title == "grüße"
        assert document.text.splitlines()[3:] == [body.replace("=B1", "ą")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"Just some words\nthat are no mail.\n", IngestCode.CORRUPT),
        (b"MIME-Version: 1.0\n\n", IngestCode.EMPTY),
    ],
)
def test_an_invalid_mail_is_refused(tmp_path: Path, data: bytes, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.eml", data)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("gb2312", "gbk", "朱镕基说"),
        ("iso-8859-8-i", "iso8859-8", "שלום לכולם"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("x-sjis", "cp932", "①番の高﨑"),
        ("windows-874", "cp874", "สวัสดี"),
        ("iso-8859-1", "cp1252", "“Größe” – 5 €"),
        ("iso-8859-1", "utf-8", "Größe “5 €”"),
    ],
)
def test_encodings_that_mails_declare_by_another_name(tmp_path: Path, declared: str, encoding: str, text: str) -> None:
    head = f"From: a@b.example\nContent-Type: text/plain; charset={declared}\n\n"
    assert parse_bytes(tmp_path, "a.eml", head.encode() + text.encode(encoding)).text.endswith(text)


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [("gb2312", "gbk", "朱镕基说"), ("ISO-8859-8-I", "iso8859-8", "שלום"), ("iso-8859-1*en", "cp1252", "“5 €”")],
)
def test_words_of_a_subject_in_such_encodings(tmp_path: Path, declared: str, encoding: str, text: str) -> None:
    word = f"=?{declared}?B?{b64encode(text.encode(encoding)).decode()}?="
    data = f"From: a@b.example\nSubject: {word}\n\nHi"
    assert parse_bytes(tmp_path, "a.eml", data).title == text


def test_parts_without_a_name_are_attachments_too(tmp_path: Path) -> None:
    pdf = make_pdf([prose_page("Travel", [["Here it is thirty euros."]])])
    message = mail()
    message.add_attachment(pdf, maintype="application", subtype="pdf", disposition="inline")
    message.add_attachment("By train.\n")
    message.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream")
    message.add_attachment(b"GIF89a", maintype="image", subtype="gif", disposition="inline")
    parts = by_part(parse_bytes(tmp_path, "a.eml", message.as_bytes()))
    assert "Attachments: attachment.pdf, attachment.txt, attachment\n" in f"{parts[''][0]}\n"
    assert parts["attachment.pdf"] == ["Here it is thirty euros."]
    assert parts["attachment.txt"] == ["By train."]
    assert parts["attachment"] == ["attachment (not read)"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/enriched", "<bold>Not</bold> now."), ('multipart/mixed; boundary="lost"', "Not now.")],
)
def test_texts_that_older_and_broken_programs_write(tmp_path: Path, kind: str, body: str) -> None:
    data = f"From: a@b.example\nMIME-Version: 1.0\nContent-Type: {kind}\n\n{body}\n"
    assert by_part(parse_bytes(tmp_path, "a.eml", data))[""][1:] == ["Not now."]
