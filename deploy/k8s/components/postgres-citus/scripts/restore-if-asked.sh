#!/bin/sh
# Before a node starts: restores it, if citus-restore names a base backup and its data folder is empty.
set -eu
mkdir -p "/backup/$POD_NAME/wal"
[ -n "${RESTORE_LABEL:-}" ] || exit 0
[ -z "$(ls -A "$PGDATA" 2> /dev/null)" ] || exit 0
exec sh /etc/citus/restore.sh "/backup/$POD_NAME" "$RESTORE_LABEL" "$RESTORE_POINT" "$PGDATA"
