"""Faults of network policies, in the form of manifest_faults.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from manifest_policies import policies_match_the_channels
from manifests import Resource, find

Change = Callable[[list[Resource]], None]
Rule = Callable[[Sequence[Resource]], Iterator[str]]


def _allow(resources: Sequence[Resource], caller: str, called: str, port: int) -> None:
    for way, key, policy, other in (("egress", "to", caller, called), ("ingress", "from", called, caller)):
        peer = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": f"citewire-{other}"}}}
        rule = {key: [peer], "ports": [{"port": port}]}
        find(resources, "NetworkPolicy", policy)["spec"].setdefault(way, []).append(rule)


def _callers(resources: Sequence[Resource], called: str) -> Any:  # noqa: ANN401 # a document of YAML
    return find(resources, "NetworkPolicy", called)["spec"]["ingress"][0]["from"]


POLICY_FAULTS: list[tuple[str, Rule, str, Change, str]] = [
    (
        "an edge that is missing",
        policies_match_the_channels,
        "own-database",
        lambda all_: find(all_, "NetworkPolicy", "worker")["spec"]["egress"].pop(0),
        "worker may not call embedder on 50051",
    ),
    (
        "an edge that no code has",
        policies_match_the_channels,
        "own-database",
        lambda all_: _allow(all_, "retriever", "embedder", 50051),
        "retriever may call embedder on 50051: no code does",
    ),
    (
        "a generator that everybody may call",
        policies_match_the_channels,
        "own-database",
        lambda all_: find(all_, "NetworkPolicy", "generator")["spec"]["ingress"].append({}),
        "generator: may be reached from the ingress",
    ),
    (
        "callers that a label no longer admits",
        policies_match_the_channels,
        "own-database",
        lambda all_: _callers(all_, "retriever").pop(1),
        "retriever: a caller of the retriever here may not reach 50052",
    ),
    (
        "callers of another namespace that a label no longer admits",
        policies_match_the_channels,
        "own-database",
        lambda all_: _callers(all_, "generator").pop(3),
        "generator: a caller of the generator in a labelled namespace may not reach 50053",
    ),
    (
        "a label that admits from any namespace",
        policies_match_the_channels,
        "own-database",
        lambda all_: _callers(all_, "retriever")[2].update(namespaceSelector={}),
        "retriever: a caller of the retriever in any namespace may reach 50052",
    ),
    (
        "a namespace whose every pod may call",
        policies_match_the_channels,
        "own-database",
        lambda all_: _callers(all_, "retriever")[2].pop("podSelector"),
        "in a labelled namespace, without the label, may reach 50052",
    ),
    (
        "a label that admits to two services",
        policies_match_the_channels,
        "own-database",
        lambda all_: _callers(all_, "generator").append(_callers(all_, "retriever")[1]),
        "generator: a caller of the retriever here may reach 50053",
    ),
    (
        "callers that can't leave",
        policies_match_the_channels,
        "own-database",
        lambda all_: all_.remove(find(all_, "NetworkPolicy", "calls-embedder")),
        "the namespace's policies stop a caller of the embedder to 50051",
    ),
    (
        "callers who leave for another port",
        policies_match_the_channels,
        "own-database",
        lambda all_: find(all_, "NetworkPolicy", "calls-embedder")["spec"]["egress"][0].pop("ports"),
        "the namespace's policies let a caller of the embedder to 9101",
    ),
    (
        "a way to the metadata service",
        policies_match_the_channels,
        "own-database",
        lambda all_: next(
            peer["ipBlock"]
            for rule in find(all_, "NetworkPolicy", "generator")["spec"]["egress"]
            for peer in rule["to"]
            if "ipBlock" in peer
        ).pop("except"),
        "generator: may reach 169.254.169.254",
    ),
    (
        "an identity provider that nobody can ask",
        policies_match_the_channels,
        "sign-in",
        lambda all_: all_.remove(find(all_, "NetworkPolicy", "sign-in")),
        "gateway: may not reach public addresses on 443",
    ),
    (
        "a gateway that reaches out though nobody signs in",
        policies_match_the_channels,
        "sign-in",
        lambda all_: find(all_, "Deployment", "gateway")["spec"]["template"]["spec"]["containers"][0].pop("env"),
        "gateway: may reach public addresses on 443",
    ),
    (
        "a retriever that fetches files and can't reach them",
        policies_match_the_channels,
        "url-uploads",
        lambda all_: all_.remove(find(all_, "NetworkPolicy", "url-uploads")),
        "retriever: may not reach public addresses on 443",
    ),
    (
        "a retriever that reaches out though it fetches nothing",
        policies_match_the_channels,
        "url-uploads",
        lambda all_: find(all_, "ConfigMap", "citewire-retriever")["data"].update(CITEWIRE_RETRIEVER_FETCH="false"),
        "retriever: may reach public addresses on 443",
    ),
    (
        "traces that go nowhere",
        policies_match_the_channels,
        "own-database-watched",
        lambda all_: all_.remove(find(all_, "NetworkPolicy", "traces")),
        "may not reach the collector",
    ),
    (
        "no name service",
        policies_match_the_channels,
        "own-database",
        lambda all_: all_.remove(find(all_, "NetworkPolicy", "dns")),
        "may not reach DNS",
    ),
    (
        "a policy that denies nothing",
        policies_match_the_channels,
        "own-database",
        lambda all_: find(all_, "NetworkPolicy", "deny-all")["spec"].update(policyTypes=["Ingress"]),
        "deny-all doesn't deny all",
    ),
]
