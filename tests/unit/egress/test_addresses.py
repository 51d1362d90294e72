"""Addresses: which are public, and what an allow-list adds."""

import ipaddress

import pytest

from citewire_egress.addresses import EgressPolicy, is_public

REFUSED = [
    "0.0.0.0",  # noqa: S104 - nothing listens there
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.0.3",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", REFUSED)
def test_internal_addresses_are_refused(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    assert not EgressPolicy().allows_address(address, 443)


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "100.128.0.1", "104.18.6.192", "2606:4700::6812:1"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert EgressPolicy().allows_address(address, 443)


def test_a_zone_does_not_hide_an_address_and_invalid_ones_are_refused() -> None:
    assert not EgressPolicy().allows_address("fe80::1%eth0", 443)
    assert not EgressPolicy().allows_address("localhost", 443)


def test_the_allow_list_names_hosts_ports_addresses_and_ranges() -> None:
    policy = EgressPolicy.parse("Ollama.internal., vllm:8000, 10.0.0.0/8, 192.168.1.5:11434, [fd00::1]:80, fd01::/16")
    assert policy.allows_host("ollama.internal", 1)
    assert policy.allows_host("vllm", 8000)
    assert not policy.allows_host("vllm", 8001)
    assert not policy.allows_host("x.ollama.internal", 1)
    assert policy.allows_address("10.9.9.9", 1)
    assert policy.allows_address("::ffff:10.9.9.9", 1)
    assert policy.allows_address("192.168.1.5", 11434)
    assert not policy.allows_address("192.168.1.5", 22)
    assert policy.allows_address("fd00::1", 80)
    assert not policy.allows_address("fd00::1", 443)
    assert policy.allows_address("fd01::9", 443)
    assert not policy.allows_address("127.0.0.1", 80)


def test_only_an_allowed_name_may_lead_inside() -> None:
    policy = EgressPolicy.parse("vllm:8000")
    assert policy.pick("vllm", 8000, ["10.0.0.1"]) == ["10.0.0.1"]
    assert policy.pick("rebound.example", 8000, ["10.0.0.1", "8.8.8.8"]) == ["8.8.8.8"]
    assert policy.pick("rebound.example", 8000, ["10.0.0.1"]) == []


@pytest.mark.parametrize("text", ["http://host", "host:0", "host:99999", "a b", "10.0.0.0/33"])
def test_an_invalid_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"entry|neither|port"):
        EgressPolicy.parse(text)
