-- Conversations, messages, exchanges, and what is erased with documents. Every query runs under its tenant.

-- name: open_exchange
-- Does nothing if it continues a conversation that the user doesn't have.
INSERT INTO chat.exchanges
    (org_id, exchange_id, user_id, conversation_id, profile, dialect, request_id, lease_until, shown, events_until)
SELECT
    %(org)s, %(exchange)s, %(user)s, %(conversation)s, %(profile)s, %(dialect)s, %(request_id)s,
    now() + make_interval(secs => %(lease)s), %(shown)s::text[],
    CASE WHEN %(shown)s::text[] IS NOT NULL THEN now() + make_interval(secs => %(lease)s + %(keep)s) END
WHERE NOT %(continues)s
   OR EXISTS (SELECT FROM chat.conversations
              WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s)

-- name: has_conversation
SELECT FROM chat.conversations
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s

-- name: history
-- The last messages, latest first, without questions whose answer was cut off: the model would try to answer them again.
-- An answer comes with the ids of the chunks in its prompt, in the prompt's order.
SELECT m.ordinal, m.role, m.content,
       ARRAY(SELECT (c.citation ->> 'chunk_id')::bigint
             FROM jsonb_array_elements(coalesce(m.details -> 'citations', '[]')) WITH ORDINALITY AS c (citation, place)
             WHERE NOT coalesce((c.citation ->> 'computed')::boolean, false)
             ORDER BY c.place)
FROM chat.messages m
JOIN chat.conversations c ON c.org_id = m.org_id AND c.conversation_id = m.conversation_id
WHERE m.org_id = %(org)s AND m.conversation_id = %(conversation)s AND c.user_id = %(user)s
  AND EXISTS (SELECT FROM chat.messages a
              WHERE a.org_id = m.org_id AND a.conversation_id = m.conversation_id AND a.exchange_id = m.exchange_id
                AND a.role = 'assistant' AND a.state = 'complete')
ORDER BY m.ordinal DESC
LIMIT %(most)s

-- name: begin_new
-- A conversation and its first question; the answer's ordinal is 2.
WITH made AS (
    INSERT INTO chat.conversations (org_id, conversation_id, user_id, profile, title, messages)
    VALUES (%(org)s, %(conversation)s, %(user)s, %(profile)s, %(title)s, 2)
    ON CONFLICT DO NOTHING -- if two requests have the same new id, one of them begins the conversation
    RETURNING messages
)
INSERT INTO chat.messages (org_id, conversation_id, ordinal, role, content, exchange_id)
SELECT %(org)s, %(conversation)s, messages - 1, 'user', %(content)s, %(exchange)s FROM made
RETURNING ordinal + 1

-- name: begin_next
-- A further question. The row's lock gives two questions that arrive at once different ordinals.
WITH grown AS (
    UPDATE chat.conversations SET messages = messages + 2, updated_at = now()
    WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s
    RETURNING messages
)
INSERT INTO chat.messages (org_id, conversation_id, ordinal, role, content, exchange_id)
SELECT %(org)s, %(conversation)s, messages - 1, 'user', %(content)s, %(exchange)s FROM grown
RETURNING ordinal + 1

-- name: add_answer
-- Does nothing if the conversation was deleted meanwhile. clock_timestamp, because now() is the transaction's start.
WITH there AS (
    UPDATE chat.conversations SET updated_at = clock_timestamp()
    WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s
    RETURNING 1
)
INSERT INTO chat.messages (org_id, conversation_id, ordinal, role, content, exchange_id, state, details)
SELECT %(org)s, %(conversation)s, %(ordinal)s, 'assistant', %(content)s, %(exchange)s, %(state)s, %(details)s
FROM there

-- name: discard_conversation
-- Deletes a conversation that contains nothing but this exchange's question.
DELETE FROM chat.conversations
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s AND messages = 2

-- name: discard_question
DELETE FROM chat.messages
WHERE org_id = %(org)s AND conversation_id = %(conversation)s AND exchange_id = %(exchange)s

-- name: close_exchange
UPDATE chat.exchanges
SET state = %(state)s, reason = %(reason)s, provider = nullif(%(provider)s, ''), model = nullif(%(model)s, ''),
    embedding_model = nullif(%(embedding_model)s, ''), embedding_tokens = %(embedding_tokens)s,
    prompt_tokens = %(prompt_tokens)s, completion_tokens = %(completion_tokens)s, estimated = %(estimated)s,
    first_token_ms = %(first_token_ms)s, ended_at = now(),
    events_until = CASE WHEN events_until IS NOT NULL THEN now() + make_interval(secs => %(keep)s) END
