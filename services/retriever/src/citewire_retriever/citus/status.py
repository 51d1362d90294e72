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
    """Number of groups of shards: one shard of each table, which move together."""
    organisations: int | None
    """Organisations that have published something; None if the node doesn't respond."""
    chunks: int | None
    share: float | None
    """Share of all chunks on responding nodes, 0 to 1."""
    bytes: int | None
    replicas: list[dict[str, Any]]
    """Standby servers, according to the node: name, state, behind_bytes."""
    stuck_transactions: int
    """Transactions prepared for more than a minute; the coordinator ends them when it can."""
    durable: bool | None
    """Whether it flushes commits (`synchronous_commit`); if not, a move loses some."""
    archive: str | None
    """Archiving of its log: `on`, `off`, or `fails` if the last attempt failed."""


@dataclass(frozen=True, slots=True)
class OrganisationStatus:
    """One of the largest organisations."""

    organisation: str
    chunks: int
    node: str
    alone: bool
    """Whether it has its own group of shards."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The state of the cluster."""

    nodes: list[NodeStatus]
    organisations: int
    skew: float | None
    """Chunks of the fullest node divided by the mean: 1 is even. None if there are none, or a node doesn't respond."""
    largest: list[OrganisationStatus]
    moves: list[dict[str, Any]]
    rebalance: dict[str, Any] | None
    """The last rebalance: job_id, state and Citus's details."""

    def to_json(self) -> str:
        """Returns it as one JSON object."""
        return json.dumps(asdict(self), indent=2)

    def to_lines(self) -> Iterator[str]:
        """Formats it as a table."""
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
    """Queries all nodes; those that don't respond are marked."""
    nodes = await cluster.nodes()
    details = {row[0]: row[2] if row[1] else None for row in await cluster.rows("node_details")}
    shards = await cluster.rows("shard_organisations")
    # A view of Citus that warns about unreachable nodes and leaves them out.
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
