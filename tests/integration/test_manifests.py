"""deploy/k8s as a cluster receives it: every overlay, every component alone, and combinations of components.

`kubectl kustomize` renders them. The schemas of Kubernetes and of custom resources, checkov, and our own rules check
the result. test_manifest_faults.py shows that our rules find faults.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from fastapi.routing import APIRoute
from kubernetes_validate.utils import all_versions, major_minor, schema_contents
from referencing import Registry
from referencing import Resource as Referenced

import manifest_rules as rules
from citewire_gateway.app import ROUTES
from manifests import (
    COMBINATIONS,
    K8S,
    WORKLOADS,
    Rendered,
    Resource,
    component_names,
    name_of,
    needs_kustomize,
    of_kind,
    processes,
    render,
    template_of,
)
from scripts.checkov_environment import install as install_checkov

pytestmark = pytest.mark.system(program="kubectl", package="kubernetes-client")

ROOT = K8S.parents[1]
OLDEST, NEWEST = "1.30", "1.37"
"""Versions of Kubernetes: the first with everything that the manifests use, and the newest whose schemas we have."""

CUSTOM = {
    "cert-manager.io",
    "external-secrets.io",
    "gateway.networking.k8s.io",
    "keda.sh",
    "monitoring.coreos.com",
    "postgresql.cnpg.io",
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    needs_kustomize()
    return Rendered(tmp_path_factory.mktemp("manifests"))


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_our_rules_hold(rendered: Rendered, combination: str) -> None:
    resources = rendered(combination)
    assert [f"{rule.__name__}: {problem}" for rule in rules.RULES for problem in rule(resources)] == []


def test_the_example_with_a_remote_base_builds(tmp_path: Path) -> None:
    needs_kustomize()
    example = (K8S / "examples" / "remote" / "kustomization.yaml").read_text()
    folder = os.path.relpath(K8S, tmp_path.resolve())
    local, remotes = re.subn(r"https://\S+//deploy/k8s/(\S+)\?ref=v\S+", rf"{folder}/\1", example)
    assert remotes == 1 + len(yaml.safe_load(example)["components"])
    (tmp_path / "kustomization.yaml").write_text(local)
    resources = render(tmp_path)
    assert [f"{rule.__name__}: {problem}" for rule in rules.RULES for problem in rule(resources)] == []
    images = {c["image"] for d in of_kind(resources, "Deployment") for c in d["spec"]["template"]["spec"]["containers"]}
    assert all(image.startswith("registry.example.com/") for image in images)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_accepts_them(rendered: Rendered, version: str) -> None:
    seen = 0
    for _, resource in _distinct(rendered):
        if _group(resource) in CUSTOM:
            continue
        errors = _faults(resource, version)
        assert errors == [], name_of(resource)
        seen += 1
    assert seen > 100
    misspelt = next(element for element in rendered("base") if element["kind"] == "Deployment")
    misspelt["spec"]["template"]["spec"]["containersX"] = []
    assert len(_faults(misspelt, version)) == 1


def test_custom_resources_fit_their_schemas(rendered: Rendered, shared_data: Path) -> None:
    kinds: set[str] = set()
    for _, resource in _distinct(rendered):
        group = _group(resource)
        if group not in CUSTOM:
            continue
        version = resource["apiVersion"].rpartition("/")[2]
        schema = json.loads(
            (shared_data / "crd-schemas" / group / f"{resource['kind'].lower()}_{version}.json").read_text()
        )
        # The schema itself isn't validated: some of its patterns are in Go's syntax.
        validator: Any = jsonschema.Draft7Validator(schema)
        results = [f"{error.message} at {list(error.absolute_path)}" for error in validator.iter_errors(resource)]
        assert results == [], name_of(resource)
        kinds.add(resource["kind"])
    assert kinds >= {"Certificate", "Cluster", "ExternalSecret", "Gateway", "HTTPRoute", "Issuer", "PodMonitor"}
    assert kinds >= {"Pooler", "PrometheusRule", "ScaledObject", "ScheduledBackup"}


def test_checkov_finds_only_checks_skipped_with_reasons(rendered: Rendered, tmp_path: Path) -> None:
    for name, resource in _distinct(rendered):
        if resource["kind"] != "Secret":  # checkov rightly reports the development secrets' values
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(resource))
    # Includes a fault, to notice if checkov checks nothing.
    bad = next(element for element in rendered("base") if element["kind"] == "Deployment")
    bad["metadata"]["name"] = "faulty"
    bad["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"] = True
    (tmp_path / "faulty.yaml").write_text(yaml.safe_dump(bad))
    done = subprocess.run(
        [
            str(install_checkov()),
            *("--config-file", str(K8S / "tests" / "checkov.yaml")),
            *("--directory", str(tmp_path), "--output", "json"),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    failed = {(entry["check_id"], entry["resource"]) for entry in report["results"]["failed_checks"]}
    assert {resource for _, resource in failed} == {"Deployment.citewire.faulty"}, sorted(failed)
    assert "CKV_K8S_16" in {check for check, _ in failed}
    assert report["summary"]["passed"] > 1000
    assert report["summary"]["parsing_errors"] == 0


def test_every_skipped_check_has_its_reason() -> None:
    lines = (K8S / "tests" / "checkov.yaml").read_text().splitlines()
    skipped = [number for number, line in enumerate(lines) if line.startswith("  - CKV")]
    assert skipped
    assert all(lines[number - 1].startswith("  # ") for number in skipped)


def test_every_component_says_what_it_needs() -> None:
    for name in component_names():
        text = (K8S / "components" / name / "README.md").read_text()
        assert text.startswith("# "), name
        assert len(text) > 100, name


def test_secrets_have_values_in_development_only_and_their_names_are_documented(rendered: Rendered) -> None:
    documented = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    for combination in COMBINATIONS:
        resources = rendered(combination)
        assert (of_kind(resources, "Secret") != []) == (combination == "dev")
        if combination == "dev":
            continue
        for name in _secrets(resources):
            assert f"`{name}`" in documented, name


def test_external_secrets_have_each_key_that_a_process_reads(rendered: Rendered) -> None:
    """Also the optional ones, which a store may lack: so they can't be listed one by one."""
    resources = rendered("external-secrets")
    created = {entry["spec"]["target"]["name"]: entry["spec"] for entry in of_kind(resources, "ExternalSecret")}
    read = {
        (variable["valueFrom"]["secretKeyRef"]["name"], variable["valueFrom"]["secretKeyRef"]["key"])
        for workload in of_kind(resources, *WORKLOADS)
        for container in template_of(workload)["spec"]["containers"]
        for variable in container.get("env", [])
        if "secretKeyRef" in variable.get("valueFrom", {})
    }
    for process in ("retriever", "worker"):
        assert (f"citewire-{process}", f"CITEWIRE_{process.upper()}_DIRECT_DSN") in read
    for name, key in read:
        listed = [entry["secretKey"] for entry in created[name].get("data", [])]
        assert key in listed or "dataFrom" in created[name], f"{name}: {key}"


