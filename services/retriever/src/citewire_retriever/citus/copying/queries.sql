-- The statements that a copy runs in both databases. The code fills in names of tables.

-- name: superuser
SELECT rolsuper FROM pg_roles WHERE rolname = current_user

-- name: silent_nodes
-- In a cluster: the nodes that don't answer.
SELECT citewire.silent_nodes()

-- name: identity
-- Identifies a server and its database, whatever address they are reached by.
SELECT (SELECT system_identifier FROM pg_control_system()), current_database()

-- name: migrations
SELECT file, sha256 FROM corpus.schema_migrations ORDER BY file

-- name: tables
-- Tables with a column org_id: their columns without generated ones, these with their types, and the columns of the primary
-- key other than org_id.
SELECT c.relname, columns.names, columns.definitions,
       (SELECT array_agg(a.attname::text ORDER BY k.place)
        FROM pg_index i
        CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, place)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
        WHERE i.indrelid = c.oid AND i.indisprimary AND a.attname <> 'org_id')
FROM pg_class c
CROSS JOIN LATERAL (
    SELECT array_agg(a.attname::text ORDER BY a.attname) AS names,
           string_agg(concat(a.attname, ' ', format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attname) AS definitions
    FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
) columns
WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'org_id')
ORDER BY c.relname

-- name: tables_on_nodes
-- In a cluster: the distributed tables, and the shards if this server shows its own.
SELECT c.relname, relation_is_a_known_shard(c.oid) FROM pg_class c
WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind = 'r'
  AND (relation_is_a_known_shard(c.oid) OR EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid))

-- name: organisations
-- Steps from one organisation to the next along the primary key, because each has many rows.
WITH RECURSIVE orgs AS (
    (SELECT org_id FROM {table} ORDER BY org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.org_id FROM {table} t WHERE t.org_id > orgs.org_id ORDER BY t.org_id LIMIT 1)
    FROM orgs WHERE orgs.org_id IS NOT NULL
)
SELECT org_id FROM orgs WHERE org_id IS NOT NULL

-- name: organisations_on_nodes
-- Not recursive, because Citus couldn't route a recursive statement to a node.
SELECT DISTINCT org_id FROM {table}

-- name: size
SELECT count(*), count(DISTINCT org_id) FROM {table}

-- name: bytes
-- The size of a table with its indexes, partitions included.
SELECT coalesce((SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree(%(table)s::regclass)),
                pg_total_relation_size(%(table)s::regclass))

-- name: bytes_on_nodes
SELECT citus_total_relation_size(%(table)s::regclass)

-- name: remembers
SELECT to_regclass('citewire_copy.state')

-- name: state
SELECT part, copy_id FROM citewire_copy.state

-- name: forget
DROP SCHEMA IF EXISTS citewire_copy CASCADE

-- name: remember
CREATE SCHEMA IF NOT EXISTS citewire_copy;
CREATE TABLE IF NOT EXISTS citewire_copy.state (
    alone     boolean PRIMARY KEY DEFAULT true CHECK (alone),
    part      text NOT NULL CHECK (part IN ('source', 'target', 'retired')),
    copy_id   uuid NOT NULL,
    -- How a target was before the copy, to restore that if the copy is abandoned.
    was_empty boolean NOT NULL DEFAULT true,
    hidden_id text,
    spaces    bigint[]
);

-- name: make_notes
-- Keys of rows that were changed. In a cluster, those of tables that stay on the coordinator are stored separately, because a
-- trigger writes to the node of its row.
CREATE TABLE IF NOT EXISTS citewire_copy.changes (
    org_id     text COLLATE "C" NOT NULL,
    note_id    uuid NOT NULL,
    table_name text NOT NULL,
    key        text NOT NULL,
    PRIMARY KEY (org_id, note_id)
);
CREATE TABLE IF NOT EXISTS citewire_copy.local_changes (LIKE citewire_copy.changes INCLUDING ALL);

