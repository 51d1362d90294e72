"""The printed tables."""

from collections.abc import Iterable, Sequence

from citewire_cli.jsonio import JsonObject, get_float, get_object, get_objects, get_str, get_texts
from citewire_cli.output import one_line, print_table, stdout
from citewire_eval.calibration import THRESHOLDS
from citewire_eval.comparison import Difference
from citewire_eval.measures import OFF_TOPIC, RANKED, RETRIEVAL
from citewire_eval.off_topic import OFF_TOPIC_LABEL, interval
from citewire_eval.results import (
    ANSWER_MEASURES,
    LEFT_OUT,
    NOT_FOUND_MEASURES,
    QUOTE_MEASURES,
    SCORE_MEASURES,
    Row,
    Run,
)

_CASE_CHARS = 80


def print_run(run: Run) -> None:
    """The measures, one table per part; parts without measurements are left out."""
    elsewhere = [row for row in run.rows if row.label.startswith(OFF_TOPIC_LABEL)]
    searches = [row for row in run.rows if row.part == "search" and row not in elsewhere]
    answers = [row for row in run.rows if row.part == "answers"]
    if searches:
        _table("Retrieval", "mode", searches, (*RETRIEVAL, RANKED, OFF_TOPIC), ())
    if elsewhere:
        _print_elsewhere(elsewhere)
    if answers:
        _table("Answers to answerable questions", "profile", answers, ANSWER_MEASURES, ("answerable",))
    if any("quote_verbatim" in row.measures for row in answers):
        _table("Verified citations of all answers", "profile", answers, QUOTE_MEASURES, ("citations", "quotes"))
    decisions = (
        ("unanswerable", "", "unanswerable questions"),
        ("left out", LEFT_OUT, "gold documents left out"),
    )
    for kind, suffix, text in decisions:
        shown = [row for row in answers if f"not_found_recall{suffix}" in row.measures]
        names = [
            name if name == "false_not_found" else name + suffix for name in (*NOT_FOUND_MEASURES, *SCORE_MEASURES)
        ]
        if shown:
            _table(f"Not found: {text}", "profile", shown, names, ("answerable", kind))


def print_cases(cases: Sequence[JsonObject]) -> None:
    """Lists the answers that people rated down, for review."""
    if not cases:
        return
    _heading("Rated down, to review")
    names = ("question", "answer", "profile", "model", "reasons", "comment")
    rows = [case | {"reasons": ", ".join(get_texts(case, "reasons"))} for case in cases]
    print_table(names, ([one_line(get_str(row, name), _CASE_CHARS) for name in names] for row in rows))


def print_differences(differences: Sequence[Difference], path: str) -> None:
    """The comparison with a stored run."""
    _heading(f"Compared with {path}")
    if not differences:
        stdout().print("No data set and mode appears in both runs.")
        return
    changed = [difference for difference in differences if difference.changed]
    columns = ("questions", "changed", "before", "after", "difference", "p", "p (Holm)")
    if changed:
        print_table(["data set", "mode or profile", "measure", *columns], map(_difference_cells, changed))
        stdout().print("Paired randomisation test, 9,999 resamples; ** p < 0.01, * p < 0.05 after Holm's correction.")
    if same := len(differences) - len(changed):
        stdout().print(f"{same} {'further ' if changed else ''}measures are the same for every question.")


def print_calibration(calibration: JsonObject, stored: str) -> None:
    """The derived thresholds and how they were derived; `stored` states what was stored."""
    _heading("Calibration")
    for note in _notes(calibration):
        stdout().print(note)
    report = get_object(calibration, "report")
    relevance = get_objects(get_object(report, "relevance"), "sets")
    if relevance:
        names = ("questions", "gold_found", "threshold", "kept")
        shares = ("0.01", "0.05", "0.5")
        print_table(
            ["data set", *names, *(f"gold {float(share):.0%}" for share in shares), "best other 50%"],
            (
                [
                    get_str(row, "set"),
                    *_cells(row, names),
                    *_cells(get_object(row, "gold"), shares),
                    *_cells(get_object(row, "best_other"), ["0.5"]),
                ]
                for row in relevance
            ),
        )
    answerable = get_objects(get_object(report, "answerable"), "sets")
    if answerable:
        names = ("questions", "threshold", "false_not_found", "recall_unanswerable", "recall_left_out")
        print_table(
            ["data set", "profile", *names],
            ([get_str(row, "set"), get_str(row, "profile"), *_cells(row, names)] for row in answerable),
        )
    weights = get_objects(get_object(report, "dense_weight"), "sets")
    if weights:
        names = ("equal", "chosen", "best", "best_weight")
        print_table(["data set (nDCG@10)", *names], ([get_str(row, "set"), *_cells(row, names)] for row in weights))
    stdout().print(stored)


def _difference_cells(row: Difference) -> list[str]:
    gap = round(row.after - row.before, 4) + 0.0  # avoid -0
    return [
        *(row.dataset, row.label, row.measure, str(row.questions), str(row.changed)),
        *(f"{row.before:.4f}", f"{row.after:.4f}", f"{gap:+.4f} {row.mark}".rstrip()),
        *(f"{row.p:.4f}", f"{row.corrected:.4f}"),
    ]


def _notes(calibration: JsonObject) -> Iterable[str]:
    for name in THRESHOLDS:
        value = get_float(calibration, name)
        yield f"{name}: {'not derived' if value is None else f'{value:.4f}'}"
    yield from (f"Note: {note}" for note in get_texts(get_object(calibration, "report"), "notes"))


def _cells(source: JsonObject, names: Iterable[str]) -> list[str]:
    def cell(name: str) -> str:
        value = source.get(name)
        return f"{value:.4f}" if isinstance(value, float) else "–" if value is None else str(value)

    return [cell(name) for name in names]


def _table(title: str, label: str, rows: Sequence[Row], measures: Iterable[str], counts: tuple[str, ...]) -> None:
    names = [name for name in measures if any(name in row.measures for row in rows)]
    shown = [name.removesuffix(LEFT_OUT) for name in names]
    _heading(title)
    print_table(
        ["data set", label, "documents", *(counts or ("questions",)), *shown, "p50 ms", "p95 ms", "failed"],
        (
            [
                row.dataset,
                row.label,
                str(row.documents),
                *([str(row.counts.get(name, 0)) for name in counts] or [str(row.questions)]),
                *(f"{row.measures[name]:.4f}" if name in row.measures else "–" for name in names),
                *(f"{row.latency_ms.get(name, 0):.1f}" for name in ("p50", "p95")),
                str(len(row.failures)),
            ]
            for row in rows
        ),
    )


def _print_elsewhere(rows: Sequence[Row]) -> None:
    _heading("Off topic: questions of another set, which reach no model")
    cells: list[list[str]] = []
    for row in rows:
        share = row.measures.get(OFF_TOPIC)
        low, high = (0.0, 1.0) if share is None else interval(share, len(row.per_query[OFF_TOPIC]))
        shown = ["–", "–"] if share is None else [f"{share:.4f}", f"{low:.4f}–{high:.4f}"]
        asked = row.label.removeprefix(OFF_TOPIC_LABEL)
        cells.append([row.dataset, asked, str(row.documents), str(row.questions), *shown, str(len(row.failures))])
    print_table(["library", "questions of", "documents", "questions", OFF_TOPIC, "95 %", "failed"], cells)


def _heading(text: str) -> None:
    stdout().print(f"\n{text}")
