-- Several providers may be saved for an owner and a type. The active one, with its fallbacks, stays where it was, so that
-- the version before reads and writes it as ever; the others wait in a table of the same columns.
ALTER TABLE chat.providers
    ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$');

CREATE TABLE chat.saved_providers (
    LIKE chat.providers INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    PRIMARY KEY (org_id, user_id, type, name, position)
);

SELECT chat.protect('saved_providers');

GRANT SELECT, INSERT, UPDATE, DELETE ON chat.saved_providers TO citewire_chat;

-- As chat.sealed_providers(), which the version before calls, for both tables: what is to be sealed again.
CREATE POLICY owner_reads_all ON chat.saved_providers FOR SELECT TO CURRENT_USER USING (true);
CREATE FUNCTION chat.sealed_rows()
RETURNS TABLE (org_id text, user_id text, type text, "name" text, "position" smallint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.org_id, p.user_id, p.type, p.name, p.position
    FROM chat.providers p
    WHERE p.sealed_key <> '' OR p.sealed_api_base <> ''
    UNION ALL
    SELECT s.org_id, s.user_id, s.type, s.name, s.position
    FROM chat.saved_providers s
    WHERE s.sealed_key <> '' OR s.sealed_api_base <> ''
    ORDER BY 1, 2, 3, 4, 5
$$;
REVOKE ALL ON FUNCTION chat.sealed_rows() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.sealed_rows() TO citewire_chat;
