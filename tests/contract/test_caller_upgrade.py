"""Upgrading from unsigned to signed calls, replica by replica and under load: no call fails.

A service of the old version trusts plain metadata: here, a service that accepts it and knows no issuer. A gateway of
the old version sends nothing else.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from callers import KEY
from citewire_kit import client
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError
from citewire_kit.settings import ServiceSettings
from citewire_kit.tenant import Tenant, current_tenant, use_tenant
from echo_service import EchoServicer, EchoStub, make_settings, running_echo_service, text
from local_ports import free_port

ACME = Tenant("acme", "ann", "pro")
BOTH = Signer("citewire-gateway", KEY, plain=True)
BEFORE, SIGNED = Signer("citewire-gateway", None, plain=True), Signer("citewire-gateway", KEY)


def settings_of(version: str, port: int) -> ServiceSettings:
    """The settings of a service before, during or after the upgrade."""
    plain = make_settings(auth="off" if version == "before" else "keys", leave_seconds=0.5, port=port)
    return plain.model_copy(
        update={"auth": "keys", "unsigned_callers": "refused" if version == "after" else "accepted"}
    )


@dataclass
class Installation:
    """Two replicas of a service behind one target, and the gateways that call them all the time."""

    ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    replicas: dict[int, AsyncExitStack] = field(default_factory=dict[int, AsyncExitStack])
    answered: dict[tuple[str, Signer], int] = field(default_factory=dict[tuple[str, Signer], int])
    failed: list[Exception] = field(default_factory=list[Exception])

    async def start(self, version: str, port: int) -> None:
        """Replaces the replica on a port; the old one stops first."""

        async def answer(_request: StringValue) -> StringValue:
            assert current_tenant() == ACME
            return text(f"{version} {port}")

        await self.stop(port)
        self.replicas[port] = AsyncExitStack()
        servicer = EchoServicer(unary=answer)
        await self.replicas[port].enter_async_context(running_echo_service(servicer, settings_of(version, port)))

    async def stop(self, port: int) -> None:
        """Stops a replica as a deployment would."""
        if port in self.replicas:
            await self.replicas.pop(port).aclose()

    async def roll(self, version: str, *gateways: Signer) -> None:
        """Replaces the replicas in turn, each when every gateway has reached the one before."""
        for port in self.ports:
            await self.start(version, port)
            await self.until_used(*gateways)

    async def until_used(self, *gateways: Signer) -> None:
        """Waits until both replicas have answered each of these gateways."""
        self.answered.clear()
        async with asyncio.timeout(30):
            while len({key for key in self.answered if key[1] in gateways}) < 2 * len(gateways):  # noqa: ASYNC110 # no event to wait for
                await asyncio.sleep(0.05)

    async def call(self, gateway: Signer) -> None:
        """Calls the service as a gateway does, until it is cancelled."""
        channel = open_channel(f"ipv4:{','.join(f'127.0.0.1:{port}' for port in self.ports)}", signer=gateway)
        try:
            stub = EchoStub(channel)
            while True:
                try:
                    with use_tenant(ACME):
                        reply = await client.unary(stub.unary, text("?"), timeout=10)
                    place = (reply.value, gateway)
                    self.answered[place] = self.answered.get(place, 0) + 1
                except Exception as exc:  # noqa: BLE001 # every failure is recorded
                    self.failed.append(exc)
                await asyncio.sleep(0.01)
        finally:
            await channel.close()


async def test_no_call_fails_while_signing_is_introduced() -> None:
    installation = Installation()
    tasks: dict[Signer, asyncio.Task[None]] = {}

    async def replace(new: Signer, old: Signer) -> None:
        tasks[new] = asyncio.create_task(installation.call(new))
        await installation.until_used(new, old)
        tasks.pop(old).cancel()

    try:
        for port in installation.ports:
            await installation.start("before", port)
        tasks[BEFORE] = asyncio.create_task(installation.call(BEFORE))
        await installation.until_used(BEFORE)
        await installation.start("during", installation.ports[0])
        await installation.until_used(BEFORE)
        tasks[BOTH] = asyncio.create_task(installation.call(BOTH))  # meets an old replica and a new one
        await installation.until_used(BEFORE, BOTH)
        await installation.roll("during", BEFORE, BOTH)
        tasks.pop(BEFORE).cancel()
        await replace(SIGNED, BOTH)  # all replicas are new: the setting is removed
        await installation.roll("after", SIGNED)
        assert installation.failed == []
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for port in installation.ports:
            await installation.stop(port)


@pytest.mark.parametrize(
    ("version", "gateway", "reason"), [("before", SIGNED, "INTERNAL"), ("after", BEFORE, "TENANT_MISSING")]
)
async def test_without_the_setting_old_and_new_dont_understand_each_other(
    version: str, gateway: Signer, reason: str
) -> None:
    settings = settings_of(version, 0)
    async with running_echo_service(EchoServicer(), settings) as running:
        channel = open_channel(f"127.0.0.1:{running.port}", signer=gateway)
        try:
            with use_tenant(ACME), pytest.raises(CitewireError) as raised:
                await client.unary(EchoStub(channel).unary, text("?"), timeout=10)
            assert raised.value.reason == reason
        finally:
            await channel.close()
