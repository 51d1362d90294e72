"""Web pages saved as one file by a browser or Word (MHT): the contained page is read."""

from dataclasses import replace
from mmap import mmap
from typing import Final

from citewire_retriever.ingest.document import Format, ParsedDocument
from citewire_retriever.ingest.parsers.html import parse_html_page
from citewire_retriever.ingest.parsers.mail import contents_of, header_of, read_message, render_mail
from citewire_retriever.ingest.parsers.nesting import Inside
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line

MEDIA_TYPE: Final = "application/x-mimearchive"


def parse_web_archive(data: bytes | mmap, inside: Inside) -> ParsedDocument:
    """Parses a saved page; its pictures, styles and frames are left out.

    Raises:
        IngestError: CORRUPT, EMPTY, NO_TEXT, TOO_LARGE.
    """
    message = read_message(data)
    pages = contents_of(message).html
    if not pages:
        return render_mail(message, inside, MEDIA_TYPE)
    page = parse_html_page(pages[0], inside.limits)
    subject = one_line(header_of(message, "Subject"))[:LABEL_LIMIT]
    return replace(page, format=Format.MAIL, media_type=MEDIA_TYPE, title=page.title or subject or None)
