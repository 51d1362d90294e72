-- Erasing what answers say of documents that were deleted. The retriever notes what was deleted; the gateway takes that
-- over, organisation by organisation, and tries again until it is done.

-- When an organisation is next asked for deleted documents. Before a deletion it is set to now, so that a gateway that dies
-- meanwhile is made up for by another.
CREATE TABLE chat.erasure_checks (
    org_id  text COLLATE "C" PRIMARY KEY CHECK (org_id <> ''),
    next_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX erasure_checks_due ON chat.erasure_checks (next_at);
SELECT chat.protect('erasure_checks');
GRANT SELECT, INSERT, UPDATE ON chat.erasure_checks TO citewire_chat;
CREATE POLICY owner_claims_all ON chat.erasure_checks TO CURRENT_USER USING (true) WITH CHECK (true);

-- Every organisation is asked from time to time: documents are deleted by other ways than this gateway's too.
CREATE FUNCTION chat.check_erasures() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO chat.erasure_checks (org_id) VALUES (NEW.org_id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER check_erasures AFTER INSERT ON chat.orgs FOR EACH ROW EXECUTE FUNCTION chat.check_erasures();
ALTER TABLE chat.orgs NO FORCE ROW LEVEL SECURITY;
INSERT INTO chat.erasure_checks (org_id) SELECT org_id FROM chat.orgs ON CONFLICT DO NOTHING;
ALTER TABLE chat.orgs FORCE ROW LEVEL SECURITY;

-- Takes organisations that are due; for others they are due again after so many seconds.
CREATE FUNCTION chat.claim_erasure_checks(most integer, seconds double precision) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE chat.erasure_checks c SET next_at = now() + make_interval(secs => seconds)
    FROM (SELECT org_id FROM chat.erasure_checks WHERE next_at <= now()
          ORDER BY next_at LIMIT most FOR UPDATE SKIP LOCKED) due
    WHERE c.org_id = due.org_id
    RETURNING c.org_id
$$;
REVOKE ALL ON FUNCTION chat.claim_erasure_checks(integer, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.claim_erasure_checks(integer, double precision) TO citewire_chat;

-- The documents that an answer was written from, by what is stored with it; and those that a kept answer names.
CREATE FUNCTION chat.cited_documents(details jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT (citation ->> 'document_id')::bigint), '{}')
    FROM jsonb_array_elements(coalesce(details -> 'citations', '[]')) AS citation
    WHERE citation ? 'document_id'
$$;
CREATE FUNCTION chat.named_documents(response jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT (named #>> '{}')::bigint), '{}')
    FROM jsonb_path_query(response, 'strict $.**.document_id ? (@.type() != "null")') AS named
$$;
REVOKE ALL ON FUNCTION chat.cited_documents(jsonb), chat.named_documents(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.cited_documents(jsonb), chat.named_documents(jsonb) TO citewire_chat;

CREATE INDEX messages_by_document ON chat.messages USING gin (chat.cited_documents(details)) WHERE role = 'assistant';

-- Erases what answers say of these documents: the answers that were written from them, those after them whose model had
-- read the conversation (or may have), and answers that are kept for their keys. What was spent stays. Row-level security
-- allows no GIN index, so this runs as the owner, and compares org_id itself with the tenant that kit has set.
CREATE FUNCTION chat.erase_documents(documents bigint[], note text) RETURNS TABLE (answers bigint, keys bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
BEGIN
    RETURN QUERY
    WITH tainted AS (
        SELECT m.conversation_id, min(m.ordinal) AS since FROM chat.messages m
        WHERE m.org_id = org AND m.role = 'assistant' AND chat.cited_documents(m.details) && documents
        GROUP BY m.conversation_id
    ), erased AS (
        UPDATE chat.messages m
        SET content = note,
            details = (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(m.details)
                       WHERE key IN ('schema_version', 'usage', 'provider', 'model', 'finish_reason', 'not_found', 'history'))
                      || '{"citations": [], "cited": [], "steps": [], "withheld": true}'
        FROM tainted t
        WHERE m.org_id = org AND m.conversation_id = t.conversation_id AND m.role = 'assistant'
          AND NOT m.details ? 'withheld'
          AND (chat.cited_documents(m.details) && documents
               OR m.ordinal > t.since AND coalesce((m.details ->> 'history')::int, 1) <> 0)
        RETURNING 1
    ), forgotten AS (
        DELETE FROM chat.idempotency_keys i
        WHERE i.org_id = org AND i.operation LIKE 'chat:%' AND chat.named_documents(i.response) && documents
        RETURNING 1
    ), emptied AS (
        -- What was uploaded isn't uploaded again by who repeats the request: the key stays, with nothing but the id.
        UPDATE chat.idempotency_keys i SET response = jsonb_build_object('id', i.response -> 'id')
        WHERE i.org_id = org AND i.operation LIKE 'documents%' AND (i.response ->> 'id')::bigint = ANY (documents)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM erased), (SELECT count(*) FROM forgotten) + (SELECT count(*) FROM emptied);
END
$$;
REVOKE ALL ON FUNCTION chat.erase_documents(bigint[], text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.erase_documents(bigint[], text) TO citewire_chat;
CREATE POLICY owner_erases_all ON chat.messages TO CURRENT_USER USING (true) WITH CHECK (true);
