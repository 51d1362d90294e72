"""The operator's commands for a cluster: `python -m citewire_retriever cluster …`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from citewire_kit.migrate import MigrateSettings, migrate_settings
from citewire_kit.server import run
from citewire_kit.settings import load_settings, settings_config
from citewire_kit.telemetry import configure_logging
from citewire_retriever.citus.changes import add_node, move, rebalance
from citewire_retriever.citus.cluster import Cluster, ClusterError, NodeAddress, parse_address
from citewire_retriever.citus.copying.plan import read_plan
from citewire_retriever.citus.copying.process import FROM, TO, Copying
from citewire_retriever.citus.copying.side import CopyError, Side
from citewire_retriever.citus.copying.switching import give_up, switch
from citewire_retriever.citus.exporter import PREFIX, WatchSettings, watch_until_signal
from citewire_retriever.citus.restoring import make_restore_point, readdress
from citewire_retriever.citus.status import read_status

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # it has no public name


class CopySettings(MigrateSettings):
    """Settings of the command `copy`. The source is the database of `migrate_dsn`."""

    model_config = settings_config(PREFIX)

    copy_dsn: SecretStr = SecretStr("")
    """Connection string of a superuser to the database to copy into."""


def add_cluster(commands: "Commands") -> None:
    """Adds the command `cluster` and its subcommands to a parser's commands."""
    parser = commands.add_parser("cluster", help="manage the nodes of a Citus cluster, as the schema's owner")
    acts = parser.add_subparsers(dest="act", required=True)
    status = acts.add_parser("status", help="nodes, their shares of organisations, and running moves")
    status.add_argument("--json", action="store_true", help="as one JSON object")
    acts.add_parser("watch", help="serve the status of the nodes as metrics until stopped")
    adding = acts.add_parser("add-node", help="add nodes; they get shards by `rebalance` or `move`")
    adding.add_argument("nodes", metavar="HOST[:PORT]", nargs="+", help="as the coordinator and the others reach it")
    balancing = acts.add_parser("rebalance", help="spread shards evenly over the nodes, without downtime")
    balancing.add_argument("--by", choices=("disk-size", "shard-count"), default="disk-size", help="what to balance")
    balancing.add_argument("--no-wait", action="store_true", help="return once it has begun; `status` shows progress")
    moving = acts.add_parser("move", help="move an organisation to shards of its own on another node, without downtime")
    moving.add_argument("organisation", metavar="ORG")
    moving.add_argument("--to", metavar="HOST[:PORT]", required=True, help="the node")
    moving.add_argument("--together", action="store_true", help="together with the organisations that share its shards")
    pointing = acts.add_parser("restore-point", help="create a point to which all nodes can be restored together")
    pointing.add_argument("name", metavar="NAME", help="as for recovery_target_name")
    pointing.add_argument(
        "--also",
        choices=("gateway", "ledger"),
        action="append",
        default=[],
        help="create it first on the Postgres of CITEWIRE_GATEWAY_MIGRATE_DSN or CITEWIRE_LEDGER_MIGRATE_DSN as well",
    )
    addressing = acts.add_parser("readdress", help="tell a restored cluster where its nodes are now")
    addressing.add_argument(
        "nodes", metavar="OLD=NEW", nargs="*", help="each as HOST[:PORT]; none if the addresses are unchanged"
    )
    isolating = acts.add_parser("isolate", help="give an organisation its own shards, on its current node")
    isolating.add_argument("organisation", metavar="ORG")
    copying = acts.add_parser(
        "copy",
        help="copy this database into that of CITEWIRE_RETRIEVER_COPY_DSN while services run, and compare the two",
    )
    what = copying.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="show what would be copied and what stands in the way")
    what.add_argument(
        "--switch", action="store_true", help="then have services write to the target, and no longer here"
    )
    what.add_argument("--give-up", action="store_true", help="remove everything that a copy created, in both databases")


def run_cluster(parsed: argparse.Namespace) -> None:
    """Runs the command.

    Raises:
        SystemExit: It failed; stderr says why.
    """
    if parsed.act == "watch":
        settings = load_settings(WatchSettings)
        configure_logging("cluster", level=settings.log_level, log_format=settings.log_format)
        run(watch_until_signal(settings))
        return
    configure_logging("cluster", level="ERROR", log_format="console")
    try:
        if parsed.act == "copy":
            asyncio.run(_copy(parsed, load_settings(CopySettings)))
        else:
            settings = load_settings(migrate_settings(PREFIX))
            asyncio.run(_run(parsed, settings.migrate_dsn.get_secret_value(), settings.wait_seconds))
    except ClusterError as exc:
        sys.stderr.write(f"{exc}\n")
        raise SystemExit(1) from None


