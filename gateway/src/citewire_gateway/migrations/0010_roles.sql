-- Owners and admins change roles; the gateway checks who may.
GRANT UPDATE (roles) ON chat.users TO citewire_chat;
