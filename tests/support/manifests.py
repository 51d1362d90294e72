"""Kubernetes manifests for tests: rendered by kubectl, found by kind, with the settings of each process."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings

from citewire_embedder.settings import EmbedderSettings
from citewire_gateway.settings import GatewaySettings
from citewire_generator.settings import GeneratorSettings
from citewire_kit.migrate import migrate_settings
from citewire_retriever.citus.exporter import WatchSettings
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.settings import RetrieverSettings

Resource: TypeAlias = dict[str, Any]

K8S = Path(__file__).resolve().parents[2] / "deploy" / "k8s"
WORKLOADS = ("Deployment", "StatefulSet", "Job", "CronJob")
SERVERS: Mapping[str, type[BaseSettings]] = {
    "gateway": GatewaySettings,
    "embedder": EmbedderSettings,
    "retriever": RetrieverSettings,
    "generator": GeneratorSettings,
    "worker": WorkerSettings,
}
"""Processes that run all the time, with their settings."""


class CommandSettings(BaseSettings):
    """The environment variables of the `citewire` command (`load_client_settings`)."""

    gateway_target: str = Field(validation_alias=AliasChoices("CITEWIRE_URL"))
    api_key: str = Field(validation_alias=AliasChoices("CITEWIRE_API_KEY"))


def render(folder: Path) -> list[Resource]:
    """The output of `kubectl kustomize` for a folder; fails with its error message."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"kubectl kustomize {folder}: {done.stderr}"
    assert not done.stderr, f"kubectl kustomize {folder} warns: {done.stderr}"
    return [resource for resource in yaml.load_all(done.stdout, Loader=_LOADER) if resource is not None]


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def write_combination(folder: Path, components: Sequence[str]) -> Path:
    """Writes a kustomization of the base with components; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    here = folder.resolve()
    content: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / "base", here)],
        "components": [os.path.relpath(K8S / "components" / name, here) for name in components],
    }
    if "mtls" not in components:
        plaintext = {"literals": ["CITEWIRE_PLAINTEXT=accepted"], "behavior": "merge"}
        content["configMapGenerator"] = [{"name": "citewire-common", "namespace": "citewire", **plaintext}]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


def component_names() -> list[str]:
    """All components."""
    return sorted(path.name for path in (K8S / "components").iterdir() if (path / "kustomization.yaml").is_file())


SETS: Mapping[str, list[str]] = yaml.safe_load((K8S / "tests" / "combinations.yaml").read_text())
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
COMBINATIONS = [*OVERLAYS, "base", *component_names(), *SETS]
_KUSTOMIZE = 5


def of_kind(resources: Sequence[Resource], *kinds: str) -> list[Resource]:
    """The resources of these kinds."""
    return [resource for resource in resources if resource["kind"] in kinds]


def name_of(resource: Resource) -> str:
    """Kind and name, for messages."""
    return f"{resource['kind']} {resource['metadata']['name']}"


def find(resources: Sequence[Resource], kind: str, name: str) -> Any:  # noqa: ANN401 # a document of YAML
    """A resource by its name, without the hash that kustomize adds to a ConfigMap's."""
    hashed = re.compile(rf"{re.escape(name)}(-[a-z0-9]{{10}})?")
    return next(
        resource
        for resource in resources
        if resource["kind"] == kind and hashed.fullmatch(resource["metadata"]["name"])
    )


class Rendered:
    """Renders each combination once: an overlay, the base, a component on it, or a set of combinations.yaml."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache: dict[str, list[Resource]] = {}

    def __call__(self, name: str) -> list[Resource]:
        """A copy of the combination's resources, to be changed at will."""
        if name not in self._cache:
            self._cache[name] = self._render(name)
        return copy.deepcopy(self._cache[name])

    def _render(self, name: str) -> list[Resource]:
        if name in OVERLAYS:
            return render(K8S / "overlays" / name)
        components = [] if name == "base" else SETS.get(name, [name])
        return render(write_combination(self._folder / name, components))


def needs_kustomize() -> None:
    """Skips tests if kubectl is too old."""
    version = json.loads(subprocess.check_output(["kubectl", "version", "--client", "-o", "json"]))
    kustomize = re.match(r"v(\d+)", version.get("kustomizeVersion", "v0"))
    if kustomize is None or int(kustomize[1]) < _KUSTOMIZE:
        pytest.skip("left out: kubectl is too old, its kustomize knows no components; 1.27 or newer does")


