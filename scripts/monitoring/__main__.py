"""Writes the generated files of deploy/monitoring: `python -m scripts.monitoring`."""

import json
from pathlib import Path

from scripts.monitoring.answers import ANSWERS
from scripts.monitoring.cluster import CLUSTER
from scripts.monitoring.ingest import INGEST
from scripts.monitoring.overview import OVERVIEW
from scripts.monitoring.panels import to_json
from scripts.monitoring.services import SERVICES
from scripts.monitoring.slo import slo_rules

DASHBOARDS = (OVERVIEW, SERVICES, ANSWERS, INGEST, CLUSTER)
FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"


def generated() -> dict[Path, str]:
    """Returns the path and text of each generated file."""
    files = {
        FOLDER / "dashboards" / f"{dashboard.uid}.json": json.dumps(to_json(dashboard), indent=1, ensure_ascii=False)
        + "\n"
        for dashboard in DASHBOARDS
    }
    return {**files, FOLDER / "rules" / "slo.yaml": slo_rules()}


def main() -> None:
    """Writes the generated files."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
