"""A run beside a stored one: the difference of each measure, and whether it may be chance.

Only questions that both have are compared. The test is a paired randomisation test on the differences per question
(signs flipped at random, 9,999 times), two-sided. As several measures are compared, p is corrected after Holm; measures
in which no question differs aren't counted for that, as no test could find them different (Tarone's argument).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from citewire_cli.evaluation.results import MEASURES, Run
from citewire_cli.evaluation.statistics import paired_p
from citewire_cli.jsonio import JsonObject


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of one row in both runs.

    Attributes:
        dataset: The data set.
        label: The mode or profile.
        measure: The measure.
        questions: Questions that both runs have.
        changed: How many of them differ.
        before: The stored run's mean over these.
        after: This run's.
        p: Chance of a difference this large if there were none, for this measure alone.
        corrected: The same, corrected for the number of comparisons.
    """

    dataset: str
    label: str
    measure: str
    questions: int
    changed: int
    before: float
    after: float
    p: float
    corrected: float = 1.0

    @property
    def mark(self) -> str:
        """`**` for a corrected p below 0.01, `*` below 0.05."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < 0.05 else ""

    def as_json(self) -> JsonObject:
        """The difference as `--json` prints it."""
        body: JsonObject = asdict(self)
        return body | {"difference": self.after - self.before, "mark": self.mark}


def compare_runs(after: Run, before: Run) -> list[Difference]:
    """Each measure with values per question of each row that both runs have, in the order of this run."""
    stored = {row.key: row for row in before.rows}
    found: list[Difference] = []
    for row in after.rows:
        other = stored.get(row.key)
        if other is None:
            continue
        for measure in MEASURES:
            now, then = row.per_query.get(measure, {}), other.per_query.get(measure, {})
            common = sorted(now.keys() & then.keys())
            if not common:
                continue
            ours, theirs = [now[one] for one in common], [then[one] for one in common]
            # Stored values are rounded: what differs less than that doesn't differ.
            gaps = [round(a - b, 5) for a, b in zip(ours, theirs, strict=True)]
            changed, size = sum(gap != 0 for gap in gaps), len(common)
            means = sum(theirs) / size, sum(ours) / size
            found.append(Difference(row.dataset, row.label, measure, size, changed, *means, paired_p(gaps)))
    return _corrected(found)


def _corrected(found: Sequence[Difference]) -> list[Difference]:
    order = sorted((at for at, one in enumerate(found) if one.changed), key=lambda at: found[at].p)
    corrected: dict[int, float] = {}
    least = 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, found[at].p * (len(order) - rank)))
        corrected[at] = least
    return [replace(one, corrected=corrected.get(at, 1.0)) for at, one in enumerate(found)]
