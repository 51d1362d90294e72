"""Whether the network policies allow exactly the channels that the code has.

The channels are derived from the settings: a setting `*_target` is a call to that process, a `*dsn` to the database,
the settings of remote providers mean public addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from citewire_remote.settings import TenantProviderSettings
from manifests import SERVERS, CommandSettings, Resource, entries, labels_of, of_kind, part, pods, processes, selects

Edge: TypeAlias = tuple[str, str, int]
"""Caller, called process and port."""

DATABASE = "database"
POSTGRES = 5432
CALLED = ("embedder", "retriever", "generator")
"""The services that an operator's own callers may call."""
_METRICS_FROM = {"kubernetes.io/metadata.name": "monitoring"}
_DNS = {"kubernetes.io/metadata.name": "kube-system"}
_INGRESS = {"citewire.dev/ingress": "true"}
_ANYWHERE: list[dict[str, Any]] = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
_ELSEWHERE = {"kubernetes.io/metadata.name": "elsewhere"}


def policies_match_the_channels(resources: Sequence[Resource]) -> Iterator[str]:
    """The differences between allowed and needed channels."""
    policies = of_kind(resources, "NetworkPolicy")
    if not _denies_all(policies):
        yield "deny-all doesn't deny all"
    expected, allowed = set(_channels(resources)), set(_allowed(resources, policies))
    for caller, called, port in sorted(expected - allowed):
        yield f"{caller} may not call {called} on {port}"
    for caller, called, port in sorted(allowed - expected):
        yield f"{caller} may call {called} on {port}: no code does"
    for process in processes(resources):
        yield from _outside(process.name, process.settings, process.env, labels_of(process.workload), policies)
        yield from _labelled_callers(process.name, labels_of(process.workload), policies)


def _denies_all(policies: Sequence[Resource]) -> bool:
    return any(
        policy["spec"].get("podSelector") == {}
        and set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        and not policy["spec"].get("ingress")
        and not policy["spec"].get("egress")
        for policy in policies
    )


def _channels(resources: Sequence[Resource]) -> Iterator[Edge]:
    """The channels that the code uses."""
    has_database = any(labels_of(pod).get("citewire.dev/database") for pod in pods(resources))
    for process in processes(resources):
        for field, info in process.settings.model_fields.items():
            if field.endswith("_target"):
                called = field.removesuffix("_target")
                yield process.name, called, int(SERVERS[called].model_fields["port"].default)
            elif field.endswith("dsn") and has_database and (info.is_required() or _set(process.env, field)):
                yield process.name, DATABASE, POSTGRES


def _set(env: Mapping[str, str], field: str) -> bool:
    return any(name.endswith(f"_{field.upper()}") for name in env)


def _allowed(resources: Sequence[Resource], policies: Sequence[Resource]) -> Iterator[Edge]:
    """The channels allowed by both sides' policies, among all pods and all ports with listeners."""
    who = {_name(pod): labels_of(pod) for pod in pods(resources)}
    ports = {
        POSTGRES,
        *(int(server.model_fields[f].default) for server in SERVERS.values() for f in ("port", "metrics_port")),
    }
    for caller, labels in who.items():
        for called, others in who.items():
            if caller in (called, DATABASE):
                continue
            for port in ports - {0}:
                out = _lets(policies, "egress", labels, others, {}, port)
                if out and _lets(policies, "ingress", others, labels, {}, port):
                    yield caller, called, port


