"""Ports of the local stack: defaults, overrides, and clear messages about taken ports."""

from __future__ import annotations

import socket

import pytest

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.stack.ports import PORTS, choose_ports, is_taken

ALL_FREE = {spec.variable: "0" for spec in PORTS}


def test_defaults_are_as_documented() -> None:
    assert {spec.variable: spec.default for spec in PORTS} == {
        "CITEWIRE_GATEWAY_PORT": 8080,
        "CITEWIRE_GATEWAY_METRICS_PORT": 9100,
        "CITEWIRE_EMBEDDER_PORT": 50051,
        "CITEWIRE_EMBEDDER_METRICS_PORT": 9101,
        "CITEWIRE_RETRIEVER_PORT": 50052,
        "CITEWIRE_RETRIEVER_METRICS_PORT": 9102,
        "CITEWIRE_GENERATOR_PORT": 50053,
        "CITEWIRE_GENERATOR_METRICS_PORT": 9103,
        "CITEWIRE_WORKER_METRICS_PORT": 9104,
    }


def test_each_zero_becomes_another_free_port() -> None:
    ports = choose_ports(ALL_FREE)
    assert len(set(ports.values())) == len(PORTS)
    assert not any(is_taken(port) for port in ports.values())
    assert max(ports.values()) < 32_768, "an outgoing connection could get it before its process opens it"


def test_free_port_is_never_a_requested_one(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = iter([7001, 7001, 7002, *range(7003, 7020)])

    class Socket:
        def __init__(self) -> None:
            self.port = next(offered)

        def bind(self, address: object) -> None:
            del address

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", self.port

        def close(self) -> None:
            pass

    def is_free(port: int) -> bool:
        return port == 0

    monkeypatch.setattr("citewire_cli.stack.ports.is_taken", is_free)
    monkeypatch.setattr("citewire_cli.stack.ports.socket.socket", Socket)
    ports = choose_ports({spec.variable: "0" for spec in PORTS}, gateway_port=7001)
    assert ports["CITEWIRE_GATEWAY_PORT"] == 7001
    assert len(set(ports.values())) == len(PORTS)


@pytest.mark.parametrize("backlog_address", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 # on all addresses is the case here
def test_taken_port_is_reported_with_process_and_variable(backlog_address: str) -> None:
    with socket.socket() as holder:
        holder.bind((backlog_address, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(CliError) as caught:
            choose_ports({**ALL_FREE, "CITEWIRE_RETRIEVER_METRICS_PORT": str(port)})
    assert caught.value.detail == (
        f"Port {port}, which retriever needs for metrics, is taken by another program: "
        "set CITEWIRE_RETRIEVER_METRICS_PORT to a free one."
    )
    assert caught.value.code is ExitCode.FAILED


def test_port_that_a_grpc_server_shares_counts_as_taken() -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        assert is_taken(holder.getsockname()[1])


def test_port_of_a_server_that_has_just_ended_is_free() -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as all our servers do
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
            accepted.close()  # the server's side closes first: its address stays in TIME_WAIT
            assert client.recv(1) == b""
    assert not is_taken(port)


def test_every_taken_port_is_named_and_the_option_for_the_gateway() -> None:
    with socket.socket() as first, socket.socket() as second:
        for holder in (first, second):
            holder.bind(("127.0.0.1", 0))
            holder.listen()
        embedder, gateway = first.getsockname()[1], second.getsockname()[1]
        with pytest.raises(CliError) as caught:
            choose_ports({**ALL_FREE, "CITEWIRE_EMBEDDER_PORT": str(embedder)}, gateway_port=gateway)
    lines = caught.value.detail.splitlines()
    assert lines[0].startswith(f"Port {gateway}, which gateway needs for HTTP")
    assert lines[0].endswith("set CITEWIRE_GATEWAY_PORT to a free one (or pass --port).")
    assert lines[1].startswith(f"Port {embedder}, which embedder needs for gRPC")


def test_if_all_ports_are_taken_another_stack_is_suspected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_cli.stack.ports.is_taken", bool)
    with pytest.raises(CliError, match="another `citewire up` is probably running"):
        choose_ports({})


def test_port_given_twice() -> None:
    with pytest.raises(CliError, match=r"given to both embedder \(gRPC\) and worker \(metrics\)"):
        choose_ports({**ALL_FREE, "CITEWIRE_EMBEDDER_PORT": "45555", "CITEWIRE_WORKER_METRICS_PORT": "45555"})


@pytest.mark.parametrize("value", ["http", "-1", "65536", "80 80", "٣"])
def test_invalid_port_is_wrong_usage(value: str) -> None:
    with pytest.raises(CliError) as caught:
        choose_ports({**ALL_FREE, "CITEWIRE_GENERATOR_PORT": value})
    assert caught.value.code is ExitCode.USAGE
    assert "CITEWIRE_GENERATOR_PORT" in caught.value.title


def test_option_wins() -> None:
    free = choose_ports(ALL_FREE)["CITEWIRE_GATEWAY_PORT"]
    assert choose_ports({**ALL_FREE, "CITEWIRE_GATEWAY_PORT": "1"}, gateway_port=free)["CITEWIRE_GATEWAY_PORT"] == free
