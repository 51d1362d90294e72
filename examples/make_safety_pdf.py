# /// script
# requires-python = ">=3.11"
# dependencies = ["reportlab>=4.4"]
# ///
"""Makes `library/deck-safety.pdf`: run `uv run examples/make_safety_pdf.py` after a change of its text.

The result is committed, and is the same bytes for the same text (reportlab's invariant mode).
"""

from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import StyleSheet1, getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.platypus import Flowable, ListFlowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table

TARGET = Path(__file__).parent / "library" / "deck-safety.pdf"

PAGES: list[list[str | list[str] | list[list[str]]]] = [
    [
        "# Deck and safety manual",
        "Tarnholm Ferries, edition 11, valid from 1 June 2026. A copy lies on every bridge and in every crew mess. "
        "In doubt the master decides; this manual says what is not in doubt.",
        "## 1 Life-saving equipment",
        "The Solvei carries 640 life jackets for adults and 64 for children. The Havorn carries 410 and 41, the Lille "
        "Tern 120 and 12. Children's jackets are in the yellow lockers beside the play corner.",
        "Life rafts are serviced every 12 months at the workshop in Ullsand. A raft holds 25 people. It is launched "
        "by two of the crew, and inflates within one minute of the painter being pulled.",
        "Immersion suits are kept on the bridge and in the engine control room, one for each of the crew on watch.",
    ],
    [
        "## 2 Drills",
        "An abandon-ship drill is held every second Sunday before the first sailing. A fire drill is held on the first "
        "Wednesday of the month. A drill counts only if it is in the log with the time it took.",
        [
            ["signal", "meaning", "what you do"],
            ["seven short, one long", "general alarm", "go to your muster station"],
            ["one long, repeated", "fire on board", "fire team to the car deck"],
            ["three long", "man overboard", "throw a ring, point, shout the side"],
        ],
        "The muster time for passengers is at most eight minutes, measured from the general alarm. If a drill takes "
        "longer, it is repeated within the week.",
        "## 3 Man overboard",
        "Throw a life ring with light at once, and keep pointing at the person. The officer of the watch presses the "
        "red button, which marks the position, and turns the ship with a Williamson turn. The rescue boat is in the "
        "water within five minutes.",
    ],
    [
        "## 4 The car deck",
        "Electric cars are parked in lanes 1 and 2 only, where the thermal cameras are. Charging on board is not "
        "allowed. A car that smokes is cooled with the water mist lance for at least 45 minutes after the last smoke.",
        [
            "Engines off before the ramp is raised.",
            "Motorcycles are lashed with two straps each.",
            "Nobody stays on the car deck at sea, drivers of lorries included.",
            "Dangerous goods are refused on sailings with more than 25 passengers.",
        ],
        "## 5 Weather",
        "Sailings to the Outer Skerries are cancelled at a significant wave height of 2.5 metres. The master may "
        "cancel earlier, and never has to explain it to the office. Passengers are told at least 40 minutes before "
        "departure where that is possible, and get their fare back or a seat on the next day.",
    ],
]


def main() -> None:
    """Writes the file."""
    styles = getSampleStyleSheet()
    story: list[Flowable] = []
    for number, page in enumerate(PAGES):
        if number:
            story.append(PageBreak())
        for block in page:
            story += [to_flowable(block, styles), Spacer(1, 0.3 * cm)]
    document = SimpleDocTemplate(
        str(TARGET), pagesize=A4, invariant=1, title="Deck and safety manual", author="Tarnholm Ferries"
    )
    document.build(story)


def to_flowable(block: str | list[str] | list[list[str]], styles: StyleSheet1) -> Flowable:
    """A heading (`#`, `##`), a paragraph, a bullet list (texts), or a table (rows)."""
    if isinstance(block, str):
        level = len(block) - len(block.lstrip("#"))
        style = {0: "BodyText", 1: "Title", 2: "Heading2"}[level]
        return Paragraph(block.lstrip("# "), styles[style])
    if block and isinstance(block[0], str):
        return ListFlowable([Paragraph(item, styles["BodyText"]) for item in block], bulletType="bullet")
    return Table(
        block, style=[("GRID", (0, 0), (-1, -1), 0.5, "grey"), ("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold")]
    )


if __name__ == "__main__":
    main()
