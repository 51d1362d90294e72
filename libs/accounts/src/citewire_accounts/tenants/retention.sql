-- How long conversations and documents are kept. Every query but the first runs under its tenant.

-- name: retention_days
SELECT org_id, conversation_days, document_days, expired_document_days FROM chat.retention_of_all()

-- name: get_retention
SELECT conversation_days, document_days, expired_document_days FROM chat.retention_policies WHERE org_id = %(org)s

-- name: set_retention
-- Changes only the fields in `names`.
INSERT INTO chat.retention_policies AS p (org_id, conversation_days, document_days, expired_document_days)
VALUES (%(org)s, %(conversation_days)s, %(document_days)s, %(expired_document_days)s)
ON CONFLICT (org_id) DO UPDATE
SET conversation_days = CASE WHEN 'conversation_days' = ANY (%(names)s) THEN excluded.conversation_days
                             ELSE p.conversation_days END,
    document_days = CASE WHEN 'document_days' = ANY (%(names)s) THEN excluded.document_days ELSE p.document_days END,
    expired_document_days = CASE WHEN 'expired_document_days' = ANY (%(names)s) THEN excluded.expired_document_days
                                 ELSE p.expired_document_days END
RETURNING conversation_days, document_days, expired_document_days

-- name: erase_old_conversations
SELECT chat.erase_old_conversations(%(days)s, %(most)s) AS erased