-- name: spread_notes
SELECT create_distributed_table('citewire_copy.changes', 'org_id', colocate_with => 'corpus.collections')
WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'citewire_copy.changes'::regclass)

-- name: make_copied
CREATE TABLE IF NOT EXISTS citewire_copy.copied (
    table_name text NOT NULL,
    org_id     text COLLATE "C" NOT NULL,
    -- The table's columns and their types at that time: if they change, its rows are copied again.
    columns    text NOT NULL,
    rows       bigint NOT NULL,
    checked    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (table_name, org_id)
);
CREATE TABLE IF NOT EXISTS citewire_copy.graphs (name text PRIMARY KEY, definition text NOT NULL);

-- name: graphs
-- Vector indexes of tables into which nothing has been copied yet.
SELECT i.relname::text, pg_get_indexdef(i.oid)
FROM corpus.spaces s
JOIN pg_class i ON i.relnamespace = 'corpus'::regnamespace AND i.relname = s.table_name || '_by_likeness'
WHERE NOT EXISTS (SELECT FROM citewire_copy.copied c WHERE c.table_name = s.table_name)

-- name: forget_graphs
-- Forgets the vector indexes of tables that no longer exist.
DELETE FROM citewire_copy.graphs WHERE to_regclass('corpus.' || replace(name, '_by_likeness', '')) IS NULL

-- name: dropped_graphs
SELECT name, definition FROM citewire_copy.graphs ORDER BY name

-- name: copied
SELECT table_name, org_id, columns, checked FROM citewire_copy.copied

-- name: note_copied
INSERT INTO citewire_copy.copied (table_name, org_id, columns, rows)
VALUES (%(table)s, %(org)s, %(columns)s, %(rows)s)
ON CONFLICT (table_name, org_id) DO UPDATE SET columns = excluded.columns, rows = excluded.rows, checked = false

-- name: note_checked
INSERT INTO citewire_copy.copied (table_name, org_id, columns, rows, checked)
VALUES (%(table)s, %(org)s, %(columns)s, %(rows)s, true)
ON CONFLICT (table_name, org_id) DO UPDATE SET checked = true

-- name: forget_copied
DELETE FROM citewire_copy.copied WHERE table_name = %(table)s AND org_id = %(org)s

-- name: noting_tables
-- Tables that have our trigger.
SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'corpus'::regnamespace AND NOT c.relispartition AND t.tgname = 'note_for_copy'

-- name: spaces
SELECT space_id, model, revision, dimensions, created_at FROM corpus.spaces ORDER BY space_id

-- name: add_space
INSERT INTO corpus.spaces (space_id, model, revision, dimensions, created_at) OVERRIDING SYSTEM VALUE
VALUES (%(space_id)s, %(model)s, %(revision)s, %(dimensions)s, %(created_at)s)

-- name: make_vectors
SELECT corpus.make_vector_table(%(table)s, %(dimensions)s)

-- name: hidden_id
SELECT pg_get_functiondef('corpus.hidden_id(regclass)'::regprocedure)

-- name: sequences
SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind = 'S' ORDER BY c.relname

-- name: end_sessions
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = ANY (%(roles)s::text[]) AND pid <> pg_backend_pid()

-- name: target_before
-- How the target was before the copy.
SELECT was_empty, hidden_id, spaces FROM citewire_copy.state

-- name: retire
UPDATE citewire_copy.state SET part = 'retired'

-- name: node_numbers
-- The highest number that triggers have given on each node: every node numbers within its own range of 2^48.
SELECT entry_id >> 48, max(entry_id) FROM corpus.stored_bytes WHERE entry_id >= 1::bigint << 48 GROUP BY 1

-- name: raise_node_numbers
SELECT nodename, nodeport, success, result FROM run_command_on_workers(format($command$
    SELECT CASE WHEN (SELECT groupid FROM pg_dist_local_group) = %%s
                THEN setval('corpus.stored_bytes_entry_id_seq', greatest(last_value, %%s)) END
    FROM corpus.stored_bytes_entry_id_seq
$command$, %(group)s::bigint, %(number)s::bigint))
