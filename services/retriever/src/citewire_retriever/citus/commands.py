"""The operator's commands for a cluster: `python -m citewire_retriever cluster …`."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from citewire_kit.migrate import migrate_settings
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import configure_logging
from citewire_retriever.citus.cluster import Cluster, ClusterError, add_node, move, parse_address, rebalance
from citewire_retriever.citus.status import read_status

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # it has no public name

_PREFIX = "CITEWIRE_RETRIEVER_"


def add_cluster(commands: "Commands") -> None:
    """Adds the command `cluster` and its own to a parser's commands."""
    parser = commands.add_parser("cluster", help="manage the nodes of a Citus cluster, as the schema's owner")
    acts = parser.add_subparsers(dest="act", required=True)
    status = acts.add_parser("status", help="nodes, their shares of organisations, and what is being moved")
    status.add_argument("--json", action="store_true", help="as one JSON object")
    adding = acts.add_parser("add-node", help="add a node; it gets shards by `rebalance` or `move`")
    adding.add_argument("node", metavar="HOST[:PORT]", help="as the coordinator and the other nodes reach it")
    balancing = acts.add_parser("rebalance", help="spread shards evenly over the nodes, without downtime")
    balancing.add_argument("--by", choices=("disk-size", "shard-count"), default="disk-size", help="what to balance")
    balancing.add_argument("--no-wait", action="store_true", help="return once it has begun; `status` shows progress")
    moving = acts.add_parser("move", help="move an organisation to shards of its own on another node, without downtime")
    moving.add_argument("organisation", metavar="ORG")
    moving.add_argument("--to", metavar="HOST[:PORT]", required=True, help="the node")
    moving.add_argument("--together", action="store_true", help="together with the organisations that share its shards")
    isolating = acts.add_parser("isolate", help="give an organisation its own shards, on its current node")
    isolating.add_argument("organisation", metavar="ORG")


def run_cluster(parsed: argparse.Namespace) -> None:
    """Runs the command.

    Raises:
        SystemExit: It failed; stderr says why.
    """
    settings = load_settings(migrate_settings(_PREFIX))
    configure_logging("cluster", level="ERROR", log_format="console")
    try:
        asyncio.run(_run(parsed, settings.migrate_dsn.get_secret_value()))
    except ClusterError as exc:
        sys.stderr.write(f"{exc}\n")
        raise SystemExit(1) from None


async def _run(parsed: argparse.Namespace, dsn: str) -> None:
    async with Cluster.open(dsn, _say) as cluster:
        if parsed.act == "status":
            status = await read_status(cluster)
            _print(status.to_json() if parsed.json else "\n".join(status.to_lines()))
        elif parsed.act == "add-node":
            address = parse_address(parsed.node)
            added = await add_node(cluster, address)
            _print(
                f"{address} {'was added; `cluster rebalance` gives it shards' if added else 'is a node of the cluster'}"
            )
        elif parsed.act == "rebalance":
            strategy = f"by_{parsed.by.replace('-', '_')}"
            moved = await rebalance(cluster, strategy, wait=not parsed.no_wait)
            _print(("started" if parsed.no_wait else "done") if moved else "nothing to move: the nodes are even")
        else:
            to = parse_address(parsed.to) if parsed.act == "move" else None
            together = parsed.act == "move" and parsed.together
            moved = await move(cluster, parsed.organisation, to, together=together)
            _print("done" if moved else "nothing to do: it is so")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
