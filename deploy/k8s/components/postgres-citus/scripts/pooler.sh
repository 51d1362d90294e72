#!/bin/sh
# Starts PgBouncer with the passwords of the roles that it serves.
set -eu
umask 077
quoted() { printf '%s' "$1" | sed 's/"/""/g'; }
cat > /tmp/userlist.txt << END
"citewire_corpus" "$(quoted "$CORPUS_PASSWORD")"
"citewire_worker" "$(quoted "$WORKER_PASSWORD")"
END
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
