"""The state of a cluster: its nodes, their shares, and moves in progress."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from citewire_retriever.citus.cluster import Cluster, Node, NodeAddress

_LARGEST: Final = 10


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node."""

    node: str
    coordinator: bool
    answers: bool
    active: bool
    shard_groups: int
    """Groups of shards: one of each table, which move together."""
    organisations: int | None
    """That have published something; None: the node doesn't answer."""
    chunks: int | None
    share: float | None
    """Of all chunks on nodes that answer, 0 to 1."""
    bytes: int | None
    replicas: list[dict[str, Any]]
    """Standby servers, as the node sees them: name, state, behind_bytes."""
    stuck_transactions: int
    """Prepared for more than a minute: the coordinator ends them when it can."""
    durable: bool | None
    """Whether it flushes what it commits (`synchronous_commit`); where it doesn't, a move loses commits."""
    archive: str | None
    """Of its log: `on`, `off`, or `fails`, as the last attempt did."""


@dataclass(frozen=True, slots=True)
class OrganisationStatus:
    """One of the largest organisations."""

    organisation: str
    chunks: int
    node: str
    alone: bool
    """Whether it has a group of shards of its own."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The whole."""

    nodes: list[NodeStatus]
    organisations: int
    skew: float | None
    """Chunks of the fullest node by those of the mean: 1 is even. None: there are none, or a node doesn't answer."""
    largest: list[OrganisationStatus]
    moves: list[dict[str, Any]]
    rebalance: dict[str, Any] | None
    """The last one: job_id, state and Citus's details."""

    def to_json(self) -> str:
        """As one JSON object."""
        return json.dumps(asdict(self), indent=2)

    def to_lines(self) -> Iterator[str]:
        """As a table for people."""
        yield f"{'NODE':40} {'STATE':10} {'GROUPS':>6} {'ORGS':>7} {'CHUNKS':>11} {'SHARE':>6} {'MiB':>8}"
        for node in self.nodes:
            state = "away" if not node.answers else "ready" if node.active else "inactive"
            share = "-" if node.share is None else f"{node.share:.1%}"
            name = f"{node.node} (coordinator)" if node.coordinator else node.node
            size = "-" if node.bytes is None else f"{node.bytes / 2**20:.0f}"
            yield (
                f"{name:40} {state:10} {node.shard_groups:>6} {_text(node.organisations):>7} {_text(node.chunks):>11}"
                f" {share:>6} {size:>8}"
            )
        yield f"{self.organisations} organisations; skew {'unknown' if self.skew is None else f'{self.skew:.2f}'}"
        for org in self.largest:
            yield f"  {org.organisation}: {org.chunks} chunks on {org.node}{', alone' if org.alone else ''}"
        for move in self.moves:
            where = f"from {move['source']} to {move['target']}"
            yield f"{move['operation']}: {move['tables']} tables {where} ({move['state']})"
        if self.rebalance is not None:
            yield f"last rebalance: {self.rebalance['state']} (job {self.rebalance['job_id']})"


async def read_status(cluster: Cluster) -> ClusterStatus:
    """Asks all nodes; those that don't answer are told as such."""
    nodes = await cluster.nodes()
    details = {row[0]: row[2] if row[1] else None for row in await cluster.rows("node_details")}
    shards = await cluster.rows("shard_organisations")
    # A view of Citus that warns of nodes that are away, and leaves them out.
    sizes = {NodeAddress(row[0], row[1]): int(row[2]) for row in await cluster.rows("node_bytes")}
    alone = {row[0] for row in await cluster.rows("alone")}
    by_node: dict[NodeAddress, list[dict[str, Any] | None]] = defaultdict(list)
    largest: list[OrganisationStatus] = []
    for host, port, shard, success, result in shards:
        address = NodeAddress(host, port)
        content: dict[str, Any] | None = result if success else None
        by_node[address].append(content)
        largest += [
            OrganisationStatus(org, int(chunks), str(address), shard in alone)
            for org, chunks in (content["largest"] if content else ())
        ]
    total = sum(int(content["chunks"]) for group in by_node.values() for content in group if content)
    results = [_node(node, details.get(node.node_id), by_node[node.address], total, sizes) for node in nodes]
    holding = [node.chunks for node, known in zip(results, nodes, strict=True) if known.takes_shards]
    amounts = [chunks for chunks in holding if chunks is not None]
    skew = max(amounts) / (total / len(amounts)) if amounts and total and len(amounts) == len(holding) else None
    return ClusterStatus(
        nodes=results,
        organisations=sum(node.organisations or 0 for node in results),
        skew=skew,
        largest=sorted(largest, key=lambda org: (-org.chunks, org.organisation))[:_LARGEST],
        moves=[_move(row) for row in await cluster.rows("moves")],
        rebalance=await _rebalance(cluster),
    )


def _node(
    node: Node,
    details: dict[str, Any] | None,
    groups: list[dict[str, Any] | None],
    total: int,
    sizes: dict[NodeAddress, int],
) -> NodeStatus:
    known = [group for group in groups if group is not None]
    answers = details is not None and len(known) == len(groups)
    chunks = sum(int(group["chunks"]) for group in known) if answers else None
    return NodeStatus(
        node=str(node.address),
        coordinator=node.group == 0,
        answers=answers,
        active=node.active,
        shard_groups=len(groups),
        organisations=sum(int(group["organisations"]) for group in known) if answers else None,
        chunks=chunks,
        share=None if chunks is None or not total else chunks / total,
        bytes=sizes.get(node.address) if answers else None,
        replicas=details["replicas"] if details else [],
        stuck_transactions=details["prepared_transactions"] if details else 0,
        durable=details["synchronous_commit"] != "off" if details else None,
        archive=details["archive"] if details else None,
    )


def _move(row: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "operation": row[0],
        "source": f"{row[1]}:{row[2]}",
        "target": f"{row[3]}:{row[4]}",
        "tables": row[5],
        "bytes": row[6],
        "bytes_done": row[7],
        "state": row[8],
    }


async def _rebalance(cluster: Cluster) -> dict[str, Any] | None:
    rows = await cluster.rows("rebalance")
    return {"job_id": rows[0][0], "state": rows[0][1], "details": rows[0][2]} if rows else None


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
