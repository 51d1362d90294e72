-- Erasures of users and organisations. Every query runs under its tenant.

-- name: users_and_roles
SELECT user_id, roles FROM chat.users WHERE org_id = %(org)s

-- name: add_erasure
INSERT INTO chat.erasures (org_id, erasure_id, subject_kind, subject, successor, documents, requested_by)
VALUES (%(org)s, %(erasure)s, CASE WHEN %(user)s = '' THEN 'organisation' ELSE 'user' END, %(user)s, %(successor)s,
        %(documents)s, %(by)s)

-- name: list_erasures
SELECT erasure_id, subject_kind, subject, successor, documents, state, erased, created_at, finished_at
FROM chat.erasures
WHERE org_id = %(org)s AND (%(erasure)s::uuid IS NULL OR erasure_id = %(erasure)s)
ORDER BY erasure_id DESC LIMIT 100

-- name: claim_erasures
SELECT org_id, erasure_id FROM chat.claim_erasures(5, %(seconds)s)

-- name: is_last_pass
-- No row means that another pass is needed: something that began before the erasure may still write.
SELECT 1 FROM chat.erasures
WHERE org_id = %(org)s AND erasure_id = %(erasure)s AND created_at < now() - make_interval(secs => %(settle)s)

-- name: erase_account
SELECT chat.erase(%(user)s, %(successor)s)

-- name: note_erased
-- Counts what was erased, and keeps other gateways from claiming the erasure for another minute.
UPDATE chat.erasures SET erased = erased + %(count)s, next_at = greatest(next_at, now() + interval '1 minute')
WHERE org_id = %(org)s AND erasure_id = %(erasure)s

-- name: await_last_pass
UPDATE chat.erasures SET next_at = created_at + make_interval(secs => %(settle)s)
WHERE org_id = %(org)s AND erasure_id = %(erasure)s

-- name: finish_erasure
UPDATE chat.erasures SET state = 'done', subject = '', finished_at = now()
WHERE org_id = %(org)s AND erasure_id = %(erasure)s

-- name: drop_erasures
-- Deletes the record of the erasures too, so that nothing of the organisation is left.
DELETE FROM chat.erasures WHERE org_id = %(org)s
