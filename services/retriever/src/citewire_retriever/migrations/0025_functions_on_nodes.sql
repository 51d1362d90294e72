-- The same functions, in what one Postgres and a cluster of them (Citus) both take: a table that is asked for is the query's own
-- and not an EXISTS in an expression, which has no node; and what a conflict sets is taken from the row that was refused.

CREATE OR REPLACE FUNCTION corpus.collection_access(of_collection bigint) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    role CONSTANT text := corpus.caller_role();
    subjects CONSTANT text[] := corpus.caller_subjects();
    granted text;
BEGIN
    IF role IN ('owner', 'admin') THEN
        RETURN 'manage';
    END IF;
    PERFORM 1 FROM corpus.collection_grants g WHERE g.org_id = org AND g.collection_id = of_collection LIMIT 1;
    IF NOT FOUND THEN
        RETURN CASE WHEN role = 'editor' THEN 'manage' ELSE 'read' END;
    END IF;
    SELECT g.access INTO granted
    FROM corpus.collection_grants g
    WHERE g.org_id = org AND g.collection_id = of_collection AND g.subject = ANY (subjects)
    ORDER BY array_position(ARRAY['manage', 'write', 'read'], g.access)
    LIMIT 1;
    RETURN CASE WHEN role = 'editor' OR granted IS NULL THEN granted ELSE 'read' END;
END
$$;

CREATE OR REPLACE FUNCTION corpus.nothing_hidden() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
BEGIN
    IF corpus.caller_role() IN ('owner', 'admin') THEN
        RETURN true;
    END IF;
    PERFORM 1 FROM corpus.collection_grants g WHERE g.org_id = org LIMIT 1;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM corpus.accesses a WHERE a.org_id = org LIMIT 1;
    RETURN NOT FOUND;
END
$$;

CREATE OR REPLACE FUNCTION corpus.note_erased() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.erased_documents (org_id, document_id) VALUES (OLD.org_id, OLD.document_id)
    ON CONFLICT (org_id, document_id) DO UPDATE SET erased_at = excluded.erased_at;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION corpus.readers_of(of_org text, of_access bigint) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known text[];
BEGIN
    IF of_access IS NULL THEN
        RETURN '{}';
    END IF;
    SELECT a.readers INTO known FROM corpus.accesses a WHERE a.org_id = of_org AND a.access_id = of_access;
    RETURN known;
END
$$;

CREATE OR REPLACE FUNCTION corpus.accesses_of(of_collection bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    own bigint[];
BEGIN
    SELECT array_agg(a.access_id) INTO own FROM corpus.accesses a WHERE a.org_id = org AND a.collection_id = of_collection;
    RETURN ARRAY[of_collection] || own;
END
$$;

CREATE OR REPLACE FUNCTION corpus.visible_accesses() RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    subjects CONSTANT text[] := corpus.caller_subjects();
    everything CONSTANT boolean := corpus.caller_role() IN ('owner', 'admin');
    resolved CONSTANT text := coalesce(current_setting('citewire.visible', true), '');  -- see visible_setting
    visible bigint[];
    managed bigint[];
BEGIN
    IF resolved NOT IN ('', 'all') THEN
        RETURN QUERY SELECT unnest(string_to_array(trim(BOTH ',' FROM resolved), ',')::bigint[]);
        RETURN;
    END IF;
    RETURN NEXT 0;
    IF everything THEN
        RETURN QUERY SELECT c.collection_id FROM corpus.collections c WHERE c.org_id = org;
        RETURN QUERY SELECT a.access_id FROM corpus.accesses a WHERE a.org_id = org;
        RETURN;
    END IF;
    SELECT coalesce(array_agg(seen.collection_id), '{}') INTO visible
    FROM (
        SELECT c.collection_id FROM corpus.collections c
        WHERE c.org_id = org AND NOT EXISTS (
            SELECT 1 FROM corpus.collection_grants g WHERE g.org_id = org AND g.collection_id = c.collection_id)
        UNION
        SELECT g.collection_id FROM corpus.collection_grants g WHERE g.org_id = org AND g.subject = ANY (subjects)
    ) seen;
    RETURN QUERY SELECT unnest(visible);
    RETURN QUERY
    SELECT DISTINCT r.access_id
    FROM corpus.access_readers r
    JOIN corpus.accesses a ON a.org_id = r.org_id AND a.access_id = r.access_id
    WHERE r.org_id = org AND a.org_id = org AND r.subject = ANY (subjects)
      AND (a.collection_id IS NULL OR a.collection_id = ANY (visible));
    SELECT coalesce(array_agg(g.collection_id), '{}') INTO managed
    FROM corpus.collection_grants g
    WHERE g.org_id = org AND g.subject = ANY (subjects) AND g.access = 'manage';
    IF managed <> '{}' THEN
        RETURN QUERY
        SELECT a.access_id FROM corpus.accesses a WHERE a.org_id = org AND a.collection_id = ANY (managed);
    END IF;
END
$$;

-- Versions are locked before they are added up: an aggregate of a locked sub-select has no node.
CREATE OR REPLACE FUNCTION corpus.count_document_bytes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored bigint;
BEGIN
    PERFORM 1 FROM corpus.versions v WHERE v.org_id = OLD.org_id AND v.document_id = OLD.document_id FOR UPDATE;
    SELECT coalesce(sum(v.size_bytes), 0) INTO stored
    FROM corpus.versions v WHERE v.org_id = OLD.org_id AND v.document_id = OLD.document_id;
    IF stored <> 0 THEN
        INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) VALUES (OLD.org_id, OLD.owner, -stored);
        IF TG_OP = 'UPDATE' THEN
            INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) VALUES (NEW.org_id, NEW.owner, stored);
        END IF;
    END IF;
    RETURN coalesce(NEW, OLD);
END
$$;
