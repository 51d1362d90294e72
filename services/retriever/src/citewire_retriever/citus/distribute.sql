-- `migrate` runs this after the migrations if the database has the extension Citus: it distributes tables by organisation.
-- It runs each time, so that a table which a later migration adds is distributed too; all of it can be repeated.

SET LOCAL citus.enable_unsafe_triggers = on;

-- Citus forwards SET LOCAL to its nodes, but not set_config: the policies there would see no tenant, and hide every row.
CREATE SCHEMA IF NOT EXISTS citewire;
GRANT USAGE ON SCHEMA citewire TO PUBLIC;  -- each connection checks whether the function exists
CREATE OR REPLACE FUNCTION citewire.set_local(names text[], given text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('citus.propagate_set_commands', 'local', true);
    FOR place IN 1 .. cardinality(names) LOOP
        EXECUTE format('SET LOCAL %s = %L', names[place], given[place]);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION citewire.set_local(text[], text[]) TO PUBLIC;  -- it does nothing that its caller couldn't do without it

-- The node of an organisation. Runs as the owner, which is safe because it reads only catalogues.
CREATE OR REPLACE FUNCTION citewire.node_of(org text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    node text;
BEGIN
    SELECT n.nodename || ':' || n.nodeport INTO node
    FROM pg_dist_placement p JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
    WHERE p.shardid = get_shard_id_for_distribution_column('corpus.collections'::regclass, org);
    RETURN node;
END
$$;

-- The cheapest query to an organisation's node, over the same path as all other queries.
CREATE OR REPLACE FUNCTION citewire.ask_node(org text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM 1 FROM corpus.collections c WHERE c.org_id = org LIMIT 1;
END
$$;

-- The addresses of nodes that don't answer.
CREATE OR REPLACE FUNCTION citewire.silent_nodes() RETURNS text[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    node record;
    silent text[] := '{}';
BEGIN
    FOR node IN SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND groupid <> 0 LOOP
        IF NOT citus_check_connection_to_node(node.nodename, node.nodeport) THEN
            silent := silent || (node.nodename || ':' || node.nodeport);
        END IF;
    END LOOP;
    RETURN silent;
END
$$;
REVOKE ALL ON FUNCTION citewire.node_of(text), citewire.ask_node(text), citewire.silent_nodes() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION citewire.node_of(text), citewire.ask_node(text), citewire.silent_nodes()
    TO citewire_corpus, citewire_worker;

-- Replaces the function of the same name in migration 0012. That one, which is called for each row, takes 8 % less time on a
-- single Postgres, but reads the table in the EXISTS of an expression, which Citus can't route to a node.
CREATE OR REPLACE FUNCTION corpus.sees_document(of_document bigint) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
BEGIN
    PERFORM 1 FROM corpus.documents d WHERE d.org_id = org AND d.document_id = of_document;
    RETURN FOUND;
END
$$;

-- Functions of policies and triggers run on the node of their row and query rows of the same organisation, which are on that
-- node too and are read there in the same transaction. Citus must be told to allow that. And plan_cache_mode is reset, because
-- a generic plan, made for all values at once, can't choose a shard.
DO $$
DECLARE
    called regprocedure;
BEGIN
    FOR called IN
        SELECT p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace = 'corpus'::regnamespace AND p.prosrc ~ '\m(FROM|JOIN|INTO|UPDATE)\s+corpus\.'
          AND NOT coalesce(p.proconfig @> ARRAY['citus.allow_nested_distributed_execution=on'], false)
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET citus.allow_nested_distributed_execution = on', called);
        EXECUTE format('ALTER FUNCTION %s RESET plan_cache_mode', called);
    END LOOP;
END
$$;

-- Does what the foreign key from the queue to versions does on a single Postgres when documents are deleted. Runs as the owner,
-- because the caller no longer sees the deleted documents, and therefore not their jobs either.
CREATE OR REPLACE FUNCTION corpus.delete_jobs(of_documents bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
BEGIN
    DELETE FROM corpus.ingest_jobs WHERE org_id = org AND document_id = ANY (of_documents);
END
$$;
REVOKE ALL ON FUNCTION corpus.delete_jobs(bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION corpus.delete_jobs(bigint[]) TO citewire_corpus;

-- Triggers on shards can't send notifications: a transaction that did so can't be prepared, as one over several nodes must be.
-- Nor can they reach the queue, which stays on the coordinator. The stores do the work of these triggers instead.
-- Only what exists is dropped: DROP IF EXISTS would lock the table, and everybody's uploads and claims with it, at each migration.
DO $$
DECLARE
    unwanted record;
BEGIN
    FOR unwanted IN
        SELECT t.tgname AS name, t.tgrelid::regclass AS relation FROM pg_trigger t
        JOIN (VALUES ('progress', 'versions'), ('progress', 'documents'), ('queue_enrichment', 'documents'),
                     ('check_backfill', 'org_spaces'), ('check_backfill', 'next_spaces'), ('check_backfill', 'collections'))
             AS named (trigger_name, table_name)
          ON t.tgname = named.trigger_name AND t.tgrelid = format('corpus.%I', named.table_name)::regclass
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', unwanted.name, unwanted.relation);
    END LOOP;
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'corpus.ingest_jobs'::regclass
                                           AND conname = 'ingest_jobs_org_id_document_id_version_fkey') THEN
        ALTER TABLE corpus.ingest_jobs DROP CONSTRAINT ingest_jobs_org_id_document_id_version_fkey;
    END IF;
END
$$;

-- On shards, Citus 14.0 turns restrictive policies into permissive ones: a tenant would see every row that one of them allows,
-- even other tenants'. So before a table is distributed, its policies for citewire_corpus are merged into one per command, which
-- requires all of them: the tenant's and the restrictive ones.
DO $$
DECLARE
    relation regclass;
    command record;
    using_all text;
    check_all text;
BEGIN
    FOR relation IN
        SELECT DISTINCT p.polrelid::regclass FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        WHERE c.relnamespace = 'corpus'::regnamespace AND NOT p.polpermissive AND c.relname <> 'ingest_jobs'
    LOOP
        IF EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = relation) THEN
            RAISE EXCEPTION 'a restrictive policy was put on the distributed table %: on its shards it is permissive', relation;
        END IF;
        FOR command IN SELECT * FROM (VALUES ('r', 'SELECT'), ('a', 'INSERT'), ('w', 'UPDATE'), ('d', 'DELETE')) AS c (key, name) LOOP
            SELECT string_agg('(' || pg_get_expr(p.polqual, p.polrelid) || ')', ' AND ' ORDER BY p.polpermissive DESC, p.polname)
                       FILTER (WHERE p.polqual IS NOT NULL),
                   string_agg('(' || pg_get_expr(coalesce(p.polwithcheck, p.polqual), p.polrelid) || ')', ' AND '
                              ORDER BY p.polpermissive DESC, p.polname)
            INTO using_all, check_all
            FROM pg_policy p
            WHERE p.polrelid = relation AND p.polcmd IN ('*', command.key::"char")
              AND (NOT p.polpermissive OR p.polname = 'tenant');
            EXECUTE format('CREATE POLICY %I ON %s FOR %s TO citewire_corpus%s%s', 'corpus_' || lower(command.name), relation,
                           command.name,
                           CASE WHEN command.key <> 'a' THEN format(' USING (%s)', using_all) ELSE '' END,
                           CASE WHEN command.key IN ('a', 'w') THEN format(' WITH CHECK (%s)', check_all) ELSE '' END);
        END LOOP;
        FOR command IN SELECT polname AS name FROM pg_policy WHERE polrelid = relation AND NOT polpermissive LOOP
            EXECUTE format('DROP POLICY %I ON %s', command.name, relation);
        END LOOP;
        EXECUTE format('ALTER POLICY tenant ON %s TO citewire_worker, CURRENT_USER', relation);
    END LOOP;
END
$$;

DO $$
DECLARE
    -- Tables that are queried across organisations.
    stays CONSTANT text[] := ARRAY['schema_migrations', 'ingest_jobs', 'ingest_shares', 'backfill_checks'];
    first CONSTANT regclass := 'corpus.collections';
    relation text;
    changed boolean := true;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'corpus.spaces'::regclass) THEN
        PERFORM create_reference_table('corpus.spaces');
    END IF;
    -- Tables that others refer to come first.
    WHILE changed LOOP
        changed := false;
        FOR relation IN
            SELECT c.relname FROM pg_class c
            WHERE c.relnamespace = 'corpus'::regnamespace AND c.relkind = 'r' AND c.relname <> ALL (stays)
              AND c.oid <> 'corpus.spaces'::regclass
              AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid AND p.partmethod = 'h')
              AND NOT relation_is_a_known_shard(c.oid)
              AND NOT EXISTS (
                  SELECT FROM pg_constraint k
                  WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid
                    AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = k.confrelid))
            ORDER BY c.relname
        LOOP
            IF relation = 'collections' THEN
                PERFORM create_distributed_table(first, 'org_id');
            ELSIF EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = first) THEN
                PERFORM create_distributed_table(format('corpus.%I', relation)::regclass, 'org_id',
                                                 colocate_with => first::text);
            ELSE
                CONTINUE;
            END IF;
            changed := true;
        END LOOP;
    END LOOP;
END
$$;
