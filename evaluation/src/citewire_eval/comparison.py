"""A run beside a stored one: the difference of each measure, and whether it may be chance.

Only questions that both have are compared. The test is a paired randomisation test on the differences per question
(signs flipped at random, 9,999 times), two-sided. As several measures are compared, p is corrected after Holm; measures
in which no question differs aren't counted for that, as no test could find them different (Tarone's argument).
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
    """Questions that both runs have."""
    changed: int
    """How many of them differ."""
    before: float
    """The stored run's mean over these."""
    after: float
    """This run's."""
    p: float
    """Chance of a difference this large if there were none, for this measure alone."""
    corrected: float = 1.0
    """The same, corrected for the number of comparisons."""

    @property
    def mark(self) -> str:
        """`**` for a corrected p below 0.01, `*` below 0.05."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < 0.05 else ""

    def as_json(self) -> JsonObject:
        """The difference as `--json` prints it."""
        body: JsonObject = asdict(self)
        return body | {"difference": self.after - self.before, "mark": self.mark}


def compare_runs(run: Run, baseline: Run) -> list[Difference]:
    """Each measure with values per question of each row that both runs have, in the order of this run."""
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
            # Stored values are rounded: what differs less than that doesn't differ.
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
