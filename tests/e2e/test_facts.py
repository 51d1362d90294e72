"""Search finds five facts in each format at their exact places. We picked them from files that others wrote.

The questions were written before the first search. Each search covers all of the files.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

Result = dict[str, Any]
MOST = 10


@dataclass(frozen=True)
class Fact:
    """A question, and where its answer is in a file."""

    file: str
    question: str
    words: str
    """Text that the passage contains."""
    page_number: int = 0
    slide: int = 0
    sheet: str = ""
    row: int = 0
    line: int = 0
    section: str = ""
    """The end of the path of the passage's section."""

    def is_at(self, result: Result) -> bool:
        """Whether a search result is at the fact's place and contains its text."""
        first_row, first_line = result.get("row_number", 0), result.get("start_line", 0)
        return (
            self.words in " ".join(result["content"].split())
            and self.page_number in {0, result.get("page_number")}
            and self.slide in {0, result.get("slide")}
            and self.sheet in {"", result.get("sheet")}
            and (not self.row or first_row <= self.row <= result.get("end_row_number", first_row))
            and (not self.line or first_line <= self.line <= result.get("end_line", first_line))
            and result.get("section", "").endswith(self.section)
        )


WORD, PAPER = "pdf/multi_page.pdf", "pdf/multi-column-2p.pdf"
DUCKS, CUPS = "xlsx/xlsx_05_table_with_title.xlsx", "xlsx/stanley-cups.xlsx"
SWIM, SLIDES, POEMS = "docx/word_sample.docx", "pptx/powerpoint_sample.pptx", "epub/epub_purvis_poetry.epub"
DUCK, MAIL, IBM, ROBERTS = "html/wiki_duck.html", "eml/fake-email.eml", "md/wiki.md", "txt/norwich-city.txt"
PYTHON, TYPESCRIPT = "code/_reader.py", "code/anthropic-language-model.ts"
CUSTOMERS = "csv/csv-comma.csv"

