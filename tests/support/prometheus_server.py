"""A real Prometheus on a free port, with the repository's configuration and rules, pointed at a running stack."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from local_ports import free_port
from monitoring_files import FOLDER, RULES

_SCRAPES = 3


class Prometheus:
    """The server."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=10)

    def is_ready(self) -> bool:
        """Whether it answers queries; it listens before that."""
        return self._http.get("/-/ready").status_code == 200

    def query(self, expression: str) -> list[Any]:
        """An expression's result now; fails if Prometheus refuses it."""
        answer = self._http.get("/api/v1/query", params={"query": expression})
        assert answer.status_code == 200, (expression, answer.text)
        return answer.json()["data"]["result"]

    def wait(self, look: Callable[[], bool], complaint: str | Callable[[], str], seconds: float = 180) -> None:
        """Waits until `look` returns true; fails with the complaint if it doesn't in time."""
        end = time.monotonic() + seconds
        while True:
            try:
                if look():
                    return
            except httpx.HTTPError:
                pass  # it doesn't listen yet
            assert time.monotonic() < end, complaint() if callable(complaint) else complaint
            time.sleep(0.2)  # nothing announces a scrape

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()


@contextmanager
def prometheus_server(folder: Path, metrics_ports: Mapping[str, int]) -> Generator[Prometheus]:
    """Runs it until the block ends; yields once every process has been scraped with success and every rule evaluated.

    Rules run every second and scrapes every two, instead of every 15 s to 5 min. A scrape may take no longer than that,
    and on a busy machine some do.
    """
    config: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "2s", "evaluation_interval": "1s"}
    jobs = {f"citewire-{process}": port for process, port in metrics_ports.items()}
    for scraped in config["scrape_configs"]:
        scraped["static_configs"] = [{"targets": [f"127.0.0.1:{jobs[scraped['job_name']]}"]}]
    (folder / "rules").mkdir()
    for path in RULES:
        rules: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in rules["groups"]:
            group["interval"] = "1s"
        (folder / "rules" / path.name).write_text(json.dumps(rules), encoding="utf-8")
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
    server = Prometheus(f"http://127.0.0.1:{port}")
    try:
        scraped = f"count(sum_over_time(up[1m]) >= {_SCRAPES}) or vector(0)"

        def ready() -> bool:
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            if not server.is_ready():
                return False
            series = int(server.query(scraped)[0]["value"][1])
            return series == len(jobs) and bool(server.query("citewire:chat_slow_ratio:rate3d"))

        server.wait(ready, "Prometheus did not scrape every process")
        yield server
    finally:
        server.close()
        process.terminate()
        process.wait(20)
