"""Tenant, request id and deadline."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_kit import deadline
from citewire_kit.errors import InvalidArgument, Unauthenticated
from citewire_kit.tenant import (
    LOCAL_TENANT,
    MAX_GROUPS,
    ROLES,
    CallContext,
    Role,
    Tenant,
    context_from_metadata,
    context_to_metadata,
    current_call_context,
    current_request_id,
    current_tenant,
    find_tenant,
    from_metadata,
    to_metadata,
    use_call_context,
    use_request_id,
    use_tenant,
)

TOKENS = st.text("ABCxyz019_.:@-", min_size=1, max_size=128)
GROUPS = st.sampled_from(["Human Resources", "/hr/leads", "a,b", "100 %", "会计", "Köche"]) | TOKENS


@given(
    st.builds(
        Tenant,
        TOKENS,
        TOKENS,
        st.sampled_from(["free", "basic", "pro"]),
        st.lists(TOKENS, max_size=32).map(tuple),
        st.just("") | TOKENS,
        st.lists(GROUPS, max_size=10).map(tuple),
    )
)
def test_a_tenant_survives_the_metadata(tenant: Tenant) -> None:
    assert from_metadata(to_metadata(tenant)) == tenant


def test_groups_are_refused_rather_than_cut() -> None:
    tenant = Tenant("acme", "ann", "pro", groups=tuple(f"group {number}" for number in range(MAX_GROUPS)))
    assert from_metadata(to_metadata(tenant)) == tenant
    for groups in ((*tenant.groups, "one more"), ("",), ("g" * 201,), ("line\nbreak",)):
        with pytest.raises(InvalidArgument, match="cw-groups"):
            to_metadata(Tenant("acme", "ann", "pro", groups=groups))
    with pytest.raises(InvalidArgument, match="201 groups"):
        from_metadata([("cw-org", "acme"), ("cw-user", "ann"), ("cw-plan", "pro"), ("cw-groups", "a," * 201)])


@pytest.mark.parametrize(
    ("roles", "may"),
    [
        ((), []),
        (("stranger",), []),
        (("reader",), ["reader"]),
        (("member",), ["reader", "editor"]),
        (("reader", "admin"), ["reader", "editor", "admin"]),
        (("owner",), ["reader", "editor", "admin", "owner"]),
    ],
)
def test_each_role_includes_the_ones_below_it(roles: tuple[str, ...], may: list[Role]) -> None:
    assert [role for role in ROLES if Tenant("acme", "ann", "pro", roles).is_at_least(role)] == may


def test_no_metadata_is_no_tenant() -> None:
    assert from_metadata([("user-agent", "x"), ("x-bin", b"\x00")]) is None


@pytest.mark.parametrize("bad", ["", " ", "a b", "a,b", "a\n", "ä", "a" * 129, "a\x00", "a/b"])
def test_forbidden_characters_are_refused_on_both_sides(bad: str) -> None:
    with pytest.raises(InvalidArgument):
        to_metadata(Tenant(bad, "u", "pro"))
    with pytest.raises(InvalidArgument):
        to_metadata(Tenant("o", bad, "pro"))
    with pytest.raises(InvalidArgument):
        to_metadata(Tenant("o", "u", "pro", (bad,)))
    with pytest.raises(InvalidArgument):
        from_metadata([("cw-org", bad), ("cw-user", "u"), ("cw-plan", "pro")])
    if bad:  # no key at all is fine
        with pytest.raises(InvalidArgument):
            to_metadata(Tenant("o", "u", "pro", (), bad))
        with pytest.raises(InvalidArgument):
            from_metadata([("cw-org", "o"), ("cw-user", "u"), ("cw-plan", "pro"), ("cw-key", bad)])


def test_a_key_alone_is_no_tenant() -> None:
    with pytest.raises(InvalidArgument):
        from_metadata([("cw-key", "key_1")])


@pytest.mark.parametrize("bad", [" ", "a b", "x" * 129, "line\nbreak"])
def test_a_malformed_call_context_is_left_out_without_an_error(bad: str) -> None:
    assert context_to_metadata(CallContext(bad, "e")) == (("cw-exchange", "e"),)
    assert context_from_metadata({"cw-profile": bad, "cw-exchange": "e"}) == CallContext("", "e")
    assert context_from_metadata({}) == CallContext()
    assert context_from_metadata(dict(context_to_metadata(CallContext("p", "e", "c")))) == CallContext("p", "e", "c")


def test_the_call_context_is_that_of_the_innermost_block() -> None:
    assert current_call_context() == CallContext()
    with use_call_context(CallContext("documents", "e")):
        assert current_call_context().profile == "documents"
    assert current_call_context() == CallContext()


def test_the_tenant_is_that_of_the_innermost_block() -> None:
    assert find_tenant() is None
    with pytest.raises(Unauthenticated) as raised:
        current_tenant()
    assert raised.value.reason == "TENANT_MISSING"
    with use_tenant(LOCAL_TENANT):
        with use_tenant(Tenant("acme", "u", "free")):
            assert current_tenant().org_id == "acme"
        assert current_tenant() is LOCAL_TENANT
    assert find_tenant() is None


async def test_tasks_do_not_see_each_others_tenant() -> None:
    async def who(org: str) -> str:
        with use_tenant(Tenant(org, "u", "pro")):
            await asyncio.sleep(0)
            return current_tenant().org_id

    assert await asyncio.gather(*(who(f"org{i}") for i in range(20))) == [f"org{i}" for i in range(20)]


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "line\nbreak", "\x1b[31m"])
def test_a_request_id_from_outside_is_checked(bad: str) -> None:
    with use_request_id(bad) as request_id:
        assert request_id != bad
        assert len(request_id) == 32
        assert current_request_id() == request_id
    with use_request_id("request-7"):
        assert current_request_id() == "request-7"
    assert current_request_id() == ""


def test_a_budget_only_shrinks() -> None:
    assert deadline.remaining() is None
    with deadline.budget(10):
        with deadline.budget(100):
            left = deadline.remaining()
            assert left is not None
            assert 9 < left <= 10
        with deadline.budget(1):
            left = deadline.remaining()
            assert left is not None
            assert left <= 1
        with deadline.budget(0):
            time.sleep(0.001)
            left = deadline.remaining()
            assert left is not None
            assert left < 0
    assert deadline.remaining() is None
