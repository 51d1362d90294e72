-- Reading the audit trail: an organisation's events under its tenant, the chains as the schema's owner.

-- name: list_events
-- By time; the cursor is the previous page's last event.
SELECT process_id, seq, ordinal, at, org_id, user_id, key_id, issuer, action, objects, outcome, reason, address, agent,
       request_id
FROM chat.audit_events
WHERE org_id = %(org)s AND at >= %(start)s AND at < %(end)s
  AND (%(user)s::text IS NULL OR user_id = %(user)s)
  AND (%(action)s::text IS NULL OR action = %(action)s)
  AND (%(object)s::text IS NULL OR %(object)s = ANY (objects))
  AND (%(after_at)s::timestamptz IS NULL
       OR (at, process_id, seq, ordinal) > (%(after_at)s, %(after_process)s::uuid, %(after_seq)s::bigint,
                                            %(after_ordinal)s::integer))
ORDER BY at, process_id, seq, ordinal
LIMIT %(most)s

-- name: can_read_all
-- Whether the connection's role sees the chains: any other role would see no rows, and so report no damage.
SELECT pg_has_role(current_user, relowner, 'MEMBER') FROM pg_catalog.pg_class WHERE oid = 'chat.audit_blocks'::regclass

-- name: cut_events
SELECT at, org_id, user_id, key_id, issuer, action, objects, outcome, reason, address, agent, request_id
FROM chat.audit_events WHERE action = %(action)s

-- name: all_blocks
SELECT process_id, process, seq, at, prev, hash, digests FROM chat.audit_blocks ORDER BY process_id, seq

-- name: all_events
SELECT process_id, seq, at, org_id, user_id, key_id, issuer, action, objects, outcome, reason, address, agent, request_id
FROM chat.audit_events ORDER BY process_id, seq, ordinal

-- name: audit_due
SELECT org_id, before FROM chat.audit_due(%(days)s)

-- name: cut_audit
SELECT chat.cut_audit(%(org)s, %(before)s)
