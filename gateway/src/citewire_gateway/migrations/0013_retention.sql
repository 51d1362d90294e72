-- How long an organisation keeps conversations. No row: until somebody deletes them.

CREATE TABLE chat.retention_policies (
    org_id            text COLLATE "C" PRIMARY KEY REFERENCES chat.orgs ON DELETE CASCADE,
    conversation_days integer NOT NULL CHECK (conversation_days BETWEEN 1 AND 36500)
);
SELECT chat.protect('retention_policies');
GRANT SELECT, INSERT, UPDATE, DELETE ON chat.retention_policies TO citewire_chat;
CREATE INDEX conversations_by_age ON chat.conversations (org_id, updated_at);

-- Which organisations have a policy: the sweeper then works under each.
CREATE POLICY owner_reads_all ON chat.retention_policies FOR SELECT TO CURRENT_USER USING (true);
CREATE FUNCTION chat.retention_policies() RETURNS TABLE (org_id text, conversation_days integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.org_id, p.conversation_days FROM chat.retention_policies p ORDER BY p.org_id
$$;
REVOKE ALL ON FUNCTION chat.retention_policies() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.retention_policies() TO citewire_chat;

-- Erases conversations of the caller's organisation, whosever they are, that have had no message for so many days, with their
-- messages and shares; and answers kept for repeated requests, which say the same. One in which a chat is running goes later.
CREATE FUNCTION chat.erase_old_conversations(days integer, most integer) RETURNS bigint
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
    DELETE FROM chat.idempotency_keys i WHERE i.org_id = org AND i.response IS NOT NULL AND i.created_at < before;
    RETURN erased;
END
$$;
REVOKE ALL ON FUNCTION chat.erase_old_conversations(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.erase_old_conversations(integer, integer) TO citewire_chat;