WHERE org_id = %(org)s AND exchange_id = %(exchange)s AND state = 'running'

-- name: list_conversations
-- Latest first; the cursor is the previous page's last conversation. `part` is searched for in titles and messages; if it is in
-- neither the title nor a question, the row has the ordinals of the answers that contain it.
SELECT conversation_id, title, profile, created_at, updated_at, user_id,
       CASE WHEN %(part)s::text = '' OR strpos(lower(title), lower(%(part)s::text)) > 0
                 OR EXISTS (SELECT FROM chat.messages m
                            WHERE m.org_id = c.org_id AND m.conversation_id = c.conversation_id AND m.role = 'user'
                              AND strpos(lower(m.content), lower(%(part)s::text)) > 0)
            THEN '{}'
            ELSE ARRAY(SELECT m.ordinal FROM chat.messages m
                       WHERE m.org_id = c.org_id AND m.conversation_id = c.conversation_id
                         AND strpos(lower(m.content), lower(%(part)s::text)) > 0)
       END
FROM chat.conversations c
WHERE org_id = %(org)s AND user_id = %(user)s
  AND (%(part)s::text = '' OR strpos(lower(title), lower(%(part)s::text)) > 0
       OR EXISTS (SELECT FROM chat.messages m
                  WHERE m.org_id = c.org_id AND m.conversation_id = c.conversation_id
                    AND strpos(lower(m.content), lower(%(part)s::text)) > 0))
  AND (%(before)s::timestamptz IS NULL OR (updated_at, conversation_id) < (%(before)s, %(before_id)s::uuid))
ORDER BY updated_at DESC, conversation_id DESC
LIMIT %(limit)s

-- name: list_messages
-- Oldest first, with the caller's own feedback; the cursor is the previous page's last ordinal.
SELECT m.ordinal, m.role, m.content, m.state, m.details, m.created_at, m.exchange_id,
       f.rating, f.reasons, f.comment, f.updated_at
FROM chat.messages m
LEFT JOIN chat.feedback f
    ON f.org_id = m.org_id AND f.conversation_id = m.conversation_id AND f.ordinal = m.ordinal AND f.user_id = %(user)s
WHERE m.org_id = %(org)s AND m.conversation_id = %(conversation)s AND m.ordinal > %(after)s
ORDER BY m.ordinal
LIMIT %(limit)s

-- name: list_answers
SELECT a.conversation_id, c.profile, coalesce(q.content, ''),
       a.ordinal, a.role, a.content, a.state, a.details, a.created_at, a.exchange_id
FROM chat.messages a
JOIN unnest(%(conversations)s::uuid[], %(ordinals)s::integer[]) AS rated (conversation_id, ordinal)
    USING (conversation_id, ordinal)
JOIN chat.conversations c ON c.org_id = a.org_id AND c.conversation_id = a.conversation_id
LEFT JOIN chat.messages q
    ON q.org_id = a.org_id AND q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal - 1 AND q.role = 'user'
WHERE a.org_id = %(org)s AND a.role = 'assistant'

-- name: get_conversation
-- A conversation of the caller's, or one that is shared with them, one of their groups, or the organisation.
SELECT conversation_id, title, profile, created_at, updated_at, user_id
FROM chat.conversations c
WHERE c.org_id = %(org)s AND conversation_id = %(conversation)s
  AND (user_id = %(user)s
       OR EXISTS (SELECT FROM chat.conversation_shares s
                  WHERE s.org_id = c.org_id AND s.conversation_id = c.conversation_id
                    AND (s.reader_kind = 'organisation' OR s.reader_kind = 'user' AND s.reader = %(user)s
                         OR s.reader_kind = 'group' AND s.reader = ANY (%(groups)s::text[]))))

-- name: list_shared_conversations
-- Conversations that others share with the caller; order and cursor as in `list_conversations`.
SELECT conversation_id, title, profile, created_at, updated_at, user_id
FROM chat.conversations c
WHERE c.org_id = %(org)s AND user_id <> %(user)s
  AND conversation_id IN (
      SELECT s.conversation_id FROM chat.conversation_shares s
      WHERE s.org_id = %(org)s
        AND (s.reader_kind = 'organisation' OR s.reader_kind = 'user' AND s.reader = %(user)s
             OR s.reader_kind = 'group' AND s.reader = ANY (%(groups)s::text[])))
  AND (%(part)s::text = '' OR strpos(lower(title), lower(%(part)s::text)) > 0)
  AND (%(before)s::timestamptz IS NULL OR (updated_at, conversation_id) < (%(before)s, %(before_id)s::uuid))
