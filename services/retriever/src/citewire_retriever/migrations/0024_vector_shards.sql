-- Where the database is spread over nodes (Citus), a space's table is distributed as it is made, and shards take the place of
-- its partitions. On one Postgres it is made as before.
CREATE OR REPLACE FUNCTION corpus.make_vector_table(table_name text, dimensions integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    spread CONSTANT boolean := EXISTS (SELECT FROM pg_extension WHERE extname = 'citus');
    -- Tenants share a partition's graph, and a search walks through rows of others that are nearer: with 100 tenants, the
    -- mean share of one's own rows in its graph is 16 % in 16 partitions, and 55 % in 64. 64 take 0.1 s to make.
    partitions CONSTANT integer := CASE WHEN spread THEN 0 ELSE 64 END;
    partition_name text;
BEGIN
    EXECUTE format($table$
        CREATE TABLE corpus.%I (
            org_id      text COLLATE "C" NOT NULL,
            chunk_id    bigint NOT NULL,
            document_id bigint NOT NULL,
            version     integer NOT NULL,
            embedding   halfvec(%s) NOT NULL,
            PRIMARY KEY (org_id, chunk_id),
            FOREIGN KEY (org_id, chunk_id) REFERENCES corpus.chunks (org_id, chunk_id) ON DELETE CASCADE
        ) %s
    $table$, table_name, dimensions, CASE WHEN spread THEN '' ELSE 'PARTITION BY HASH (org_id)' END);
    -- In the row as long as two rows fit a page: an exact scan then reads no TOAST.
    IF dimensions <= 1900 THEN
        EXECUTE format('ALTER TABLE corpus.%I ALTER COLUMN embedding SET STORAGE PLAIN', table_name);
    END IF;
    PERFORM corpus.protect(table_name);
    FOR remainder IN 0 .. partitions - 1 LOOP
        partition_name := table_name || '_p' || remainder;
        EXECUTE format('CREATE TABLE corpus.%I PARTITION OF corpus.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                       partition_name, table_name, partitions, remainder);
        PERFORM corpus.protect(partition_name);
    END LOOP;
    EXECUTE format('CREATE INDEX %I ON corpus.%I (org_id, document_id, version)',
                   table_name || '_by_document', table_name);
    -- HNSW takes a halfvec of at most 4000 dimensions; larger ones are scanned. A denser graph than the default (16, 64)
    -- takes 4 % more room and twice the time to build, and at the same search effort halves what is missed.
    IF dimensions <= 4000 THEN
        EXECUTE format('CREATE INDEX %I ON corpus.%I USING hnsw (embedding halfvec_cosine_ops)
                        WITH (m = 24, ef_construction = 100)', table_name || '_by_likeness', table_name);
    END IF;
    -- On the table only: nobody but the owner names a partition.
    EXECUTE format('GRANT SELECT ON corpus.%I TO citewire_corpus', table_name);
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON corpus.%I TO citewire_worker', table_name);
    IF spread THEN
        PERFORM create_distributed_table(format('corpus.%I', table_name)::regclass, 'org_id',
                                         colocate_with => 'corpus.chunks');
    END IF;
END
$$;
