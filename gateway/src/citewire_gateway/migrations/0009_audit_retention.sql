-- How long the audit trail is kept. What is over is removed by whole blocks, and the blocks stay: their digests and an
-- event of the trail itself say what was removed.

CREATE TABLE chat.audit_policies (
    org_id text COLLATE "C" PRIMARY KEY REFERENCES chat.orgs ON DELETE CASCADE,
    days   integer NOT NULL CHECK (days BETWEEN 30 AND 36500)
);
SELECT chat.protect('audit_policies');
GRANT SELECT, INSERT, UPDATE ON chat.audit_policies TO citewire_chat;
CREATE POLICY owner_reads_all ON chat.audit_policies FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_cuts_all ON chat.audit_events FOR DELETE TO CURRENT_USER USING (true);

-- Whose events are over, and until when. An organisation without a policy has the gateway's.
CREATE FUNCTION chat.audit_due(default_days integer) RETURNS TABLE (org_id text, before timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE orgs AS (
        SELECT min(e.org_id) AS org_id FROM chat.audit_events e
        UNION ALL
        SELECT (SELECT min(e.org_id) FROM chat.audit_events e WHERE e.org_id > orgs.org_id)
        FROM orgs WHERE orgs.org_id IS NOT NULL
    ), ends AS (
        SELECT orgs.org_id, date_trunc('day', now(), 'UTC') - make_interval(days => coalesce(p.days, default_days)) AS before
        FROM orgs LEFT JOIN chat.audit_policies p ON p.org_id = orgs.org_id
        WHERE orgs.org_id IS NOT NULL
    )
    SELECT ends.org_id, ends.before FROM ends
    WHERE EXISTS (SELECT FROM chat.audit_events e JOIN chat.audit_blocks b ON b.process_id = e.process_id AND b.seq = e.seq
                  WHERE e.org_id = ends.org_id AND e.at < ends.before AND b.at < ends.before)
$$;

-- Removes an organisation's events of blocks from before a time, if the trail has the event that says so. Nothing younger
-- than 30 days goes, whoever calls it.
CREATE FUNCTION chat.cut_audit(org text, before timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    notice constant text := 'before:' || to_char(before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || '+00:00';
    removed bigint;
BEGIN
    IF before > now() - interval '30 days' THEN
        RAISE EXCEPTION 'the audit trail keeps at least 30 days';
    END IF;
    IF NOT EXISTS (SELECT FROM chat.audit_events e
                   WHERE e.org_id = org AND e.at >= before AND e.action = 'audit.cut' AND notice = ANY (e.objects)) THEN
        RAISE EXCEPTION 'the audit trail does not say that it is cut';
    END IF;
    DELETE FROM chat.audit_events e USING chat.audit_blocks b
    WHERE e.org_id = org AND e.at < before + interval '1 second'  -- a block has the second in which it was made
      AND b.process_id = e.process_id AND b.seq = e.seq AND b.at < before;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;
REVOKE ALL ON FUNCTION chat.audit_due(integer), chat.cut_audit(text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.audit_due(integer), chat.cut_audit(text, timestamptz) TO citewire_chat;
