-- The audit trail: who did what, in chains that only grow. Each process has a chain of its own; a block holds what it
-- noted in a second, with a digest for each organisation and the hash of the block before (citewire_kit.audit_chain).

CREATE TABLE chat.audit_blocks (
    process_id uuid NOT NULL,                             -- of one run of a process
    seq        bigint NOT NULL CHECK (seq >= 0),          -- without gaps
    process    text NOT NULL,
    at         timestamptz NOT NULL,
    prev       bytea NOT NULL CHECK (length(prev) = 32),
    hash       bytea NOT NULL CHECK (length(hash) = 32),
    digests    jsonb NOT NULL,                            -- by organisation: [number of events, SHA-256 of them]
    PRIMARY KEY (process_id, seq)
);
ALTER TABLE chat.audit_blocks ENABLE ROW LEVEL SECURITY;
ALTER TABLE chat.audit_blocks FORCE ROW LEVEL SECURITY;

-- Ids and names only, never content. An event whose caller isn't known has the organisation `?`, which none can be.
CREATE TABLE chat.audit_events (
    org_id     text COLLATE "C" NOT NULL,
    process_id uuid NOT NULL,
    seq        bigint NOT NULL,                           -- of its block
    ordinal    integer NOT NULL,                          -- in the block
    at         timestamptz NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    key_id     text COLLATE "C" NOT NULL,
    issuer     text COLLATE "C" NOT NULL,                 -- who vouched for the caller
    action     text COLLATE "C" NOT NULL,
    objects    text[] COLLATE "C" NOT NULL,
    outcome    text COLLATE "C" NOT NULL,
    reason     text COLLATE "C" NOT NULL,
    address    text COLLATE "C" NOT NULL,
    agent      text NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (org_id, process_id, seq, ordinal)
);
CREATE INDEX audit_events_by_time ON chat.audit_events (org_id, at, process_id, seq, ordinal);
CREATE INDEX audit_events_of_block ON chat.audit_events (process_id, seq);
SELECT chat.protect('audit_events');

-- Nobody changes what is written, and only the schema's owner sees it across organisations, to check it.
GRANT SELECT ON chat.audit_events TO citewire_chat;
CREATE POLICY owner_reads_all ON chat.audit_events FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_appends_all ON chat.audit_events FOR INSERT TO CURRENT_USER WITH CHECK (true);
CREATE POLICY owner_reads_all ON chat.audit_blocks FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_appends_all ON chat.audit_blocks FOR INSERT TO CURRENT_USER WITH CHECK (true);

-- Adds a block with its events. Who doesn't know whether it arrived sends it again.
CREATE FUNCTION chat.append_audit(block jsonb, events jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    of_process constant uuid := (block ->> 'process_id')::uuid;
    of_seq constant bigint := (block ->> 'seq')::bigint;
    of_hash constant bytea := decode(block ->> 'hash', 'hex');
BEGIN
    INSERT INTO chat.audit_blocks (process_id, seq, process, at, prev, hash, digests)
    VALUES (of_process, of_seq, block ->> 'process', (block ->> 'at')::timestamptz,
            decode(block ->> 'prev', 'hex'), of_hash, block -> 'digests')
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM chat.audit_blocks b
                       WHERE b.process_id = of_process AND b.seq = of_seq AND b.hash = of_hash) THEN
            RAISE EXCEPTION 'the audit chain % has another block %', of_process, of_seq;
        END IF;
        RETURN;
    END IF;
    INSERT INTO chat.audit_events (process_id, seq, ordinal, org_id, at, user_id, key_id, issuer, action, objects,
                                   outcome, reason, address, agent, request_id)
    SELECT of_process, of_seq, e.ordinal, e.event ->> 'org_id', (e.event ->> 'at')::timestamptz,
           e.event ->> 'user_id', e.event ->> 'key_id', e.event ->> 'issuer', e.event ->> 'action',
           ARRAY(SELECT jsonb_array_elements_text(e.event -> 'objects')),
           e.event ->> 'outcome', e.event ->> 'reason', e.event ->> 'address', e.event ->> 'agent',
           e.event ->> 'request_id'
    FROM jsonb_array_elements(events) WITH ORDINALITY AS e (event, ordinal);
END
$$;
REVOKE ALL ON FUNCTION chat.append_audit(jsonb, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.append_audit(jsonb, jsonb) TO citewire_chat;
