"""Rules for every set of our manifests, beyond those of schemas and checkov.

Each rule takes the rendered resources and returns the faults in words. `RULES` contains all rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from pydantic import ValidationError

from citewire_gateway.settings import GatewaySettings
from citewire_kit.health import LIVENESS, STARTUP
from citewire_kit.metrics import STREAMS_IN_FLIGHT
from citewire_kit.settings import ProcessSettings
from citewire_retriever.ingest.metrics import QUEUE_DEPTH
from manifest_policies import CALLED, label_of_callers, policies_match_the_channels
from manifests import (
    SERVERS,
    WORKLOADS,
    Process,
    Resource,
    env_names,
    labels_of,
    name_of,
    of_kind,
    pods,
    processes,
    selects,
    servers,
    template_of,
)

Rule = Callable[[Sequence[Resource]], Iterator[str]]
_LAST_FRAMES = 5
"""Seconds that a process may take after its drain."""
_TOGETHER = {"PodDisruptionBudget citus": ["StatefulSet citus-coordinator", "StatefulSet citus-worker"]}
"""What takes the pods of exactly these workloads, on purpose: of a cluster's nodes, one may go at a time."""
_UNITS = {"": 1.0, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def selectors_match(resources: Sequence[Resource]) -> Iterator[str]:
    """Every selector of pods matches some, and those of only one workload where required."""
    for workload in of_kind(resources, "Deployment", "StatefulSet"):
        if not selects(workload["spec"]["selector"], labels_of(workload)):
            yield f"{name_of(workload)}: its selector doesn't take its own pods"
    for entry in of_kind(resources, "Service", "PodDisruptionBudget", "PodMonitor", "NetworkPolicy"):
        spec = entry["spec"]
        selector = {"matchLabels": spec["selector"]} if entry["kind"] == "Service" else None
        selector = selector or spec.get("selector") or spec.get("podSelector") or {}
        taken = [workload for workload in pods(resources) if selects(selector, labels_of(workload))]
        of_callers = entry["kind"] == "NetworkPolicy" and any(selects(selector, label_of_callers(c)) for c in CALLED)
        if not taken and not of_callers:
            yield f"{name_of(entry)}: selects no pod"
        owners = [name_of(workload) for workload in taken]
        together = _TOGETHER.get(name_of(entry))
        if entry["kind"] in ("Service", "PodDisruptionBudget") and (owners != together if together else len(taken) > 1):
            yield f"{name_of(entry)}: selects pods of {', '.join(owners)}"
    names = {workload["metadata"]["name"] for workload in of_kind(resources, "Deployment")}
    for scaler in of_kind(resources, "HorizontalPodAutoscaler", "ScaledObject"):
        if scaler["spec"]["scaleTargetRef"]["name"] not in names:
            yield f"{name_of(scaler)}: there is no such Deployment"


def ports_agree(resources: Sequence[Resource]) -> Iterator[str]:
    """Services, containers, probes and settings use the same ports; targets name existing Services."""
    for process in servers(resources):
        where = name_of(process.workload)
        there = {port["name"]: port["containerPort"] for port in process.container.get("ports", [])}
        settings = server_settings(process)
        expected = {"metrics": settings.metrics_port}
        if process.name != "worker":
            expected["http" if process.name == "gateway" else "grpc"] = settings.port
        if settings.probe_port:
            expected["probes"] = settings.probe_port
        if there != expected:
            yield f"{where}: its container has {there}, the process listens on {expected}"
    for service in of_kind(resources, "Service"):
        selector = {"matchLabels": service["spec"]["selector"]}
        for workload in of_kind(resources, "Deployment", "StatefulSet"):
            if selects(selector, labels_of(workload)):
                container = workload["spec"]["template"]["spec"]["containers"][0]
                there = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
                for port in service["spec"]["ports"]:
                    if there.get(port["targetPort"]) != port["port"]:
                        yield f"{name_of(service)}: port {port['port']} leads to {port['targetPort']} of {there}"
    offered = {
        (entry["metadata"]["name"], port["port"])
        for entry in of_kind(resources, "Service")
        for port in entry["spec"]["ports"]
    }
    for process in processes(resources):
        for name, target in targets(process).items():
            host, _, port = target.removeprefix("dns:///").removeprefix("http://").partition(":")
            if (host, int(port or 0)) not in offered:
                yield f"{name_of(process.workload)}: {name} is {target}, and no Service is that"


def probes_mean_different_things(resources: Sequence[Resource]) -> Iterator[str]:
    """Startup, liveness and readiness probes check what their names promise, on ports that answer them."""
    for process in servers(resources):
        container, where = process.container, name_of(process.workload)
        missing = [kind for kind in ("startupProbe", "livenessProbe", "readinessProbe") if kind not in container]
        if missing:
            yield f"{where}: has no {', '.join(missing)}"
            continue
        start, live, ready = (container[kind] for kind in ("startupProbe", "livenessProbe", "readinessProbe"))
        if process.name == "gateway":
            paths = tuple(probe.get("httpGet", {}).get("path") for probe in (start, live, ready))
            if paths != ("/livez", "/livez", "/readyz"):
                yield f"{where}: probes ask for {paths}"
        else:
            names = tuple(probe.get("grpc", {}).get("service", "") for probe in (start, live, ready))
            expected = (STARTUP, LIVENESS, STARTUP if process.name == "worker" else "")
            if names != expected:
                yield f"{where}: probes ask for {names}, not {expected}"
            settings = server_settings(process)
            port = settings.probe_port if process.name == "worker" or settings.tls() is not None else settings.port
            asked = {probe.get("grpc", {}).get("port") for probe in (start, live, ready)}
            if asked != {port}:
                yield f"{where}: probes ask on {asked}; plain health checks are answered on {port}"
        if start.get("periodSeconds", 10) * start.get("failureThreshold", 3) < 60:
            yield f"{where}: has less than a minute to start"


def grace_covers_the_drain(resources: Sequence[Resource]) -> Iterator[str]:
    """A pod is killed only after it has left its Services, drained and flushed its telemetry."""
    longest = float(GatewaySettings.model_fields["chat_seconds"].default)
    for process in servers(resources):
        settings, where = server_settings(process), name_of(process.workload)
        before = process.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        grace = process.workload["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        needed = before + settings.leave_seconds + settings.drain_seconds + _LAST_FRAMES
        if before < 1:
            yield f"{where}: doesn't wait until Services and DNS no longer name it"
        if grace < needed:
            yield f"{where}: is killed after {grace} s and needs {needed:g} s"
        if settings.drain_seconds < longest:
            yield f"{where}: drains for {settings.drain_seconds:g} s, and a stream may last {longest:g} s"


def rollouts_wait_for_callers(resources: Sequence[Resource]) -> Iterator[str]:
    """No replica is removed before a new one is ready and callers have found it."""
    for process in servers(resources):
        spec, where = process.workload["spec"], name_of(process.workload)
        if spec.get("strategy", {}).get("rollingUpdate", {}).get("maxUnavailable") != 0:
            yield f"{where}: a rollout takes a replica away before it brings one"
        result = server_settings(process).connection_seconds
        if spec.get("minReadySeconds", 0) <= result:
            yield f"{where}: callers find a new replica within {result:g} s, and a rollout doesn't wait that long"


def disruption_budgets_are_sane(resources: Sequence[Resource]) -> Iterator[str]:
    """Each Deployment has one disruption budget, which allows draining a node but never removes all replicas."""
    budgets = of_kind(resources, "PodDisruptionBudget")
    least = {
        scaler["spec"]["scaleTargetRef"]["name"]: scaler["spec"].get(
            "minReplicas", scaler["spec"].get("minReplicaCount")
        )
        for scaler in of_kind(resources, "HorizontalPodAutoscaler", "ScaledObject")
    }
    for workload in of_kind(resources, "Deployment"):
        name = workload["metadata"]["name"]
        replicas = least.get(name, workload["spec"].get("replicas", 1))
        own = [budget for budget in budgets if selects(budget["spec"]["selector"], labels_of(workload))]
        if len(own) != 1:
            yield f"{name_of(workload)}: has {len(own)} disruption budgets"
            continue
        spec = own[0]["spec"]
        at_least, at_most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if at_least is not None and (not isinstance(at_least, int) or at_least >= replicas):
            yield f"{name_of(own[0])}: keeps {at_least} of {replicas}: no node can be drained"
        if at_least is None and (not isinstance(at_most, int) or at_most < 1 or (replicas > 1 and at_most >= replicas)):
            yield f"{name_of(own[0])}: lets {at_most} of {replicas} go"


def limits_cover_requests(resources: Sequence[Resource]) -> Iterator[str]:
    """Every container requests processor, memory and disk, with limits not below the requests."""
    for where, container, _ in _containers(resources):
        requests = container.get("resources", {}).get("requests", {})
        limits = container.get("resources", {}).get("limits", {})
        for kind in ("cpu", "memory", "ephemeral-storage"):
            if kind not in requests or kind not in limits:
                yield f"{where}: has no request or no limit of {kind}"
            elif _amount(limits[kind]) < _amount(requests[kind]):
                yield f"{where}: asks for {requests[kind]} of {kind} and may have {limits[kind]}"


def settings_exist(resources: Sequence[Resource]) -> Iterator[str]:
    """Every variable is a setting of the process that gets it, or part of an argument, and together they are valid."""
    for process in processes(resources):
        known = env_names(process.settings) | set(re.findall(r"\$\((\w+)\)", str(process.container.get("args"))))
        yield from [
            f"{name_of(process.workload)}: {name} is no setting of {process.settings.__name__}"
            for name in process.env
            if name not in known
        ]
        try:
            read(process)
        except ValidationError as exc:
            yield from [f"{name_of(process.workload)}: {error['loc']}: {error['msg']}" for error in exc.errors()]
    missing = set(SERVERS) - {process.name for process in servers(resources)}
    yield from [f"no Deployment runs the {name}" for name in sorted(missing)]


def images_have_versions(resources: Sequence[Resource]) -> Iterator[str]:
    """Every image has a fixed tag or digest."""
    for where, container, _ in _containers(resources):
        name, _, digest = container["image"].partition("@")
        tag = name.rpartition("/")[2].partition(":")[2]
        if not digest and tag in ("", "latest"):
            yield f"{where}: {container['image']} can be anything"


def pods_are_restricted(resources: Sequence[Resource]) -> Iterator[str]:
    """The namespace enforces the restricted standard, and our pods go further: nothing to write, no token."""
    spaces = of_kind(resources, "Namespace")
    if [space["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") for space in spaces] != ["restricted"]:
        yield "the namespace doesn't enforce the restricted pod security standard"
    accounts = {entry["metadata"]["name"]: entry for entry in of_kind(resources, "ServiceAccount")}
    for workload in of_kind(resources, *WORKLOADS):
        pod, where = template_of(workload)["spec"], name_of(workload)
        context = pod.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or context.get("runAsUser", 0) < 10_000:
            yield f"{where}: may run as root, or as a user of the node"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{where}: has no seccomp profile"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{where}: gets a token of Kubernetes"
        account = accounts.get(pod.get("serviceAccountName", ""))
        if account is None or account.get("automountServiceAccountToken") is not False:
            yield f"{where}: has no service account of its own without a token"
        if any(pod.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC")):
            yield f"{where}: shares the node's namespaces"
        for volume in pod.get("volumes", []):
            if not set(volume) & {"emptyDir", "secret", "configMap", "persistentVolumeClaim"}:
                yield f"{where}: mounts {volume}"
    for where, container, _ in _containers(resources):
        context = container.get("securityContext", {})
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"{where}: can write to its root file system"
        if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
            yield f"{where}: may gain privileges"
        capabilities = context.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            yield f"{where}: keeps capabilities"
        if "/tmp" not in [mount["mountPath"] for mount in container.get("volumeMounts", [])]:  # noqa: S108 # the pod's own
            yield f"{where}: has nowhere to put a spool file"


def autoscalers_decide_alone(resources: Sequence[Resource]) -> Iterator[str]:
    """Only the autoscaler sets the number of replicas; without an autoscaler, there is more than one replica."""
    scalers = of_kind(resources, "HorizontalPodAutoscaler", "ScaledObject")
    for workload in of_kind(resources, "Deployment"):
        own = [scaler for scaler in scalers if scaler["spec"]["scaleTargetRef"]["name"] == workload["metadata"]["name"]]
        if len(own) > 1:
            yield f"{name_of(workload)}: two autoscalers set its replicas"
        if own and "replicas" in workload["spec"]:
            yield f"{name_of(workload)}: each apply puts {workload['spec']['replicas']} replicas back"
        if not own and "replicas" not in workload["spec"]:
            yield f"{name_of(workload)}: nobody sets its replicas"
    for scaler in scalers:
        spec = scaler["spec"]
        least = spec.get("minReplicas", spec.get("minReplicaCount"))
        if least is None or least < 1 or least > spec.get("maxReplicas", spec.get("maxReplicaCount", 0)):
            yield f"{name_of(scaler)}: from {least} up is no range"


def references_exist(resources: Sequence[Resource]) -> Iterator[str]:
    """ConfigMaps are created here, Secrets elsewhere except in development; mounts name volumes."""
    maps = {element["metadata"]["name"] for element in of_kind(resources, "ConfigMap")}
    for where, container, pod in _containers(resources):
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        claimed = {"data"} if "StatefulSet" in where else set[str]()
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes.keys() | claimed:
                yield f"{where}: mounts {mount['name']}, and there is no such volume"
        asked = [source["configMapRef"]["name"] for source in container.get("envFrom", []) if "configMapRef" in source]
        asked += [volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume]
        yield from [f"{where}: there is no ConfigMap {name}" for name in asked if name not in maps]
    for route in of_kind(resources, "HTTPRoute"):
        services = {entry["metadata"]["name"]: entry for entry in of_kind(resources, "Service")}
        for rule in route["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                ports = [port["port"] for port in services.get(backend["name"], {}).get("spec", {}).get("ports", [])]
                if backend["port"] not in ports:
                    yield f"{name_of(route)}: {backend} is no Service"
            prefixes = {match["path"]["value"] for match in rule["matches"]}
            if prefixes & {"/v1", "/v2", "/api"} and rule.get("timeouts", {}).get("request") != "0s":
                yield f"{name_of(route)}: cuts streams of {sorted(prefixes)}"


def queries_name_what_exists(resources: Sequence[Resource]) -> Iterator[str]:
    """Autoscalers use existing metrics, and all queries use the jobs that a PodMonitor creates for our pods."""
    known = {metric.name for gauge in (STREAMS_IN_FLIGHT, QUEUE_DEPTH) for metric in gauge.collect()}
    jobs = {labels_of(workload)["app.kubernetes.io/name"] for workload in of_kind(resources, "Deployment")}
    for scaler in of_kind(resources, "HorizontalPodAutoscaler", "ScaledObject"):
        asked = set(re.findall(r"citewire_\w+", str(scaler["spec"])))
        for name in sorted(asked - known):
            yield f"{name_of(scaler)}: scales by {name}, which no process has"
    for entry in of_kind(resources, "ScaledObject", "PrometheusRule"):
        for job in sorted(set(re.findall(r'job="([^"]+)"', str(entry["spec"]))) - jobs):
            yield f"{name_of(entry)}: asks for the job {job}, and no pods are that"
    for entry in of_kind(resources, "PodMonitor"):
        ports = {port["name"] for process in servers(resources) for port in process.container["ports"]}
        if entry["spec"].get("jobLabel") != "app.kubernetes.io/name":
            yield f"{name_of(entry)}: its jobs aren't those that rules and dashboards ask for"
        for endpoint in entry["spec"]["podMetricsEndpoints"]:
            if endpoint["port"] not in ports:
                yield f"{name_of(entry)}: no container has the port {endpoint['port']}"


def everything_is_in_the_namespace(resources: Sequence[Resource]) -> Iterator[str]:
    """No resource depends on the default namespace of the operator's kubectl."""
    for resource in resources:
        if resource["kind"] != "Namespace" and resource["metadata"].get("namespace") != "citewire":
            yield f"{name_of(resource)}: is in {resource['metadata'].get('namespace', 'any namespace')}"


def certificates_fit(resources: Sequence[Resource]) -> Iterator[str]:
    """With TLS, each process mounts its own certificate, at the expected path, for its Service's name."""
    issued = {entry["spec"]["secretName"]: entry["spec"] for entry in of_kind(resources, "Certificate")}
    for process in servers(resources):
        settings, where = server_settings(process), name_of(process.workload)
        files = settings.tls()
        if files is None:
            continue
        pod = process.workload["spec"]["template"]["spec"]
        secrets = {
            element["name"]: element["secret"]["secretName"] for element in pod["volumes"] if "secret" in element
        }
        mounted = {mount["mountPath"]: secrets.get(mount["name"]) for mount in process.container["volumeMounts"]}
        certificate = issued.get(mounted.get(str(files.cert.parent)) or "")
        if certificate is None:
            yield f"{where}: no certificate is issued for {files.cert.parent}"
            continue
        if (files.cert.name, files.key.name, files.ca.name) != ("tls.crt", "tls.key", "ca.crt"):
            yield f"{where}: cert-manager gives its files other names"
        if process.name not in certificate["dnsNames"] or {"server auth", "client auth"} - set(certificate["usages"]):
            yield f"{where}: its certificate is for {certificate['dnsNames']}, {certificate['usages']}"


def read(process: Process) -> Any:  # noqa: ANN401 # a settings class of any process
    """Returns the settings that the process would have."""
    with mock.patch.dict(os.environ, process.env, clear=True):
        return process.settings()


def server_settings(process: Process) -> ProcessSettings:
    """The same for a server."""
    settings = read(process)
    assert isinstance(settings, ProcessSettings)
    return settings


def targets(process: Process) -> dict[str, str]:
    """The gRPC targets that a process calls, by the name of their setting."""
    settings = read(process)
    return {name: str(getattr(settings, name)) for name in process.settings.model_fields if name.endswith("_target")}


def _containers(resources: Sequence[Resource]) -> list[tuple[str, Resource, Resource]]:
    return [
        (f"{name_of(workload)}, container {container['name']}", container, pod)
        for workload in of_kind(resources, *WORKLOADS)
        for pod in (template_of(workload)["spec"],)
        for container in [*pod.get("initContainers", []), *pod["containers"]]
    ]


def _amount(value: object) -> float:
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(value))
    assert match is not None, value
    return float(match[1]) * _UNITS[match[2]]


RULES: tuple[Rule, ...] = (
    selectors_match,
    ports_agree,
    probes_mean_different_things,
    grace_covers_the_drain,
    rollouts_wait_for_callers,
    disruption_budgets_are_sane,
    limits_cover_requests,
    settings_exist,
    images_have_versions,
    pods_are_restricted,
    autoscalers_decide_alone,
    references_exist,
    queries_name_what_exists,
    everything_is_in_the_namespace,
    certificates_fit,
    policies_match_the_channels,
)
