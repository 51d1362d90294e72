-- What users think of answers. Every query runs under its tenant.

-- name: set_feedback
-- Stores feedback on an answer in one of the user's conversations, and returns the previous rating; no row if there is no
-- such answer.
WITH answer AS (
    SELECT m.org_id, m.conversation_id, m.ordinal, c.user_id
    FROM chat.messages m
    JOIN chat.conversations c ON c.org_id = m.org_id AND c.conversation_id = m.conversation_id
    WHERE m.org_id = %(org)s AND m.conversation_id = %(conversation)s AND m.exchange_id = %(exchange)s
      AND m.role = 'assistant' AND c.user_id = %(user)s
), before AS (
    SELECT f.rating
    FROM chat.feedback f
    JOIN answer a ON a.conversation_id = f.conversation_id AND a.ordinal = f.ordinal
    WHERE f.org_id = %(org)s
)
INSERT INTO chat.feedback (org_id, conversation_id, ordinal, user_id, rating, reasons, comment)
SELECT org_id, conversation_id, ordinal, user_id, %(rating)s, %(reasons)s::text[], %(comment)s FROM answer
ON CONFLICT (org_id, conversation_id, ordinal) DO UPDATE
SET rating = excluded.rating, reasons = excluded.reasons, comment = excluded.comment, updated_at = now()
RETURNING updated_at, (SELECT b.rating FROM before b)

-- name: has_conversation
SELECT FROM chat.conversations
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s

-- name: delete_feedback
DELETE FROM chat.feedback f
USING chat.messages m
WHERE f.org_id = %(org)s AND f.conversation_id = %(conversation)s AND f.user_id = %(user)s
  AND m.org_id = f.org_id AND m.conversation_id = f.conversation_id AND m.ordinal = f.ordinal
  AND m.exchange_id = %(exchange)s
RETURNING 1

-- name: list_feedback
-- Feedback of all users of the organisation, latest first; the cursor is the previous page's last row.
SELECT conversation_id, ordinal, user_id, rating, reasons, comment, updated_at
FROM chat.feedback
WHERE org_id = %(org)s
  AND (%(rating)s::text IS NULL OR rating = %(rating)s)
  AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR updated_at < %(until)s)
  AND (%(before)s::timestamptz IS NULL
       OR (updated_at, conversation_id, ordinal) < (%(before)s, %(before_id)s::uuid, %(before_ordinal)s::integer))
ORDER BY updated_at DESC, conversation_id DESC, ordinal DESC
LIMIT %(limit)s
