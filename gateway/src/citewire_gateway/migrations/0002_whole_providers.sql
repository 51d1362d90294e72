-- A provider is sealed as one: whether it has a key and an address can't be seen from the ciphertext any more. Null is a
-- row of an earlier version, whose `sealed_key` and `sealed_api_base` show it; new rows leave `sealed_api_base` empty.
ALTER TABLE chat.providers ADD COLUMN has_key boolean, ADD COLUMN has_api_base boolean;
