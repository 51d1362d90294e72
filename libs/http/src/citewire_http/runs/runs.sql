-- Chat runs whose events are stored. Every query but the last two runs under its tenant.

-- name: add_run_events
-- Does nothing once the run has ended: locking its row keeps it from being declared lost in the meantime. Writing a batch
-- again changes nothing.
INSERT INTO chat.run_events (org_id, exchange_id, first_sequence, last_sequence, user_id, codec, payload)
SELECT e.org_id, e.exchange_id, %(first)s, %(last)s, e.user_id, %(codec)s, %(payload)s
FROM (SELECT org_id, exchange_id, user_id FROM chat.exchanges
      WHERE org_id = %(org)s AND user_id = %(user)s AND exchange_id = %(exchange)s AND state = 'running'
      FOR SHARE) e
ON CONFLICT (org_id, exchange_id, first_sequence) DO UPDATE SET payload = excluded.payload
RETURNING 1

-- name: find_run
SELECT exchange_id, request_id, shown, state <> 'running'
FROM chat.exchanges
WHERE org_id = %(org)s AND user_id = %(user)s AND exchange_id = %(exchange)s AND events_until IS NOT NULL

-- name: find_conversation_run
-- The run whose answer is being written.
SELECT exchange_id, request_id, shown, false
FROM chat.exchanges
WHERE org_id = %(org)s AND user_id = %(user)s AND conversation_id = %(conversation)s AND events_until IS NOT NULL
  AND state = 'running'
ORDER BY exchange_id DESC
LIMIT 1

-- name: read_run
-- Whether the run has ended or lost its gateway, and its batches after a sequence number, in one snapshot.
SELECT e.state <> 'running', e.reason IS NOT DISTINCT FROM 'ORPHANED', e.state = 'running' AND e.lease_until < now(),
       r.first_sequence, r.last_sequence, r.payload
FROM chat.exchanges e
LEFT JOIN LATERAL (SELECT first_sequence, last_sequence, payload FROM chat.run_events
                   WHERE org_id = e.org_id AND exchange_id = e.exchange_id AND first_sequence > %(after)s
                   ORDER BY first_sequence
                   LIMIT %(limit)s) r ON true
WHERE e.org_id = %(org)s AND e.user_id = %(user)s AND e.exchange_id = %(exchange)s
ORDER BY r.first_sequence

-- name: touch_run
-- Records that a client reads the run, so that its gateway continues.
UPDATE chat.exchanges SET read_at = now()
WHERE org_id = %(org)s AND user_id = %(user)s AND exchange_id = %(exchange)s AND state = 'running'

-- name: lose_run
UPDATE chat.exchanges SET state = 'failed', reason = 'ORPHANED', ended_at = now()
WHERE org_id = %(org)s AND user_id = %(user)s AND exchange_id = %(exchange)s AND state = 'running' AND lease_until < now()

-- name: cancel_run
-- An exchange that isn't stored yet can't be cancelled; one that has ended doesn't change.
UPDATE chat.exchanges SET cancel_requested = true
WHERE org_id = %(org)s AND user_id = %(user)s AND exchange_id = %(exchange)s
RETURNING state

-- name: delete_conversation_events
DELETE FROM chat.run_events r USING chat.exchanges e
WHERE e.org_id = %(org)s AND e.user_id = %(user)s AND e.conversation_id = %(conversation)s AND e.events_until IS NOT NULL
  AND r.org_id = e.org_id AND r.exchange_id = e.exchange_id

-- name: delete_run_events
DELETE FROM chat.run_events WHERE org_id = %(org)s AND exchange_id = %(exchange)s

-- name: watch_runs
SELECT run_id, cancelled, lost, read_seconds FROM chat.watch_runs(%(orgs)s::text[], %(runs)s::uuid[], %(seconds)s)

-- name: sweep_run_events
SELECT chat.sweep_run_events(%(most)s)
