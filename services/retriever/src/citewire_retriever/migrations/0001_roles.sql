-- The schema and the two roles that read and write it. Neither owns anything, neither may step around row-level
-- security: the owner (who runs the migrations) is a third role that no service connects as.

CREATE SCHEMA IF NOT EXISTS corpus;

-- Not a trusted extension: where the owner is no superuser, an administrator creates it beforehand.
CREATE EXTENSION IF NOT EXISTS vector;

-- Roles belong to the whole server, and migrations of several databases may run at once: losing the race is fine.
DO $$
DECLARE
    application_role text;
BEGIN
    FOREACH application_role IN ARRAY ARRAY['citewire_corpus', 'citewire_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = application_role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS',
                               application_role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        IF EXISTS (SELECT FROM pg_catalog.pg_roles
                   WHERE rolname = application_role AND (rolsuper OR rolbypassrls)) THEN
            RAISE EXCEPTION 'role % is a superuser or has BYPASSRLS: tenants would not be kept apart', application_role;
        END IF;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA corpus TO citewire_corpus, citewire_worker;

-- Makes a table a tenant's: security on, also for its owner, and one policy that compares org_id with the tenant that
-- kit has set for this transaction. Without a tenant the setting is NULL or empty, and nothing is seen or written.
CREATE FUNCTION corpus.protect(table_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('ALTER TABLE corpus.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE corpus.%I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format($policy$
        CREATE POLICY tenant ON corpus.%I
            USING (org_id = current_setting('citewire.org_id', true))
            WITH CHECK (org_id = current_setting('citewire.org_id', true))
    $policy$, table_name);
END
$$;
REVOKE ALL ON FUNCTION corpus.protect(text) FROM PUBLIC;
