-- Statements of the operator's commands for a cluster. They run as the schema's owner, on the coordinator.

-- name: engine
-- Citus's version, NULL without it; whether the schema exists.
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'citus'), to_regclass('corpus.collections') IS NOT NULL

-- name: place
-- This node's group, 0 on the coordinator; whether the tables are distributed.
SELECT (SELECT groupid FROM pg_dist_local_group),
       EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'corpus.collections'::regclass)

-- name: limit_connecting
-- A frozen node accepts connections but doesn't answer, and Citus would wait half a minute for it.
SELECT set_config('citus.node_connection_timeout', %(limit)s, false)

-- name: nodes
SELECT nodeid, nodename, nodeport, groupid, isactive, shouldhaveshards FROM pg_dist_node
WHERE noderole = 'primary' ORDER BY groupid

-- name: node_details
-- Runs on each node; a node that doesn't answer is reported as such and fails nothing.
SELECT nodeid, success, CASE WHEN success THEN result::json ELSE to_json(result) END FROM run_command_on_all_nodes($node$
    SELECT json_build_object(
        'wal_level', current_setting('wal_level'),
        'synchronous_commit', (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
        'max_prepared_transactions', current_setting('max_prepared_transactions')::integer,
        'archive', (SELECT CASE WHEN current_setting('archive_mode') = 'off'
                                  OR coalesce(nullif(current_setting('archive_library'), ''),
                                              current_setting('archive_command')) IN ('', '(disabled)') THEN 'off'
                                WHEN last_failed_time > coalesce(last_archived_time, '-infinity') THEN 'fails'
                                ELSE 'on' END FROM pg_stat_archiver),
        'prepared_transactions', (SELECT count(*) FROM pg_prepared_xacts WHERE prepared < now() - interval '1 minute'),
        'replicas', (SELECT coalesce(json_agg(json_build_object(
            'name', application_name, 'state', state,
            'behind_bytes', pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) ORDER BY application_name), '[]')
            FROM pg_stat_replication WHERE application_name !~ '^citus_shard_'))
$node$, true, true)

-- name: node_settings
-- Runs on a node that isn't in the cluster yet.
SELECT json_build_object(
    'wal_level', current_setting('wal_level'),
    'synchronous_commit', (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
    'max_prepared_transactions', current_setting('max_prepared_transactions')::integer,
    'vector', EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector'))

-- name: node_bytes
SELECT nodename, nodeport, sum(shard_size)::bigint FROM citus_shards GROUP BY 1, 2

-- name: shard_organisations
-- Per shard: the number of organisations that published something, their chunks, and the names of the largest.
SELECT nodename, nodeport, shardid, success, CASE WHEN success THEN result::json END FROM run_command_on_placements('corpus.access_counts', $shard$
    SELECT json_build_object('organisations', count(*), 'chunks', coalesce(sum(chunks), 0),
                             'largest', coalesce(json_agg(json_build_array(org_id, chunks)) FILTER (WHERE place <= 10), '[]'))
    FROM (SELECT org_id, sum(chunks) AS chunks, row_number() OVER (ORDER BY sum(chunks) DESC, org_id) AS place
          FROM %s GROUP BY org_id) AS totals
$shard$)

-- name: alone
-- Shards for a single hash value: those of isolated organisations.
SELECT shardid FROM pg_dist_shard
WHERE logicalrelid = 'corpus.access_counts'::regclass AND shardminvalue = shardmaxvalue

-- name: lock_holders
-- Sessions of commands that change the cluster: each with the time since which it has been there, and its last statement.
SELECT a.pid, to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'),
       left(regexp_replace(btrim(a.query), '\s+', ' ', 'g'), 100)
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32) | l.objid::bigint = %(lock)s
ORDER BY a.pid

-- name: moves
-- Moves and splits in progress: each session moves one group of shards, of all tables.
SELECT min(operation_type), min(sourcename), min(sourceport), min(targetname), min(targetport),
       count(*), sum(source_shard_size)::bigint, sum(target_shard_size)::bigint, min(status)
FROM get_rebalance_progress() GROUP BY sessionid ORDER BY sessionid

-- name: rebalance
-- The last rebalance; no row if there was none.
SELECT job_id, state::text, details FROM citus_rebalance_status() ORDER BY job_id DESC LIMIT 1

-- name: failed_tasks
SELECT command, message FROM pg_dist_background_task WHERE job_id = %(job_id)s AND status = 'error' ORDER BY task_id

-- name: organisation
-- Where an organisation is, or would be: its shard of the first table, whether it has that shard alone, and the node.
SELECT s.shardid, s.shardminvalue = s.shardmaxvalue, n.nodename, n.nodeport
FROM pg_dist_shard s
JOIN pg_dist_placement p USING (shardid)
JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
WHERE s.shardid = get_shard_id_for_distribution_column('corpus.collections', %(org)s::text)

-- name: has_documents
SELECT 1 FROM corpus.documents WHERE org_id = %(org)s LIMIT 1

-- name: has_collections
SELECT 1 FROM corpus.collections WHERE org_id = %(org)s LIMIT 1

-- name: add_node
SELECT citus_add_node(%(host)s, %(port)s)

-- name: activate_node
SELECT citus_activate_node(%(host)s, %(port)s)

-- name: copy_references
SELECT replicate_reference_tables('force_logical')

-- name: look_after_copies
-- Works around two faults of Citus in isolating an organisation, which copies shards on their node.
-- Citus 14.0 adds the copies' keys after it has begun to read the changes to be replicated to them: a row that is updated or
-- deleted in between is sent without a key, rejected, and sent again forever (https://github.com/citusdata/citus/issues/6790).
-- So on nodes, a new table has all of its columns as its replica identity until it has its key.
-- After an interrupted isolation, Citus drops the copies before the replication slot. The process that reads the slot looks up
-- the copy for each change, and if that no longer exists, a segmentation fault ends the process and the node with it. So the
-- slot is dropped first here.
SELECT nodename || ':' || nodeport, success, result FROM run_command_on_workers($node$
    DO $do$
    BEGIN
        PERFORM set_config('citus.enable_ddl_propagation', 'off', true);
        CREATE OR REPLACE FUNCTION corpus.identify_copies() RETURNS event_trigger
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp
        AS $function$
        DECLARE
            changed record;
        BEGIN
            FOR changed IN
                SELECT DISTINCT c.oid::regclass AS relation, CASE WHEN i.indrelid IS NULL THEN 'FULL' ELSE 'DEFAULT' END AS identity
                FROM pg_event_trigger_ddl_commands() e
                JOIN pg_class c ON c.oid = e.objid AND c.relkind = 'r' AND c.relnamespace = 'corpus'::regnamespace
                LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
                WHERE e.classid = 'pg_class'::regclass
                  AND c.relreplident = CASE WHEN i.indrelid IS NULL THEN 'd'::"char" ELSE 'f'::"char" END
            LOOP
                EXECUTE format('ALTER TABLE %s REPLICA IDENTITY %s', changed.relation, changed.identity);
            END LOOP;
        END
        $function$;
        CREATE OR REPLACE FUNCTION corpus.stop_reading_for_copies() RETURNS event_trigger
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp
        AS $function$
        DECLARE
            reading record;
        BEGIN
            FOR reading IN
                SELECT DISTINCT s.slot_name, s.active_pid
                FROM pg_event_trigger_dropped_objects() d
                JOIN pg_replication_slots s ON s.database = current_database()
                                           AND s.slot_name = replace(d.address_args[1], '_publication_', '_slot_')
                WHERE d.object_type = 'publication relation' AND d.address_args[1] ^@ 'citus_shard_split_'
            LOOP
                PERFORM pg_terminate_backend(reading.active_pid, 5000) WHERE reading.active_pid IS NOT NULL;
                -- Fails if the slot is still in use; then the table isn't dropped either, and Citus tries again.
                PERFORM pg_drop_replication_slot(reading.slot_name);
            END LOOP;
        END
        $function$;
        DROP EVENT TRIGGER IF EXISTS citewire_identify_copies;
        CREATE EVENT TRIGGER citewire_identify_copies ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE')
            EXECUTE FUNCTION corpus.identify_copies();
        DROP EVENT TRIGGER IF EXISTS citewire_stop_reading_for_copies;
        CREATE EVENT TRIGGER citewire_stop_reading_for_copies ON sql_drop WHEN TAG IN ('DROP TABLE')
            EXECUTE FUNCTION corpus.stop_reading_for_copies();
    END
    $do$
$node$)

-- name: leave_copies
-- Removes the workarounds, also those of a command that was killed. They stay while remains of an interrupted isolation exist.
SELECT nodename || ':' || nodeport, success, result FROM run_command_on_workers($node$
    DO $do$
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname ^@ 'citus_shard_split_') THEN
            PERFORM set_config('citus.enable_ddl_propagation', 'off', true);
            DROP FUNCTION IF EXISTS corpus.identify_copies() CASCADE;
            DROP FUNCTION IF EXISTS corpus.stop_reading_for_copies() CASCADE;
        END IF;
    END
    $do$
$node$)

-- name: isolate
-- Isolates the organisation's shards of all tables; reading and writing go on meanwhile.
SELECT isolate_tenant_to_new_shard('corpus.collections', %(org)s::text, 'CASCADE', 'force_logical')

-- name: left_over
-- Shards of a group that an interrupted move left on a node: until they are dropped, Citus can't move the group there.
SELECT record.object_name
FROM pg_dist_cleanup record
JOIN pg_dist_node node ON node.groupid = record.node_group_id
WHERE record.object_type = 1 AND node.nodename = %(host)s AND node.nodeport = %(port)s
  AND record.object_name IN (
      SELECT shard_name(other.logicalrelid, other.shardid)
      FROM pg_dist_shard shard
      JOIN pg_dist_partition part USING (logicalrelid)
      JOIN pg_dist_partition other_part ON other_part.colocationid = part.colocationid
      JOIN pg_dist_shard other ON other.logicalrelid = other_part.logicalrelid AND other.shardminvalue = shard.shardminvalue
      WHERE shard.shardid = %(shard)s
  )
ORDER BY record.object_name

-- name: move
SELECT citus_move_shard_placement(%(shard)s, %(from_host)s, %(from_port)s, %(host)s, %(port)s, 'force_logical')

-- name: start_rebalance
SELECT citus_rebalance_start(rebalance_strategy := %(strategy)s, shard_transfer_mode := 'force_logical')

-- name: planned_moves
-- One row for each group of shards.
SELECT shardid, shard_size, sourcename, sourceport, targetname, targetport
FROM get_rebalance_table_shards_plan(rebalance_strategy := %(strategy)s) WHERE table_name = 'corpus.collections'::regclass

-- name: clean_up
-- Removes what interrupted moves left on nodes, but nothing that a running move uses.
CALL citus_cleanup_orphaned_resources()

-- name: copying_objects
-- What moves and splits have on nodes to copy shards.
SELECT jsonb_array_elements_text(result::jsonb) FROM run_command_on_all_nodes($node$
    SELECT coalesce(jsonb_agg(name), '[]') FROM (
        SELECT subname::text FROM pg_subscription
        WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        UNION ALL SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()
        UNION ALL SELECT pubname::text FROM pg_publication
    ) AS object (name)
    WHERE name ~ '^citus_shard_(move|split)_(subscription|slot|publication)_'
$node$) WHERE success

-- name: copying_records
-- The names of those that belong to something that runs, or that Citus knows it has to remove.
SELECT object_name FROM pg_dist_cleanup

-- name: drop_copying_objects
-- Subscriptions first, because they use the others. A slot that is in use is left for the next time.
SELECT nodeid, result FROM run_command_on_all_nodes(format($node$
    DO $do$
    DECLARE
        names CONSTANT text[] := %%L;
        object text;
    BEGIN
        PERFORM set_config('citus.enable_ddl_propagation', 'off', true);
        FOR object IN SELECT subname FROM pg_subscription WHERE subname = ANY (names) LOOP
            EXECUTE format('ALTER SUBSCRIPTION %%%%I DISABLE', object);
            EXECUTE format('ALTER SUBSCRIPTION %%%%I SET (slot_name = NONE)', object);
            EXECUTE format('DROP SUBSCRIPTION %%%%I', object);
        END LOOP;
        PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ANY (names) AND NOT active;
        FOR object IN SELECT pubname FROM pg_publication WHERE pubname = ANY (names) LOOP
            EXECUTE format('DROP PUBLICATION %%%%I', object);
        END LOOP;
    END
    $do$
$node$, %(names)s::text[])) WHERE NOT success

-- name: archive
SELECT current_setting('archive_mode'),
       coalesce(nullif(current_setting('archive_library'), ''), current_setting('archive_command')) NOT IN ('', '(disabled)')

-- name: moving
SELECT EXISTS (SELECT FROM get_rebalance_progress())
    OR EXISTS (SELECT FROM citus_rebalance_status() WHERE state IN ('scheduled', 'running', 'failing', 'cancelling'))

-- name: give_way
-- While a statement waits for a lock, writers wait behind it, so it gives up soon.
SET LOCAL lock_timeout = '300ms'

-- name: stop_queue
LOCK TABLE corpus.ingest_jobs, corpus.ingest_shares, corpus.backfill_checks IN SHARE MODE

-- name: restore_point
SELECT citus_create_restore_point(%(name)s)

-- name: restore_point_of_one
SELECT pg_create_restore_point(%(name)s)

-- name: write_to_log
SELECT pg_logical_emit_message(false, 'citewire', 'the end of a file')

-- name: finish_file
SELECT pg_walfile_name(pg_switch_wal())

-- name: archived
-- The last file that was archived, and the one whose archiving fails.
SELECT CASE WHEN last_archived_wal ~ '^[0-9A-F]{24}' THEN left(last_archived_wal, 24) END,
       CASE WHEN last_failed_time > coalesce(last_archived_time, '-infinity') THEN last_failed_wal END
FROM pg_stat_archiver

-- name: loud_settings
SELECT name FROM pg_settings WHERE name = ANY (%(names)s) AND setting <> '-1'

-- name: restored
SELECT pg_is_in_recovery(), (SELECT groupid FROM pg_dist_local_group)

-- name: readdress_node
SELECT citus_update_node(%(node_id)s, %(host)s, %(port)s)

-- name: sync_nodes
-- Sends all nodes the current addresses of the others.
SELECT start_metadata_sync_to_all_nodes()

-- name: end_prepared
SELECT recover_prepared_transactions()

-- name: reload
SELECT pg_reload_conf()
