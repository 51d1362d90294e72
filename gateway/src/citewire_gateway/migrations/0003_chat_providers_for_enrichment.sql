-- The ingest worker has documents described by the tenant's own chat providers: it passes them on sealed, as it does
-- those that embed.

CREATE VIEW chat.chat_providers WITH (security_barrier) AS
    SELECT org_id, user_id, position, provider, model, sealed_api_base, sealed_key
    FROM chat.providers
    WHERE org_id = current_setting('citewire.org_id', true) AND type = 'chat';

GRANT SELECT ON chat.chat_providers TO citewire_worker;
