-- Erasing a user or the whole organisation, in the background: asked for once, and tried again until it is done.

CREATE TABLE chat.erasures (
    org_id       text COLLATE "C" NOT NULL,
    erasure_id   uuid NOT NULL,                           -- version 7
    subject_kind text NOT NULL CHECK (subject_kind IN ('user', 'organisation')),
    -- The user; empty for the organisation, and once it is done, so that no name is left.
    subject      text COLLATE "C" NOT NULL,
    -- What stands in place of the user in accounts, and as the owner of documents that are kept.
    successor    text COLLATE "C" NOT NULL,
    documents    text NOT NULL CHECK (documents IN ('delete', 'keep')),
    state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done')),
    erased       bigint NOT NULL DEFAULT 0,               -- documents so far
    requested_by text COLLATE "C" NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,
    next_at      timestamptz NOT NULL DEFAULT now(),      -- when it is next worked on
    PRIMARY KEY (org_id, erasure_id)
);
CREATE INDEX erasures_due ON chat.erasures (next_at) WHERE state = 'running';
SELECT chat.protect('erasures');
GRANT SELECT, INSERT, UPDATE, DELETE ON chat.erasures TO citewire_chat;
CREATE POLICY owner_claims_all ON chat.erasures TO CURRENT_USER USING (true) WITH CHECK (true);

-- Takes erasures that are due; for others they are due again after so many seconds.
CREATE FUNCTION chat.claim_erasures(most integer, seconds double precision)
RETURNS TABLE (org_id text, erasure_id uuid)
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE chat.erasures e SET next_at = now() + make_interval(secs => seconds)
    FROM (SELECT d.org_id, d.erasure_id FROM chat.erasures d WHERE d.state = 'running' AND d.next_at <= now()
          ORDER BY d.next_at LIMIT most FOR UPDATE SKIP LOCKED) due
    WHERE e.org_id = due.org_id AND e.erasure_id = due.erasure_id
    RETURNING e.org_id, e.erasure_id
$$;
REVOKE ALL ON FUNCTION chat.claim_erasures(integer, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.claim_erasures(integer, double precision) TO citewire_chat;

-- Deletes what is a user's (with an empty name: everybody's, and all that is the organisation's) in each table that has
-- organisations; tables of later versions are found in the catalogue. Accounts of chats are kept of a user, under another name.
-- The audit trail has rules of its own.
CREATE FUNCTION chat.erase(of_user text, stand_in text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    relation record;
    named text;
BEGIN
    IF coalesce(org, '') = '' THEN
        RAISE EXCEPTION 'no organisation is set';
    END IF;
    FOR relation IN
        SELECT c.relname AS name, array_agg(a.attname::text) AS columns
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'chat'
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND c.relname <> 'erasures' AND c.relname NOT LIKE 'audit\_%'
        GROUP BY c.relname
        HAVING 'org_id' = ANY (array_agg(a.attname::text))
        ORDER BY c.relname
    LOOP
        IF of_user = '' THEN
            EXECUTE format('DELETE FROM chat.%I WHERE org_id = $1', relation.name) USING org;
            CONTINUE;
        END IF;
        IF relation.name = 'exchanges' THEN
            UPDATE chat.exchanges SET user_id = stand_in WHERE org_id = org AND user_id = of_user;
        ELSIF 'user_id' = ANY (relation.columns) THEN
            EXECUTE format('DELETE FROM chat.%I WHERE org_id = $1 AND user_id = $2', relation.name) USING org, of_user;
        END IF;
        FOREACH named IN ARRAY ARRAY['created_by', 'updated_by'] LOOP
            IF named = ANY (relation.columns) THEN
                EXECUTE format('UPDATE chat.%I SET %I = $3 WHERE org_id = $1 AND %I = $2', relation.name, named, named)
                USING org, of_user, stand_in;
            END IF;
        END LOOP;
    END LOOP;
    IF of_user <> '' THEN
        DELETE FROM chat.conversation_shares WHERE org_id = org AND reader_kind = 'user' AND reader = of_user;
        UPDATE chat.erasures SET requested_by = stand_in WHERE org_id = org AND requested_by = of_user;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION chat.erase(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.erase(text, text) TO citewire_chat;