def template_of(workload: Resource) -> Resource:
    """The pod template of a workload; a CronJob has one in its Job template."""
    spec = workload["spec"]
    return (spec["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else spec)["template"]


def labels_of(resource: Resource) -> dict[str, str]:
    """A workload's pods' labels; for the database's own kinds, those that its operator gives them."""
    match resource["kind"]:
        case "Cluster":
            return dict(resource["spec"]["inheritedMetadata"]["labels"])
        case "Pooler":
            pooler = {"cnpg.io/poolerName": resource["metadata"]["name"]}
            return {**resource["spec"]["template"]["metadata"]["labels"], **pooler}
        case _:
            return dict(template_of(resource)["metadata"]["labels"])


def pods(resources: Sequence[Resource]) -> list[Resource]:
    """Everything that makes pods."""
    return of_kind(resources, *WORKLOADS, "Cluster", "Pooler")


def part(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A mapping within a mapping; empty if there is none."""
    return mapping.get(key) or {}


def entries(mapping: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of mappings within a mapping; empty if there is none."""
    return mapping.get(key) or []


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes all."""
    if any(labels.get(key) != value for key, value in part(selector, "matchLabels").items()):
        return False
    for entry in entries(selector, "matchExpressions"):
        there = labels.get(entry["key"])
        taken = {
            "In": there in entry.get("values", ()),
            "Exists": there is not None,
        }[entry["operator"]]
        if not taken:
            return False
    return True


@dataclass(frozen=True)
class Process:
    """One of our processes, as a container of a workload."""

    name: str
    workload: Resource
    container: Resource
    settings: type[BaseSettings]
    env: Mapping[str, str]
    """Its environment, with placeholders for values from Secrets."""


def processes(resources: Sequence[Resource]) -> Iterator[Process]:
    """All containers of our images, with their arguments and environment."""
    for workload in of_kind(resources, *WORKLOADS):
        pod = template_of(workload)["spec"]
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            if "citewire/" in container["image"]:
                name, settings = _process(container)
                yield Process(name, workload, container, settings, environment(resources, container))


def servers(resources: Sequence[Resource]) -> list[Process]:
    """Those that run all the time."""
    return [process for process in processes(resources) if process.name in SERVERS]


def environment(resources: Sequence[Resource], container: Resource) -> dict[str, str]:
    """A container's environment, with placeholders for values from Secrets."""
    maps = {element["metadata"]["name"]: part(element, "data") for element in of_kind(resources, "ConfigMap")}
    values: dict[str, str] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            values.update(maps[source["configMapRef"]["name"]])
    for entry in container.get("env", []):
        values[entry["name"]] = entry.get("value", _stand_in(entry["name"]))
    return values


def _stand_in(name: str) -> str:
    """A possible value from a Secret."""
    match name.rpartition("_")[2]:
        case "DSN":
            return "postgresql://user@host/database"
        case "ISSUERS":
            return '[{"issuer": "https://id.example.org", "client_id": "citewire", "org": "acme"}]'
        case "SECRETS":
            return 32 * "s"
        case _:
            return "secret"


def env_names(settings: type[BaseSettings]) -> set[str]:
    """The environment variables that a settings class reads."""
    prefix = str(settings.model_config.get("env_prefix", ""))
    names: set[str] = set()
    for field, info in settings.model_fields.items():
        alias = info.validation_alias
        choices = getattr(alias, "choices", None)
        if choices is not None:
            names.update(str(choice) for choice in choices)
        else:
            names.add(f"{prefix}{field}".upper())
    return names


def _process(container: Resource) -> tuple[str, type[BaseSettings]]:
    """The process that a container runs, by its image and arguments, as in the Dockerfiles."""
    image = container["image"].rpartition("/")[2].partition(":")[0].partition("@")[0]
    arguments = container.get("args", [])
    if arguments[:1] == ["migrate"]:
        ledger = container.get("command") == ["python", "-m", "citewire_ledger"]
        assert ledger or "command" not in container
        if ledger:
            assert image in ("generator", "embedder"), f"the image of the {image} has no ledger to migrate"
        return "migrate", migrate_settings(f"CITEWIRE_{'LEDGER' if ledger else image.upper()}_")
    if arguments[:1] == ["cluster"]:
        return "cluster", WatchSettings if arguments == ["cluster", "watch"] else migrate_settings(
            "CITEWIRE_RETRIEVER_"
        )
    if image == "cli":
        return arguments[0], CommandSettings
    if image == "retriever":
        return ("worker", WorkerSettings) if arguments == ["worker"] else ("retriever", RetrieverSettings)
    return image, SERVERS[image]
