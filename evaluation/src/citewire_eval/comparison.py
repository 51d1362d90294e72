"""Compares a run with a stored one: the difference of each measure, and whether it may be due to chance.

Only questions in both runs are compared. The test is a paired randomisation test on the differences per question
(signs flipped at random, 9,999 times), two-sided. As several measures are compared, p has Holm's correction. Measures
in which no question differs don't count for it, because no test could find a difference in them (Tarone's argument).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from citewire_cli.jsonio import JsonObject
from citewire_eval.results import MEASURES, Run
from citewire_eval.statistics import paired_p


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of one row in both runs."""

    dataset: str
    """The data set."""
    label: str
    """The mode or profile."""
    measure: str
    """The measure."""
    questions: int
    """Number of questions in both runs."""
    changed: int
    """Number of those questions whose values differ."""
    before: float
    """The stored run's mean over the questions in both runs."""
    after: float
    """This run's mean over the same questions."""
    p: float
    """Probability of so large a difference by chance alone, for this measure on its own."""
    corrected: float = 1.0
    """`p`, corrected for the number of comparisons."""

    @property
    def mark(self) -> str:
        """`**` if the corrected p is below 0.01, `*` if it is below 0.05."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < 0.05 else ""

    def as_json(self) -> JsonObject:
        """The difference as `--json` prints it."""
        body: JsonObject = asdict(self)
        return body | {"difference": self.after - self.before, "mark": self.mark}


def compare_runs(run: Run, baseline: Run) -> list[Difference]:
    """Compares each measure that has values per question, for each row in both runs, in the order of this run."""
    rows = {row.key: row for row in baseline.rows}
    differences: list[Difference] = []
    for row in run.rows:
        if (other := rows.get(row.key)) is None:
            continue
        for measure in MEASURES:
            now, before = row.per_query.get(measure, {}), other.per_query.get(measure, {})
            questions = sorted(now.keys() & before.keys())
            if not questions:
                continue
            # Stored values are rounded, so a smaller difference counts as none.
            gaps = [round(now[question] - before[question], 5) for question in questions]
            means = [sum(values[question] for question in questions) / len(questions) for values in (before, now)]
            changed = sum(gap != 0 for gap in gaps)
            difference = Difference(row.dataset, row.label, measure, len(questions), changed, *means, p=paired_p(gaps))
            differences.append(difference)
    return _correct(differences)


def _correct(differences: Sequence[Difference]) -> list[Difference]:
    order = sorted(
        (at for at, difference in enumerate(differences) if difference.changed), key=lambda at: differences[at].p
    )
    corrected: dict[int, float] = {}
    least = 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, differences[at].p * (len(order) - rank)))
        corrected[at] = least
    return [replace(difference, corrected=corrected.get(at, 1.0)) for at, difference in enumerate(differences)]