def test_the_routes_of_the_gateway_api_are_those_of_the_gateway(rendered: Rendered) -> None:
    matches = [
        (match["path"]["type"], match["path"]["value"])
        for route in of_kind(rendered("gateway-api"), "HTTPRoute")
        for rule in route["spec"]["rules"]
        for match in rule["matches"]
    ]
    paths = {route.path for module in ROUTES for route in module.router.routes if isinstance(route, APIRoute)}
    not_public = {"/livez", "/readyz"}

    def taken(path: str) -> bool:
        # A prefix matches the path itself and everything below it.
        return any(path == value or (kind != "Exact" and path.startswith(f"{value}/")) for kind, value in matches)

    assert len(paths) > 20
    assert {path for path in paths if not taken(path)} == not_public
    assert taken("/openapi.json")


def test_migrations_run_in_the_order_of_their_needs(rendered: Rendered) -> None:
    jobs = {entry["metadata"]["name"]: entry for entry in of_kind(rendered("base"), "Job")}
    assert {name: job["spec"]["suspend"] for name, job in jobs.items()} == {"migrate-pre": False, "migrate-post": True}
    for phase in ("pre", "post"):
        run = list(processes([jobs[f"migrate-{phase}"]]))
        assert [process.settings.model_config.get("env_prefix") for process in run] == [
            "CITEWIRE_RETRIEVER_",
            "CITEWIRE_GATEWAY_",
            "CITEWIRE_LEDGER_",
        ]
        assert all(process.container["args"] == ["migrate", "--phase", phase] for process in run)


def _secrets(resources: Sequence[Resource]) -> Iterator[str]:
    for workload in of_kind(resources, *WORKLOADS):
        pod = template_of(workload)["spec"]
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            yield from (
                variable["valueFrom"]["secretKeyRef"]["name"]
                for variable in container.get("env", [])
                if "secretKeyRef" in variable.get("valueFrom", {})
            )
            yield from (
                variable["secretRef"]["name"] for variable in container.get("envFrom", []) if "secretRef" in variable
            )
        issued = {element["spec"]["secretName"] for element in of_kind(resources, "Certificate")}
        mounted = {entry["secret"]["secretName"] for entry in pod.get("volumes", []) if "secret" in entry}
        yield from mounted - issued


def _faults(resource: Resource, version: str) -> list[str]:
    """Returns Kubernetes's errors like `kubernetes_validate.validate`, which would read all definitions each time."""
    api_version = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", resource["apiVersion"])
    errors = _validator(version, f"{resource['kind'].lower()}-{api_version}").iter_errors(resource)
    return [f"{error.message} at {list(error.absolute_path)}" for error in errors]


@cache
def _validator(version: str, name: str) -> Any:  # noqa: ANN401 # jsonschema has no type for it
    schema = _schema(version, name)
    return jsonschema.Draft202012Validator(schema, registry=Referenced.from_contents(schema) @ _definitions(version))


@cache
def _definitions(version: str) -> Registry[Any]:
    return (Referenced.from_contents(_schema(version, "_definitions")) @ Registry[Any]()).crawl()


def _schema(version: str, name: str) -> Any:  # noqa: ANN401 # a JSON schema can have any shape
    (whole,) = {full for full in all_versions() if major_minor(full) == version}
    return schema_contents(f"kubernetes-json-schema/v{whole}-local-strict/{name}.json", version)


def _group(resource: Resource) -> str:
    group, _, version = resource["apiVersion"].rpartition("/")
    return group if version else ""


def _distinct(rendered: Rendered) -> Iterator[tuple[str, Resource]]:
    """Returns the resources of all combinations without duplicates."""
    seen: set[str] = set()
    for combination in COMBINATIONS:
        for resource in rendered(combination):
            digest = hashlib.sha256(json.dumps(resource, sort_keys=True).encode()).hexdigest()[:12]
            if digest not in seen:
                seen.add(digest)
                yield f"{combination}-{resource['kind'].lower()}-{digest}", resource
