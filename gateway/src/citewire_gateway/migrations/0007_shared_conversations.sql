-- Conversations belong to their user, and nobody else reads them unless that user shares them.

-- With whom: a user, a group, or everybody in the organisation. They read, and nothing more.
CREATE TABLE chat.conversation_shares (
    org_id          text COLLATE "C" NOT NULL,
    conversation_id uuid NOT NULL,
    reader_kind     text NOT NULL CHECK (reader_kind IN ('user', 'group', 'organisation')),
    reader          text COLLATE "C" NOT NULL,            -- the user or the group; empty for the organisation
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, conversation_id, reader_kind, reader),
    FOREIGN KEY (org_id, conversation_id) REFERENCES chat.conversations ON DELETE CASCADE,
    CHECK ((reader_kind = 'organisation') = (reader = ''))
);
-- What is shared with somebody.
CREATE INDEX conversation_shares_by_reader ON chat.conversation_shares (org_id, reader_kind, reader);

SELECT chat.protect('conversation_shares');
GRANT SELECT, INSERT, DELETE ON chat.conversation_shares TO citewire_chat;

-- Beside the queries, which name the user: no transaction of another user's changes a conversation or its shares.
CREATE POLICY own_insert ON chat.conversations AS RESTRICTIVE FOR INSERT TO citewire_chat
    WITH CHECK (org_id = current_setting('citewire.org_id', true) AND user_id = current_setting('citewire.user_id', true));
CREATE POLICY own_update ON chat.conversations AS RESTRICTIVE FOR UPDATE TO citewire_chat
    USING (org_id = current_setting('citewire.org_id', true) AND user_id = current_setting('citewire.user_id', true));
CREATE POLICY own_delete ON chat.conversations AS RESTRICTIVE FOR DELETE TO citewire_chat
    USING (org_id = current_setting('citewire.org_id', true) AND user_id = current_setting('citewire.user_id', true));
CREATE POLICY own_insert ON chat.conversation_shares AS RESTRICTIVE FOR INSERT TO citewire_chat
    WITH CHECK (org_id = current_setting('citewire.org_id', true)
                AND EXISTS (SELECT FROM chat.conversations c
                        WHERE c.org_id = conversation_shares.org_id
                          AND c.conversation_id = conversation_shares.conversation_id
                          AND c.user_id = current_setting('citewire.user_id', true)));
CREATE POLICY own_delete ON chat.conversation_shares AS RESTRICTIVE FOR DELETE TO citewire_chat
    USING (org_id = current_setting('citewire.org_id', true)
           AND EXISTS (SELECT FROM chat.conversations c
                   WHERE c.org_id = conversation_shares.org_id
                     AND c.conversation_id = conversation_shares.conversation_id
                     AND c.user_id = current_setting('citewire.user_id', true)));