ORDER BY updated_at DESC, conversation_id DESC
LIMIT %(limit)s

-- name: get_exchange
-- The question and the answer of one of the user's exchanges, with the last ordinal of the conversation.
SELECT m.conversation_id,
       (SELECT max(ordinal) FROM chat.messages l WHERE l.org_id = m.org_id AND l.conversation_id = m.conversation_id),
       m.ordinal, m.role, m.content, m.state, m.details, m.created_at, m.exchange_id
FROM chat.exchanges e
JOIN chat.conversations c ON c.org_id = e.org_id AND c.conversation_id = e.conversation_id AND c.user_id = e.user_id
JOIN chat.messages m
    ON m.org_id = e.org_id AND m.conversation_id = e.conversation_id AND m.exchange_id = e.exchange_id
WHERE e.org_id = %(org)s AND e.user_id = %(user)s AND e.exchange_id = %(exchange)s
ORDER BY m.ordinal

-- name: delete_last_exchange
DELETE FROM chat.messages m
WHERE org_id = %(org)s AND conversation_id = %(conversation)s AND exchange_id = %(exchange)s
  AND NOT EXISTS (SELECT FROM chat.messages l
                  WHERE l.org_id = m.org_id AND l.conversation_id = m.conversation_id
                    AND l.ordinal > m.ordinal AND l.exchange_id <> m.exchange_id)

-- name: delete_empty_conversation
DELETE FROM chat.conversations c
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s
  AND NOT EXISTS (SELECT FROM chat.messages m
                  WHERE m.org_id = c.org_id AND m.conversation_id = c.conversation_id)

-- name: answer_sources
-- For each answer: the documents from whose passages it was written, and how much of the history its model had read
-- (NULL if an earlier version, which didn't record that, stored the answer).
SELECT conversation_id, ordinal, (details ->> 'history')::int,
       ARRAY(SELECT DISTINCT (citation ->> 'document_id')::bigint
             FROM jsonb_array_elements(coalesce(details -> 'citations', '[]')) AS citation)
FROM chat.messages
WHERE org_id = %(org)s AND conversation_id = ANY (%(conversations)s::uuid[]) AND role = 'assistant'
ORDER BY conversation_id, ordinal

-- name: hold_conversation
SELECT FROM chat.conversations
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s
FOR NO KEY UPDATE

-- name: list_shares
SELECT reader_kind, reader FROM chat.conversation_shares
WHERE org_id = %(org)s AND conversation_id = %(conversation)s
ORDER BY reader_kind, reader

-- name: delete_shares
DELETE FROM chat.conversation_shares WHERE org_id = %(org)s AND conversation_id = %(conversation)s

-- name: add_shares
INSERT INTO chat.conversation_shares (org_id, conversation_id, reader_kind, reader)
SELECT %(org)s, %(conversation)s, kind, reader
FROM unnest(%(kinds)s::text[], %(readers)s::text[]) AS share (kind, reader)

-- name: rename_conversation
UPDATE chat.conversations SET title = %(title)s
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s
RETURNING conversation_id, title, profile, created_at, updated_at, user_id

-- name: delete_conversation
DELETE FROM chat.conversations
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s
RETURNING 1

-- name: announce_erasure
INSERT INTO chat.erasure_checks AS checks (org_id) VALUES (%(org)s)
ON CONFLICT (org_id) DO UPDATE SET next_at = least(checks.next_at, now())

-- name: erase_documents
SELECT answers, keys FROM chat.erase_documents(%(documents)s::bigint[], %(note)s)

-- name: claim_erasure_checks
SELECT org_id FROM chat.claim_erasure_checks(%(most)s, %(seconds)s) AS org_id

-- name: rest_erasures
-- Postpones the next check, unless a deletion was announced meanwhile.
UPDATE chat.erasure_checks SET next_at = now() + make_interval(secs => %(seconds)s)
WHERE org_id = %(org)s AND next_at > now()

-- name: sweep
SELECT exchanges, keys FROM chat.sweep(%(most)s)