FACTS = (
    Fact(WORD, "Who patented the typewriter?", "Christopher Latham Sholes", page_number=1),
    Fact(WORD, "When did Google Docs come out?", "Google Docs (2006)", page_number=2),
    Fact(WORD, "Which software do screenwriters use for scripts?", "Final Draft and Celtx", page_number=3),
    Fact(WORD, "Which tools let people dictate text by voice?", "Dragon NaturallySpeaking", page_number=4),
    Fact(PAPER, "Who wrote the paper on dense passage retrieval?", "Karpukhin", page_number=1),
    Fact(CUPS, "How many Stanley Cups have the Maple Leafs won in all?", "13", sheet="Stanley Cups", row=5),
    Fact(CUPS, "Stanley Cups of the Flyers since 67", "Flyers", sheet="Stanley Cups Since 67", row=4),
    Fact(DUCKS, "How many freshwater ducks were counted in 2022?", "170", sheet="Duck Observations", row=8),
    Fact(DUCKS, "freshwater ducks in 2019", "120", sheet="Duck Observations", row=5),
    Fact(CUPS, "Where do the Blues play?", "STL", row=3),
    Fact(SWIM, "How many calories does a portion of grain have?", "200", section="Let’s eat"),
    Fact(SWIM, "What should I wear when I swim in the lake?", "sunglasses", section="Let’s swim!"),
    Fact(SWIM, "Which berries may a duck eat?", "Blueberry", section="Let’s eat"),
    Fact("docx/unit_test_headers_numbered.docx", "Paragraph 2.1", "Paragraph 2.1", section="Section 2"),
    Fact("docx/simple.docx", "Which sport is among my favorite things?", "Hockey", section="favorite things:"),
    Fact(SLIDES, "Which slide has a table with a footnote?", "A merged with B", slide=1),
    Fact(SLIDES, "What is in the rectangle shape?", "A rectangle shape with this text inside.", slide=2),
    Fact(SLIDES, "And baz things", "And baz things", slide=2),
    Fact(SLIDES, "List item5", "List item5", slide=3),
    Fact(SLIDES, "Some info: Item A and Item B", "Item B", slide=3),
    Fact(POEMS, "Which artist painted Sunday Morning in 1877?", "Thomas Waterman Wood", section="Colophon"),
    Fact(POEMS, "a poem about the death of a mother's only child", "sole remaining hope", section="A Mother’s Grief"),
    Fact(POEMS, "the cold storms of winter shall chill him no more", "storms of winter", section="Grave of the Slave"),
    Fact(POEMS, "gallant ship that carries the champion of the slave to Britain", "gallant bark", section="Hibernia"),
    Fact(POEMS, "Under which licence is the ebook dedicated to the public domain?", "CC0", section="Imprint"),
    Fact(DUCK, "What does a mallard's quack sound like in males?", "breeeeze", section="Communication"),
    Fact(DUCK, "What is a male duck called?", "drake", section="Etymology"),
    Fact(DUCK, "Which coats of arms show ducks?", "Föglö", section="Heraldry"),
    Fact(DUCK, "Should one feed bread to ducks?", "bread", section="Feeding"),
    Fact(
        DUCK, "Which film did the Anaheim hockey team get its name from?", "Mighty Ducks", section="Cultural references"
    ),
    Fact(MAIL, "Who sent the test email?", "mrobinson@unstructured.io"),
    Fact(MAIL, "Who received the test email?", "NotMatthew@notunstructured.com"),
    Fact(MAIL, "When was the test email sent?", "16 Dec 2022"),
    Fact(MAIL, "What color are roses?", "Roses are red"),
    Fact(MAIL, "What color are violets?", "Violets are blue"),
    Fact(CUSTOMERS, "Which company does Sheryl Baxter work for?", "Rasmussen Group", row=2),
    Fact(CUSTOMERS, "In which country does Roy Berry live?", "Antigua and Barbuda", row=4),
    Fact(CUSTOMERS, "When did Linda Olsen subscribe?", "Linda", row=5),
    Fact(CUSTOMERS, "Who lives in West Priscilla?", "Joanna", row=6),
    Fact(CUSTOMERS, "customer 1Ef7b82A4CAAD10", "Preston", row=3),
    Fact(IBM, "In which year was IBM founded?", "founded in 1911", line=9),
    Fact(IBM, "Where are IBM's headquarters?", "Armonk", line=3),
    Fact(IBM, "Who patented the computing scale?", "Pitrap", line=17, section="1910s–1950s"),
    Fact(IBM, "To whom did IBM sell its microcomputer division?", "Lenovo", line=11),
    Fact("md/mixed.md", "What is Scrooge McDuck called in German?", "Dagobert Duck", line=18, section="Famous ducks"),
    Fact(ROBERTS, "How did Roberts lose his second front tooth?", "Rowbotham", line=45),
    Fact(ROBERTS, "Which teacher influenced Iwan Roberts?", "Iolo Owen", line=57),
    Fact(ROBERTS, "What did Norwich City pay to Wolves for Roberts?", "850,000", line=125),
    Fact(ROBERTS, "How heavy was Roberts in pre-season training?", "15 stone", line=136),
    Fact(ROBERTS, "What did Huddersfield's first-team coach teach Roberts?", "first-team coach", line=82),
    Fact(PYTHON, "Where is the end of file marker of a PDF looked for?", "_find_eof_marker", line=767),
    Fact(PYTHON, "Which method adds a top level form that groups form fields?", "add_form_topname", line=1505),
    Fact(PYTHON, "What happens if the password is wrong?", "Wrong password", line=194),
    Fact(TYPESCRIPT, "Which capabilities does claude-opus-5 have?", "claude-opus-5", line=2736),
    Fact(TYPESCRIPT, "effort when reasoning is xhigh", "supportsXhighEffort", line=2919),
)


async def rank(api: httpx.AsyncClient, fact: Fact, documents: dict[str, int]) -> int:
    """Returns the rank of the first result at a fact's place, in a search over all files; 0 if there is none."""
    body = {"query": fact.question, "top_k": MOST, "document_ids": list(documents.values())}
    response = await api.post("/v1/search", json=body)
    assert response.status_code == 200, response.text
    results = response.json()["results"]
    ranks = (
        number
        for number, result in enumerate(results, start=1)
        if result["document_id"] == documents[fact.file] and fact.is_at(result)
    )
    return next(ranks, 0)


async def test_facts_are_found_at_their_places(
    api: httpx.AsyncClient, shared_data: Path, upload_once: Callable[[Path], Awaitable[int]]
) -> None:
    """When this was written, all 55 were among the first ten results, 52 among the first three, 46 in first place."""
    documents: dict[str, int] = {}
    for file in sorted({fact.file for fact in FACTS}):
        documents[file] = await upload_once(shared_data / "documents" / file)
    ranks = {fact: await rank(api, fact, documents) for fact in FACTS}
    missed = [fact for fact, number in ranks.items() if not number]
    assert not missed, "\n".join(f"{fact.file}: {fact.question}" for fact in missed)
    assert sum(number <= 3 for number in ranks.values()) >= 50, ranks


def test_there_are_five_facts_of_each_format() -> None:
    formats = Counter(fact.file.partition("/")[0] for fact in FACTS)
    assert len(formats) == 11
    assert set(formats.values()) == {5}
