-- Chat runs that outlive their reader: an exchange's events, stored while they come, for readers on any gateway.

-- Without a default each, so that nothing is rewritten. An exchange whose events aren't stored has no `events_until`.
ALTER TABLE chat.exchanges
    ADD COLUMN shown text[],                              -- the events that readers are shown
    ADD COLUMN events_until timestamptz,                  -- when its events go, once it has ended
    ADD COLUMN read_at timestamptz,                       -- when a reader was last there, on whichever gateway
    ADD COLUMN cancel_requested boolean;                  -- whether its user wants it stopped
CREATE INDEX exchanges_stored ON chat.exchanges (org_id, conversation_id) WHERE events_until IS NOT NULL;
CREATE INDEX exchanges_events_until ON chat.exchanges (events_until) WHERE events_until IS NOT NULL;

CREATE TABLE chat.run_events (
    org_id         text COLLATE "C" NOT NULL,
    exchange_id    uuid NOT NULL,
    first_sequence integer NOT NULL CHECK (first_sequence >= 1),
    last_sequence  integer NOT NULL CHECK (last_sequence >= first_sequence),
    user_id        text COLLATE "C" NOT NULL,             -- who asked
    codec          smallint NOT NULL,                     -- version of the payload's form
    payload        jsonb NOT NULL,                        -- events in order, in no dialect
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, exchange_id, first_sequence),
    FOREIGN KEY (org_id, exchange_id) REFERENCES chat.exchanges ON DELETE CASCADE
);
SELECT chat.protect('run_events');
GRANT SELECT, INSERT, UPDATE, DELETE ON chat.run_events TO citewire_chat;
-- Beside the queries, which name the user: no transaction of another user's reads or changes them.
CREATE POLICY own ON chat.run_events AS RESTRICTIVE TO citewire_chat
    USING (user_id = current_setting('citewire.user_id', true))
    WITH CHECK (user_id = current_setting('citewire.user_id', true));
CREATE POLICY owner_sweeps_all ON chat.run_events TO CURRENT_USER USING (true) WITH CHECK (true);

-- An answer that is kept for its key is the run's events. A gateway of the version before sees a key that is still held.
ALTER TABLE chat.idempotency_keys ADD COLUMN exchange_id uuid;

-- Renews the leases of a gateway's runs, and returns those that it has to do something about: wanted stopped, taken for
-- lost by others, or read elsewhere, so many seconds ago. `stored` ones are renewed when a third of their lease is over.
CREATE FUNCTION chat.watch_runs(orgs text[], runs uuid[], seconds double precision)
RETURNS TABLE (run_id uuid, cancelled boolean, lost boolean, read_seconds double precision)
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH mine AS (
        SELECT unnest(orgs) COLLATE "C" AS org_id, unnest(runs) AS exchange_id
    ), renewed AS (
        UPDATE chat.exchanges e SET lease_until = now() + make_interval(secs => seconds)
        FROM mine
        WHERE e.org_id = mine.org_id AND e.exchange_id = mine.exchange_id AND e.state = 'running'
          AND e.events_until IS NOT NULL AND e.lease_until < now() + make_interval(secs => seconds * 2 / 3)
    )
    SELECT e.exchange_id, e.cancel_requested IS TRUE, e.state = 'failed' AND e.reason = 'ORPHANED',
           extract(epoch FROM now() - e.read_at)::double precision
    FROM chat.exchanges e
    JOIN mine ON e.org_id = mine.org_id AND e.exchange_id = mine.exchange_id
    WHERE e.cancel_requested OR e.read_at IS NOT NULL OR e.state = 'failed'
$$;
REVOKE ALL ON FUNCTION chat.watch_runs(text[], uuid[], double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.watch_runs(text[], uuid[], double precision) TO citewire_chat;

-- Forgets the events of runs that ended long enough ago, of every organisation.
CREATE FUNCTION chat.sweep_run_events(most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH ended AS (
        UPDATE chat.exchanges e SET events_until = NULL
        FROM (SELECT org_id, exchange_id FROM chat.exchanges
              WHERE events_until < now() AND state <> 'running'
              ORDER BY events_until LIMIT most FOR UPDATE SKIP LOCKED) old
        WHERE e.org_id = old.org_id AND e.exchange_id = old.exchange_id
        RETURNING e.org_id, e.exchange_id
    ), forgotten AS (
        DELETE FROM chat.run_events r USING ended
        WHERE r.org_id = ended.org_id AND r.exchange_id = ended.exchange_id
    )
    SELECT count(*) FROM ended
$$;
REVOKE ALL ON FUNCTION chat.sweep_run_events(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.sweep_run_events(integer) TO citewire_chat;

-- As before, and events of runs that name such a document, with the keys that they are kept for.
CREATE OR REPLACE FUNCTION chat.erase_documents(documents bigint[], note text) RETURNS TABLE (answers bigint, keys bigint)
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
    ), named AS (
        SELECT DISTINCT r.exchange_id FROM chat.run_events r
        WHERE r.org_id = org AND chat.named_documents(r.payload) && documents
    ), removed AS (
        DELETE FROM chat.run_events r USING named WHERE r.org_id = org AND r.exchange_id = named.exchange_id
    ), forgotten AS (
        DELETE FROM chat.idempotency_keys i
        WHERE i.org_id = org AND i.operation LIKE 'chat:%'
          AND (chat.named_documents(i.response) && documents OR i.exchange_id IN (SELECT n.exchange_id FROM named n))
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

-- As before, and events of runs, which say the same.
CREATE OR REPLACE FUNCTION chat.erase_old_conversations(days integer, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    org CONSTANT text := current_setting('citewire.org_id', true);
    before CONSTANT timestamptz := now() - make_interval(days => days);
    erased bigint;
BEGIN
    DELETE FROM chat.conversations c
    USING (SELECT o.conversation_id FROM chat.conversations o
           WHERE o.org_id = org AND o.updated_at < before
             AND NOT EXISTS (SELECT FROM chat.exchanges e WHERE e.org_id = org AND e.conversation_id = o.conversation_id
                                                            AND e.state = 'running')
           ORDER BY o.updated_at LIMIT most FOR UPDATE SKIP LOCKED) old
    WHERE c.org_id = org AND c.conversation_id = old.conversation_id;
    GET DIAGNOSTICS erased = ROW_COUNT;
    DELETE FROM chat.idempotency_keys i
    WHERE i.org_id = org AND (i.response IS NOT NULL OR i.exchange_id IS NOT NULL) AND i.created_at < before;
    DELETE FROM chat.run_events r WHERE r.org_id = org AND r.created_at < before;
    RETURN erased;
END
$$;
