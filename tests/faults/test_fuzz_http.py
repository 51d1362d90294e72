"""Fuzzes the HTTP API with one organisation's key and an operator's: no server errors, and no secrets of others.

Schemathesis makes requests from the API's own description: valid ones, and ones that break one rule each. Ids and
names in paths and bodies are often those of another organisation.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
import requests
import schemathesis
from hypothesis import Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode

from fuzz_target import CANARY, HEALTH_CHECKS, VICTIM, FuzzTarget

if TYPE_CHECKING:
    from proof_scale import PrintTable, ProofScale

Operation = APIOperation[Any, Any, Any, Any]
SECONDS = 30.0
"""Time limit of an answer. The server's own limit ends progress streams of documents that never become ready."""
_IDS = {
    "document_id": "document_ids",
    "document_ids": "document_ids",
    "chunk_id": "chunk_ids",
    "chunk_ids": "chunk_ids",
    "conversation_id": "conversation_ids",
    "name": "names",
    "collection": "names",
    "profile": "names",
    "user": "users",
    "users": "users",
    "group": "groups",
    "groups": "groups",
    "subject": "subjects",
    "key_id": "key_ids",
}


class Fuzzer:
    """Sends cases and checks the answers."""

    def __init__(self, target: FuzzTarget, headers: dict[str, str], choose: random.Random) -> None:
        self._target = target
        self._headers = headers
        self._choose = choose
        self._session = requests.Session()
        self._session.trust_env = False
        self.statuses: Counter[int] = Counter()
        self.failures: dict[tuple[str, int], str] = {}
        """The first request of each kind with a wrong answer, by operation and status."""

    def send(self, case: Case[Any]) -> None:
        """Sends a case, with known ids in some of its places."""
        case.path_parameters = self._with_ids(case.path_parameters)
        # An operator may erase the victim, but not read its data.
        if "organisation" in (case.path_parameters or {}):
            organisation = VICTIM if case.method == "GET" else "fuzzed"
            case.path_parameters = {**case.path_parameters, "organisation": organisation}
        case.query = self._with_ids(case.query)
        case.body = self._with_ids(case.body)
        cast("Any", case).headers.pop("Authorization", None)  # so that the caller stays authenticated
        response = case.call(
            base_url=self._target.stack.base_url,
            session=self._session,
            headers=self._headers,
            timeout=SECONDS,
        )
        self.statuses[response.status_code] += 1
        answered = response.content + json.dumps(dict(response.headers)).encode()
        if response.status_code >= 500 or CANARY.encode() in answered or b"Traceback" in answered:
            key = (case.operation.label, response.status_code)
            self.failures.setdefault(key, f"{case.as_curl_command()}\n{answered[:2000]!r}")

    def _with_ids(self, value: object) -> Any:  # noqa: ANN401 # JSON, or nothing
        if isinstance(value, dict):
            return {
                name: self._known(name, member) if name in _IDS else self._with_ids(member)
                for name, member in cast("dict[str, Any]", value).items()
            }
        return value

    def _known(self, name: str, value: object) -> object:
        if self._choose.random() < 0.5:
            return value
        known = getattr(self._target.known, _IDS[name])
        return [self._choose.choice(known)] if isinstance(value, list) else self._choose.choice(known)


def operations(target: FuzzTarget) -> list[Operation]:
    described = requests.get(f"{target.stack.base_url}/openapi.json", headers=target.attacker, timeout=SECONDS).json()
    schema: Any = schemathesis.openapi.from_dict(described)
    return [result.ok() for result in schema.get_all_operations()]


@pytest.mark.timeout(3600)
def test_no_request_breaks_the_api_or_reads_foreign_data(
    target: FuzzTarget, proof: ProofScale, print_table: PrintTable
) -> None:
    before = target.secrets()
    assert CANARY in json.dumps(before)
    fuzzer = Fuzzer(target, target.attacker, random.Random(proof.seed))
    cases = proof.pick(scaled_down=3, full=80)
    rows: list[list[object]] = []
    for operation in operations(target):
        sent = fuzzer.statuses.total()
        _fuzz(fuzzer, operation, GenerationMode.POSITIVE, cases, proof.seed)
        with suppress(Unsatisfiable):  # an operation without any rule to break
            _fuzz(fuzzer, operation, GenerationMode.NEGATIVE, cases, proof.seed)
        rows.append([operation.label, fuzzer.statuses.total() - sent])
    print_table("Requests made by Schemathesis", ["operation", "requests"], rows)
    print_table("Their answers", ["status", "answers"], [list(item) for item in sorted(fuzzer.statuses.items())])
    assert not fuzzer.failures, "\n\n".join(f"{key}: {what}" for key, what in fuzzer.failures.items())
    assert target.secrets() == before
    assert fuzzer.statuses[200] > fuzzer.statuses.total() / 20, "hardly any request was valid"


@pytest.mark.timeout(3600)
def test_an_operators_key_reads_no_data_of_organisations(
    target: FuzzTarget, proof: ProofScale, print_table: PrintTable
) -> None:
    before = target.secrets()
    fuzzer = Fuzzer(target, target.operator, random.Random(proof.seed))
    url = f"{target.stack.base_url}/v1/operator/organisations"
    requests.post(url, json={"id": "fuzzed"}, headers=target.operator, timeout=SECONDS).raise_for_status()
    listed = operations(target)
    own = [operation for operation in listed if operation.path.startswith("/v1/operator/")]
    assert len(own) >= 14
    others = [operation for operation in listed if operation not in own]
    if not proof.full:
        others = proof.random().sample(others, 30)
    for operation in (*own, *others):
        cases = proof.pick(scaled_down=5, full=80) if operation in own else 1  # refused before it is read
        _fuzz(fuzzer, operation, GenerationMode.POSITIVE, cases, proof.seed)
        if operation in own:
            with suppress(Unsatisfiable):
                _fuzz(fuzzer, operation, GenerationMode.NEGATIVE, cases, proof.seed)
    answers = [list(item) for item in sorted(fuzzer.statuses.items())]
    print_table("Answers to an operator's key", ["status", "answers"], answers)
    assert not fuzzer.failures, "\n\n".join(f"{key}: {what}" for key, what in fuzzer.failures.items())
    assert target.secrets() == before
    assert fuzzer.statuses[200] + fuzzer.statuses[201] > 30, "hardly any request was valid"


def _fuzz(fuzzer: Fuzzer, operation: Operation, mode: GenerationMode, most: int, number: int) -> None:
    cases: Any = cast("Any", operation).as_strategy(generation_mode=mode)

    @seed(number)
    @settings(
        max_examples=most,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=HEALTH_CHECKS,
    )
    @given(case=cases)
    def run(case: Case[Any]) -> None:
        fuzzer.send(case)

    run()
