"""Faults of manifests: the rule that must find each, the place and kind of the change, and the rule's message."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import manifest_rules as rules
from manifest_policy_faults import POLICY_FAULTS
from manifests import Resource, find

Change = Callable[[list[Resource]], None]


def _pod(resources: Sequence[Resource], name: str) -> Any:  # noqa: ANN401 # a document of YAML
    return find(resources, "Deployment", name)["spec"]["template"]["spec"]


def _container(resources: Sequence[Resource], name: str) -> Any:  # noqa: ANN401 # a document of YAML
    return _pod(resources, name)["containers"][0]


FAULTS: list[tuple[str, rules.Rule, str, Change, str]] = [
    (
        "a Service that selects nobody",
        rules.selectors_match,
        "base",
        lambda all_: find(all_, "Service", "embedder")["spec"].update(selector={"app": "embedder"}),
        "Service embedder: selects no pod",
    ),
    (
        "a Service that selects everybody",
        rules.selectors_match,
        "base",
        lambda all_: find(all_, "Service", "embedder")["spec"].update(
            selector={"app.kubernetes.io/part-of": "citewire"}
        ),
        "selects pods of",
    ),
    (
        "a disruption budget for only some of a cluster's nodes",
        rules.selectors_match,
        "postgres-citus",
        lambda all_: find(all_, "PodDisruptionBudget", "citus")["spec"].update(
            selector={"matchLabels": {"app.kubernetes.io/name": "citewire-citus-worker"}}
        ),
        "PodDisruptionBudget citus: selects pods of StatefulSet citus-worker",
    ),
    (
        "a Deployment that doesn't take its own pods",
        rules.selectors_match,
        "base",
        lambda all_: find(all_, "Deployment", "worker")["spec"]["selector"].update(matchLabels={"a": "b"}),
        "its selector doesn't take its own pods",
    ),
    (
        "an autoscaler of nobody",
        rules.selectors_match,
        "keda",
        lambda all_: find(all_, "ScaledObject", "gateway")["spec"].update(scaleTargetRef={"name": "gatewai"}),
        "there is no such Deployment",
    ),
    (
        "a Service on another port",
        rules.ports_agree,
        "base",
        lambda all_: find(all_, "Service", "retriever")["spec"]["ports"][0].update(port=50051),
        "port 50051 leads to grpc",
    ),
    (
        "a container port that nobody listens on",
        rules.ports_agree,
        "base",
        lambda all_: _container(all_, "generator")["ports"][0].update(containerPort=50052),
        "the process listens on",
    ),
    (
        "a target without a Service",
        rules.ports_agree,
        "base",
        lambda all_: all_.remove(find(all_, "Service", "generator")),
        "generator_target is dns:///generator:50053, and no Service is that",
    ),
    (
        "a liveness probe that asks what readiness asks",
        rules.probes_mean_different_things,
        "base",
        lambda all_: _container(all_, "retriever")["livenessProbe"].update(grpc={"port": 50052}),
        "probes ask for",
    ),
    (
        "no startup probe",
        rules.probes_mean_different_things,
        "base",
        lambda all_: _container(all_, "embedder").pop("startupProbe"),
        "has no startupProbe",
    ),
    (
        "a gRPC probe on a port with TLS",
        rules.probes_mean_different_things,
        "mtls",
        lambda all_: _container(all_, "retriever")["readinessProbe"]["grpc"].update(port=50052),
        "plain health checks are answered on 50062",
    ),
    (
        "a gateway that is restarted when the database is away",
        rules.probes_mean_different_things,
        "base",
        lambda all_: _container(all_, "gateway")["livenessProbe"]["httpGet"].update(path="/readyz"),
        "probes ask for",
    ),
    (
        "a grace that is shorter than the drain",
        rules.grace_covers_the_drain,
        "base",
        lambda all_: _pod(all_, "gateway").update(terminationGracePeriodSeconds=310),
        "is killed after 310 s and needs 322 s",
    ),
    (
        "a drain that is shorter than a stream",
        rules.grace_covers_the_drain,
        "base",
        lambda all_: find(all_, "ConfigMap", "citewire-generator")["data"].update(
            CITEWIRE_GENERATOR_DRAIN_SECONDS="60"
        ),
        "drains for 60 s",
    ),
    (
        "a pod that stops before it is out of DNS",
        rules.grace_covers_the_drain,
        "base",
        lambda all_: _container(all_, "retriever").pop("lifecycle"),
        "doesn't wait until Services and DNS no longer name it",
    ),
    (
        "a rollout that is faster than callers find replicas",
        rules.rollouts_wait_for_callers,
        "base",
        lambda all_: find(all_, "ConfigMap", "citewire-common")["data"].pop("CITEWIRE_CONNECTION_SECONDS"),
        "callers find a new replica within 30 s",
    ),
    (
        "a rollout that begins by taking away",
        rules.rollouts_wait_for_callers,
        "base",
        lambda all_: find(all_, "Deployment", "gateway")["spec"].update(strategy={"type": "Recreate"}),
        "takes a replica away before it brings one",
    ),
    (
        "a disruption budget that keeps every node",
        rules.disruption_budgets_are_sane,
        "base",
        lambda all_: find(all_, "PodDisruptionBudget", "gateway").update(
            spec={"minAvailable": 2, "selector": find(all_, "PodDisruptionBudget", "gateway")["spec"]["selector"]}
        ),
        "no node can be drained",
    ),
    (
        "a disruption budget that lets all go",
        rules.disruption_budgets_are_sane,
        "base",
        lambda all_: find(all_, "PodDisruptionBudget", "gateway")["spec"].update(maxUnavailable=2),
        "lets 2 of 2 go",
    ),
    (
        "no disruption budget",
        rules.disruption_budgets_are_sane,
        "base",
        lambda all_: all_.remove(find(all_, "PodDisruptionBudget", "worker")),
        "has 0 disruption budgets",
    ),
    (
        "a limit below the request",
        rules.limits_cover_requests,
        "base",
        lambda all_: _container(all_, "embedder")["resources"]["limits"].update(memory="512Mi"),
        "asks for 1Gi of memory and may have 512Mi",
    ),
    (
        "no limit",
        rules.limits_cover_requests,
        "base",
        lambda all_: _container(all_, "embedder")["resources"].pop("limits"),
        "no limit of cpu",
    ),
    (
        "a variable that is no setting",
        rules.settings_exist,
        "base",
        lambda all_: find(all_, "ConfigMap", "citewire-worker")["data"].update(CITEWIRE_WORKER_CONCURENCY="4"),
        "CITEWIRE_WORKER_CONCURENCY is no setting of WorkerSettings",
    ),
    (
        "a value that no setting takes",
        rules.settings_exist,
        "base",
        lambda all_: find(all_, "ConfigMap", "citewire-common")["data"].update(CITEWIRE_AUTH="off"),
        "must be a loopback address",
    ),
    (
        "a required setting that is missing",
        rules.settings_exist,
        "base",
        lambda all_: _container(all_, "gateway").update(env=[]),
        "Field required",
    ),
    (
        "a process that nobody runs",
        rules.settings_exist,
        "base",
        lambda all_: all_.remove(find(all_, "Deployment", "worker")),
        "no Deployment runs the worker",
    ),
    (
        "an image that floats",
        rules.images_have_versions,
        "base",
        lambda all_: _container(all_, "gateway").update(image="registry.example.com:5000/citewire/gateway"),
        "can be anything",
    ),
    (
        "the latest image",
        rules.images_have_versions,
        "base",
        lambda all_: _container(all_, "gateway").update(image="citewire/gateway:latest"),
        "can be anything",
    ),
    (
        "a root file system that can be written",
        rules.pods_are_restricted,
        "base",
        lambda all_: _container(all_, "gateway")["securityContext"].update(readOnlyRootFilesystem=False),
        "can write to its root file system",
    ),
    (
        "a capability that is kept",
        rules.pods_are_restricted,
        "base",
        lambda all_: _container(all_, "gateway")["securityContext"]["capabilities"].update(add=["NET_ADMIN"]),
        "keeps capabilities",
    ),
    (
        "a token of Kubernetes",
        rules.pods_are_restricted,
        "base",
        lambda all_: _pod(all_, "gateway").pop("automountServiceAccountToken"),
        "gets a token",
    ),
    (
        "a pod that runs as root",
        rules.pods_are_restricted,
        "base",
        lambda all_: _pod(all_, "gateway")["securityContext"].update(runAsUser=0),
        "may run as root",
    ),
    (
        "a namespace that takes anything",
        rules.pods_are_restricted,
        "base",
        lambda all_: find(all_, "Namespace", "citewire")["metadata"].update(labels={}),
        "doesn't enforce the restricted",
    ),
    (
        "an autoscaler whose Deployment has replicas",
        rules.autoscalers_decide_alone,
        "hpa",
        lambda all_: find(all_, "Deployment", "gateway")["spec"].update(replicas=2),
        "each apply puts 2 replicas back",
    ),
    (
        "two autoscalers",
        rules.autoscalers_decide_alone,
        "hpa",
        lambda all_: all_.append(copy.deepcopy(find(all_, "HorizontalPodAutoscaler", "gateway"))),
        "two autoscalers set its replicas",
    ),
    (
        "a ConfigMap that isn't made",
        rules.references_exist,
        "base",
        lambda all_: all_.remove(find(all_, "ConfigMap", "citewire-gateway")),
        "there is no ConfigMap citewire-gateway",
    ),
    (
        "a route that cuts streams",
        rules.references_exist,
        "gateway-api",
        lambda all_: find(all_, "HTTPRoute", "citewire")["spec"]["rules"][0].pop("timeouts"),
        "cuts streams",
    ),
    (
        "an autoscaler that asks for a metric of nobody",
        rules.queries_name_what_exists,
        "hpa",
        lambda all_: find(all_, "HorizontalPodAutoscaler", "worker")["spec"]["metrics"][0]["external"].update(
            metric={"name": "citewire_queue_depth"}
        ),
        "scales by citewire_queue_depth",
    ),
    (
        "a job that no pods are",
        rules.queries_name_what_exists,
        "autoscaled-with-keda",
        lambda all_: find(all_, "Deployment", "worker")["spec"]["template"]["metadata"]["labels"].update(
            {"app.kubernetes.io/name": "worker"}
        ),
        "asks for the job citewire-worker",
    ),
    (
        "a scrape of no port",
        rules.queries_name_what_exists,
        "monitoring",
        lambda all_: find(all_, "PodMonitor", "citewire")["spec"]["podMetricsEndpoints"][0].update(port="prometheus"),
        "no container has the port prometheus",
    ),
    (
        "a Service in another namespace",
        rules.everything_is_in_the_namespace,
        "base",
        lambda all_: find(all_, "Service", "embedder")["metadata"].pop("namespace"),
        "is in any namespace",
    ),
    (
        "a certificate for somebody else",
        rules.certificates_fit,
        "mtls",
        lambda all_: find(all_, "Certificate", "embedder")["spec"].update(dnsNames=["retriever"]),
        "its certificate is for",
    ),
    (
        "a certificate that isn't mounted",
        rules.certificates_fit,
        "mtls",
        lambda all_: _container(all_, "embedder").update(volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}]),  # noqa: S108 # the pod's own
        "no certificate is issued for",
    ),
    *POLICY_FAULTS,
]
