"""compose.yaml fits the specification, the settings, the images and the database's roles."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from citewire_embedder.settings import EmbedderSettings
from citewire_gateway.settings import GatewaySettings
from citewire_generator.settings import GeneratorSettings
from citewire_kit.settings import ProcessSettings
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.settings import RetrieverSettings
from deploy.rehearsal.specs import PORTS, ROLES

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "compose.yaml"
SETTINGS: dict[str, type[ProcessSettings]] = {
    "embedder": EmbedderSettings,
    "retriever": RetrieverSettings,
    "worker": WorkerSettings,
    "generator": GeneratorSettings,
    "gateway": GatewaySettings,
}


def services() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


def environment(service: str) -> dict[str, str]:
    """A service's environment if none of the variables is set."""
    return {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
        for name, value in services()[service].get("environment", {}).items()
    }


def test_the_file_fits_the_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SETTINGS)
def test_every_variable_is_a_setting_and_the_values_are_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, told = SETTINGS[name], environment(name)
    known = {settings.env_name(field) for field in settings.model_fields}
    assert set(told) <= known
    for variable, value in told.items():
        monkeypatch.setenv(variable, value)
    read = settings()  # pyright: ignore[reportCallIssue] # from the environment
    assert read.auth == "keys"


def test_only_the_gateway_has_a_port_and_only_on_this_machine() -> None:
    ports = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert set(ports) == {"gateway"}
    assert all(str(port).startswith("127.0.0.1:") for port in ports["gateway"])


def test_processes_find_each_other() -> None:
    targets = {value for name in SETTINGS for key, value in environment(name).items() if key.endswith("_TARGET")}
    assert targets == {f"{name}:{PORTS[name]}" for name in ("embedder", "retriever", "generator")}
    hosts = set(re.findall(r"@(\w+):5432/(\w+)", COMPOSE.read_text()))
    assert hosts == {("postgres", "citewire")}


def test_the_database_has_the_roles_that_connect() -> None:
    made = set(re.findall(r"^CREATE ROLE (\w+)", (ROOT / "deploy/compose/setup.sh").read_text(), re.MULTILINE))
    assert made == {*ROLES, "citewire_owner"}
    assert made == set(re.findall(r"postgresql://(\w+):", COMPOSE.read_text()))


def test_each_schema_is_migrated_before_its_processes_start() -> None:
    needs = {name: set(service.get("depends_on", {})) for name, service in services().items() if name in SETTINGS}
    assert needs == {
        "embedder": {"keys", "migrate-ledger"},
        "generator": {"keys", "migrate-ledger"},
        "retriever": {"keys", "migrate-corpus"},
        "worker": {"keys", "migrate-corpus"},
        "gateway": {"keys", "migrate-chat"},
    }
    chained = [name for name in needs if any(services()[need].get("depends_on") for need in needs[name])]
    assert chained == [], "podman 4.3 starts nothing whose dependency has one itself"


def test_every_image_is_built_once_from_its_own_file() -> None:
    files = {name: service["build"]["dockerfile"] for name, service in services().items() if "build" in service}
    assert sorted(files.values()) == [
        f"deploy/images/{name}/Dockerfile" for name in ("embedder", "gateway", "generator", "retriever")
    ]
    for name, file in files.items():
        assert (ROOT / file).is_file()
        assert f"citewire/{Path(file).parent.name}:dev" in services()[name]["image"]


def test_processes_are_confined() -> None:
    for name, service in services().items():
        if name != "postgres":
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert "no-new-privileges" in " ".join(service["security_opt"])