def _outside(
    name: str, settings: type[Any], env: Mapping[str, str], labels: Mapping[str, str], policies: Sequence[Resource]
) -> Iterator[str]:
    """Allowed traffic to and from outside the namespace."""
    for port in (53, 443):
        beyond = (TenantProviderSettings, CommandSettings)  # providers; sources of documents
        fetches = "fetch" in settings.model_fields and env.get("CITEWIRE_RETRIEVER_FETCH") != "false"
        providers = issubclass(settings, beyond) or _set(env, "oidc_issuers") or fetches
        needed = port == 53 or providers  # DNS
        to = _DNS if port == 53 else None  # DNS
        there = {"k8s-app": "kube-dns"}
        open_ = (
            _lets(policies, "egress", labels, there, to, port) if to else _reaches(policies, labels, "1.1.1.1", port)
        )
        if open_ != needed:
            yield f"{name}: {'may not' if needed else 'may'} reach {'DNS' if to else 'public addresses'} on {port}"
    for address in ("10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "fd00::1"):
        if any(_reaches(policies, labels, address, port) for port in (80, 443)):
            yield f"{name}: may reach {address}, which is nobody's provider"
    if "OTEL_EXPORTER_OTLP_ENDPOINT" in env and not _lets(policies, "egress", labels, {}, _METRICS_FROM, 4317):
        yield f"{name}: may not reach the collector of its traces"
    if name not in SERVERS:
        return
    fields = SERVERS[name].model_fields
    metrics, port = int(fields["metrics_port"].default), int(fields["port"].default)
    if not _lets(policies, "ingress", labels, {}, _METRICS_FROM, metrics, "metrics"):
        yield f"{name}: Prometheus may not ask for its metrics"
    if _lets(policies, "ingress", labels, {}, _METRICS_FROM, port):
        yield f"{name}: Prometheus may call its API"
    if _lets(policies, "ingress", labels, {}, _INGRESS, port) != (name == "gateway"):
        yield f"{name}: {'may not' if name == 'gateway' else 'may'} be reached from the ingress"
    if _lets(policies, "ingress", labels, {}, _ELSEWHERE, port) or _lets(
        policies, "ingress", labels, {}, _ELSEWHERE, metrics, "metrics"
    ):
        yield f"{name}: may be reached from any namespace"


def label_of_callers(called: str) -> dict[str, str]:
    """The label by which a service admits pods outside the picture, and the namespaces that they are in."""
    return {f"citewire.dev/calls-{called}": "true"}


def _labelled_callers(name: str, labels: Mapping[str, str], policies: Sequence[Resource]) -> Iterator[str]:
    """Whether the label of callers outside the picture admits to its service, and to nothing else."""
    ports = {int(server.model_fields[f].default) for server in SERVERS.values() for f in ("port", "metrics_port")}
    for called in CALLED:
        label = label_of_callers(called)
        for port in sorted(ports - {0}):
            own = called == name and port == int(SERVERS[name].model_fields["port"].default)
            for where, caller, namespace, admitted in (
                ("here", label, {}, own),
                ("in a labelled namespace", label, {**_ELSEWHERE, **label}, own),
                ("in any namespace", label, _ELSEWHERE, False),
                ("in a labelled namespace, without the label,", {}, {**_ELSEWHERE, **label}, False),
            ):
                entered = _lets(policies, "ingress", labels, caller, namespace, port)
                if entered != admitted:
                    yield f"{name}: a caller of the {called} {where} {'may not' if admitted else 'may'} reach {port}"
            if _lets(policies, "egress", label, labels, {}, port) != own:
                yield f"{name}: the namespace's policies {'stop' if own else 'let'} a caller of the {called} to {port}"


def _lets(
    policies: Sequence[Resource],
    way: str,
    own: Mapping[str, str],
    other: Mapping[str, str],
    namespace: Mapping[str, str] | None,
    port: int,
    port_name: str = "",
) -> bool:
    """Whether a pod's policies let traffic with a peer through; `namespace` is empty for the pod's own."""
    kind = "Egress" if way == "egress" else "Ingress"
    for policy in policies:
        spec = policy["spec"]
        if kind not in spec["policyTypes"] or not selects(part(spec, "podSelector"), own):
            continue
        for rule in entries(spec, way):
            peers = rule.get("to" if way == "egress" else "from")
            ports = rule.get("ports")
            if ports is not None and not any(entry["port"] in (port, port_name or port) for entry in ports):
                continue
            if peers is None or any(_is(peer, other, namespace or {}) for peer in peers):
                return True
    return False


def _is(peer: Mapping[str, Any], labels: Mapping[str, str], namespace: Mapping[str, str]) -> bool:
    if "ipBlock" in peer:
        return False
    if "namespaceSelector" in peer:
        if not namespace or not selects(peer["namespaceSelector"], namespace):
            return False
    elif namespace:
        return False
    return selects(part(peer, "podSelector"), labels)


def _reaches(policies: Sequence[Resource], own: Mapping[str, str], address: str, port: int) -> bool:
    host = ipaddress.ip_address(address)
    for policy in policies:
        spec = policy["spec"]
        if "Egress" not in spec["policyTypes"] or not selects(part(spec, "podSelector"), own):
            continue
        for rule in entries(spec, "egress"):
            if rule.get("ports") is not None and port not in [entry["port"] for entry in rule["ports"]]:
                continue
            for block in (peer["ipBlock"] for peer in rule.get("to", _ANYWHERE) if "ipBlock" in peer):
                inside = host in ipaddress.ip_network(block["cidr"])
                if inside and not any(host in ipaddress.ip_network(element) for element in block.get("except", [])):
                    return True
    return False


def _name(pod: Resource) -> str:
    labels = labels_of(pod)
    return DATABASE if labels.get("citewire.dev/database") else labels["app.kubernetes.io/component"]
