-- How long conversations are kept. Every query but the first runs under its tenant.

-- name: retention_policies
SELECT org_id, conversation_days FROM chat.retention_policies()

-- name: get_retention
SELECT conversation_days FROM chat.retention_policies WHERE org_id = %(org)s

-- name: set_retention
INSERT INTO chat.retention_policies (org_id, conversation_days) VALUES (%(org)s, %(days)s)
ON CONFLICT (org_id) DO UPDATE SET conversation_days = excluded.conversation_days

-- name: drop_retention
DELETE FROM chat.retention_policies WHERE org_id = %(org)s

-- name: erase_old_conversations
SELECT chat.erase_old_conversations(%(days)s, %(most)s) AS erased
