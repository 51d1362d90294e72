-- Conversations, what each chat spent, and answers kept for repeated requests.

CREATE TABLE chat.conversations (
    org_id          text COLLATE "C" NOT NULL,
    conversation_id uuid NOT NULL,                        -- version 7
    user_id         text COLLATE "C" NOT NULL,            -- only this user sees it
    profile         text NOT NULL,                        -- of its first question
    title           text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    messages        integer NOT NULL DEFAULT 0,           -- ordinals given out
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, conversation_id)
);
CREATE INDEX conversations_of_user ON chat.conversations (org_id, user_id, updated_at DESC, conversation_id DESC);

CREATE TABLE chat.messages (
    org_id          text COLLATE "C" NOT NULL,
    conversation_id uuid NOT NULL,
    ordinal         integer NOT NULL,                     -- from 1; a question and its answer are neighbours
    role            text NOT NULL CHECK (role IN ('user', 'assistant')),
    content         text NOT NULL,
    exchange_id     uuid NOT NULL,
    -- An answer that was cut is kept as far as it was sent, and says so.
    state           text NOT NULL DEFAULT 'complete' CHECK (state IN ('complete', 'cancelled', 'failed')),
    details         jsonb NOT NULL DEFAULT '{}',          -- of an answer: citations, usage, steps, model, finish reason
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, conversation_id, ordinal),
    FOREIGN KEY (org_id, conversation_id) REFERENCES chat.conversations ON DELETE CASCADE
);

-- One row per chat, opened before it costs anything and closed whatever happens. It outlives its conversation.
CREATE TABLE chat.exchanges (
    org_id            text COLLATE "C" NOT NULL,
    exchange_id       uuid NOT NULL,                      -- version 7
    user_id           text COLLATE "C" NOT NULL,
    conversation_id   uuid,
    profile           text NOT NULL,
    dialect           text NOT NULL,
    request_id        text NOT NULL,
    state             text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    reason            text,                               -- why it was cancelled or failed
    provider          text,
    model             text,
    embedding_model   text,
    embedding_tokens  bigint NOT NULL DEFAULT 0,
    prompt_tokens     bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    estimated         boolean NOT NULL DEFAULT false,     -- whether a token count is our estimate
    first_token_ms    integer,                            -- from the request to the first token
    started_at        timestamptz NOT NULL DEFAULT now(),
    ended_at          timestamptz,
    lease_until       timestamptz NOT NULL,               -- a running one whose lease has passed lost its gateway
    PRIMARY KEY (org_id, exchange_id),
    CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX exchanges_running ON chat.exchanges (lease_until) WHERE state = 'running';

-- A client that doesn't know whether its request arrived sends it again with the same Idempotency-Key. Keys are a
-- user's own: another user's could be guessed, and would give away an answer.
CREATE TABLE chat.idempotency_keys (
    org_id       text COLLATE "C" NOT NULL,
    user_id      text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    operation    text NOT NULL,                           -- which route: the same key on another one is a conflict
    request_hash bytea NOT NULL,
    owner        uuid NOT NULL,                           -- the attempt that holds it
    response     jsonb,                                   -- NULL while the first attempt is running
    created_at   timestamptz NOT NULL DEFAULT now(),
    lease_until  timestamptz NOT NULL,                    -- of the running attempt; afterwards, when the answer goes
    PRIMARY KEY (org_id, user_id, key)
);
CREATE INDEX idempotency_keys_lease ON chat.idempotency_keys (lease_until);

SELECT chat.protect(name) FROM unnest(ARRAY['conversations', 'messages', 'exchanges', 'idempotency_keys']) AS name;

GRANT SELECT, INSERT, UPDATE, DELETE ON chat.conversations, chat.messages, chat.idempotency_keys TO citewire_chat;
GRANT SELECT, INSERT, UPDATE ON chat.exchanges TO citewire_chat;

CREATE POLICY owner_reads_all ON chat.exchanges FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_closes_all ON chat.exchanges FOR UPDATE TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY owner_sweeps_all ON chat.idempotency_keys TO CURRENT_USER USING (true) WITH CHECK (true);

-- Closes the exchanges of gateways that died, of every organisation, and forgets kept answers whose time is over.
-- Several gateways may do this at once.
CREATE FUNCTION chat.sweep(most integer) RETURNS TABLE (exchanges bigint, keys bigint)
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH closed AS (
        UPDATE chat.exchanges e SET state = 'failed', reason = 'ORPHANED', ended_at = now()
        FROM (SELECT org_id, exchange_id FROM chat.exchanges
              WHERE state = 'running' AND lease_until < now()
              ORDER BY lease_until LIMIT most FOR UPDATE SKIP LOCKED) lost
        WHERE e.org_id = lost.org_id AND e.exchange_id = lost.exchange_id
        RETURNING 1
    ), forgotten AS (
        DELETE FROM chat.idempotency_keys i
        USING (SELECT org_id, user_id, key FROM chat.idempotency_keys
               WHERE lease_until < now()
               ORDER BY lease_until LIMIT most FOR UPDATE SKIP LOCKED) old
        WHERE i.org_id = old.org_id AND i.user_id = old.user_id AND i.key = old.key
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM closed), (SELECT count(*) FROM forgotten)
$$;
REVOKE ALL ON FUNCTION chat.sweep(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chat.sweep(integer) TO citewire_chat;