async def _run(parsed: argparse.Namespace, dsn: str, wait_seconds: float) -> None:
    if parsed.act == "add-node":
        await _add_nodes(dsn, [parse_address(text) for text in parsed.nodes], wait_seconds)
        return
    async with Cluster.open(dsn, _say, wait_seconds=wait_seconds) as cluster:
        if parsed.act == "status":
            status = await read_status(cluster)
            _print(status.to_json() if parsed.json else "\n".join(status.to_lines()))
        elif parsed.act == "restore-point":
            others = {name: _dsn_of(name) for name in parsed.also}
            point = await make_restore_point(cluster, parsed.name, others)
            _print("\n".join(f"{server}: {file}" for server, file in point.files.items()))
            _print(f"{point.name} is in the archive of each; writers waited for {point.pause:.2f} s")
        elif parsed.act == "readdress":
            ended = await readdress(cluster, _parse_pairs(parsed.nodes))
            _print(f"done; {ended} prepared transactions were ended")
        elif parsed.act == "rebalance":
            strategy = f"by_{parsed.by.replace('-', '_')}"
            moved = await rebalance(cluster, strategy, wait=not parsed.no_wait)
            _print(("started" if parsed.no_wait else "done") if moved else "nothing to move: the nodes are even")
        else:
            to = parse_address(parsed.to) if parsed.act == "move" else None
            together = parsed.act == "move" and parsed.together
            moved = await move(cluster, parsed.organisation, to, together=together)
            _print("done" if moved else "nothing to do: it is already there")


async def _add_nodes(dsn: str, addresses: Sequence[NodeAddress], wait_seconds: float) -> None:
    """Adds nodes one after the other; a cluster needs nodes before its tables, which `migrate` distributes."""
    async with Cluster.open(dsn, _say, empty=True, wait_seconds=wait_seconds) as cluster:
        for address in addresses:
            if await add_node(cluster, address, wait_seconds=wait_seconds):
                _print(f"{address} was added; `cluster rebalance` gives it shards")
            else:
                _print(f"{address} is a node of the cluster")


def _dsn_of(owner: str) -> str:
    settings = load_settings(migrate_settings(f"CITEWIRE_{owner.upper()}_"))
    return settings.migrate_dsn.get_secret_value()


def _parse_pairs(texts: Sequence[str]) -> dict[NodeAddress, NodeAddress]:
    pairs: dict[NodeAddress, NodeAddress] = {}
    for text in texts:
        old, separator, new = text.partition("=")
        if not separator:
            raise ClusterError(f"{text!r} isn't a pair of addresses: give OLD=NEW, each as HOST or HOST:PORT")
        pairs[parse_address(old)] = parse_address(new)
    return pairs


async def _copy(parsed: argparse.Namespace, settings: CopySettings) -> None:
    source_dsn = settings.migrate_dsn.get_secret_value()
    target_dsn = settings.copy_dsn.get_secret_value()
    if parsed.give_up:
        await _give_up(source_dsn, target_dsn)
        return
    if not target_dsn:
        raise CopyError(f"{TO} isn't set: the database to copy into")
    async with Copying.open(source_dsn, target_dsn, _say) as copying:
        if parsed.dry_run:
            await _print_plan(copying)
        elif parsed.switch:
            pause = await switch(copying)
            _print("already switched" if pause is None else f"switched; nobody could write for {pause:.2f} s")
        else:
            rows = await copying.run()
            _print(
                f"copied and compared: {rows} rows are identical. `cluster copy --switch` has services write to the "
                "target"
            )


async def _print_plan(copying: Copying) -> None:
    plan = await read_plan(copying)
    _print("\n".join(plan.to_lines()))
    if plan.obstacles:
        raise SystemExit(1)


async def _give_up(source_dsn: str, target_dsn: str) -> None:
    if target_dsn:
        async with Copying.open(source_dsn, target_dsn, _say) as copying:
            given_up = await give_up(copying.source, copying.target, _say)
    else:
        async with Side.open(source_dsn, "the source", FROM) as source:
            given_up = await give_up(source, None, _say)
    _print("given up: nothing is left of the copy" if given_up else "there is no copy to give up")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
