"""Each rule about the manifests must find faults that we inject: a rule that finds none would prove nothing."""

from __future__ import annotations

import pytest

import manifest_rules as rules
from manifest_faults import FAULTS, Change
from manifests import Rendered, needs_kustomize

pytestmark = pytest.mark.system(program="kubectl", package="kubernetes-client")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    needs_kustomize()
    return Rendered(tmp_path_factory.mktemp("manifests"))


@pytest.mark.parametrize(
    ("rule", "combination", "change", "complaint"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_fault_is_found(
    rendered: Rendered, rule: rules.Rule, combination: str, change: Change, complaint: str
) -> None:
    resources = rendered(combination)
    assert list(rule(resources)) == []
    change(resources)
    problems = list(rule(resources))
    assert [problem for problem in problems if complaint in problem], problems


def test_every_rule_has_an_injected_fault() -> None:
    assert {fault[1] for fault in FAULTS} == set(rules.RULES)
