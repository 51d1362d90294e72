"""The nodes of a Citus cluster, as measured by `cluster watch`."""

from typing import Final

from scripts.monitoring.panels import Dashboard, Panel, Query, Row

CLUSTER: Final = Dashboard(
    uid="citewire-cluster",
    title="Citewire cluster",
    says="The nodes of a Citus cluster, as measured by `python -m citewire_retriever cluster watch`.",
    rows=(
        Row(
            "Now",
            (
                Panel(
                    "Reachable nodes",
                    (Query("sum(citewire_cluster_node_up)", "nodes"),),
                    kind="stat",
                    says="The coordinator is one of them.",
                ),
                Panel(
                    "Skew",
                    (Query("max(citewire_cluster_skew)", "skew"),),
                    kind="stat",
                    says="Chunks on the fullest node divided by the mean: 1 is even. None while a node is away.",
                    alarm=2,
                ),
                Panel("Moves", (Query("max(citewire_cluster_moves)", "groups of shards"),), kind="stat"),
                Panel(
                    "Seconds since the last measurement",
                    (Query("time() - max(citewire_cluster_looked_timestamp_seconds)", "age"),),
                    kind="stat",
                    unit="s",
                    says="Age of the displayed values.",
                    alarm=180,
                ),
            ),
            across=4,
        ),
        Row(
            "Shares",
            (
                Panel(
                    "Organisations by node",
                    (Query("max by (node) (citewire_cluster_node_organisations)", "{{node}}"),),
                    says="Organisations that have published documents.",
                    stack=True,
                ),
                Panel(
                    "Share of all chunks",
                    (
                        Query(
                            "max by (node) (citewire_cluster_node_chunks)"
                            " / scalar(sum(max by (node) (citewire_cluster_node_chunks)))",
                            "{{node}}",
                        ),
                    ),
                    unit="percentunit",
                    most=1,
                ),
                Panel(
                    "Size of the shards",
                    (Query("max by (node) (citewire_cluster_node_bytes)", "{{node}}"),),
                    unit="bytes",
                ),
                Panel(
                    "Largest organisation, share of all chunks",
                    (
                        Query(
                            "max(citewire_cluster_largest_organisation_chunks)"
                            " / sum(max by (node) (citewire_cluster_node_chunks))",
                            "share",
                        ),
                    ),
                    unit="percentunit",
                    says="It is limited to one node, however many there are.",
                    most=1,
                ),
                Panel(
                    "Skew over time",
                    (Query("max(citewire_cluster_skew)", "skew"),),
                    says="A new node raises it, a rebalance lowers it.",
                    alarm=2,
                ),
                Panel(
                    "Groups of shards being moved or split",
                    (Query("max(citewire_cluster_moves)", "groups"),),
                ),
            ),
        ),
        Row(
            "Durability",
            (
                Panel(
                    "Node answers",
                    (Query("min by (node) (citewire_cluster_node_up)", "{{node}}"),),
                    alarm=0.5,
                    low_is_bad=True,
                    most=1,
                ),
                Panel(
                    "Streaming standby servers",
                    (Query("max by (node) (citewire_cluster_node_standbys)", "{{node}}"),),
                ),
                Panel(
                    "Lag of the furthest standby",
                    (Query("max by (node) (citewire_cluster_node_standby_behind_bytes)", "{{node}}"),),
                    unit="bytes",
                    alarm=2**30,
                ),
                Panel(
                    "Flushes commits",
                    (Query("min by (node) (citewire_cluster_node_durable)", "{{node}}"),),
                    says="0: synchronous_commit is off, and a move of shards loses commits.",
                    alarm=0.5,
                    low_is_bad=True,
                    most=1,
                ),
                Panel(
                    "Log archiving fails",
                    (Query("max by (node) (citewire_cluster_node_archive_fails)", "{{node}}"),),
                    alarm=0.5,
                    most=1,
                ),
                Panel(
                    "Transactions waiting to be ended",
                    (Query("max by (node) (citewire_cluster_node_stuck_transactions)", "{{node}}"),),
                    alarm=1,
                ),
            ),
        ),
    ),
)
