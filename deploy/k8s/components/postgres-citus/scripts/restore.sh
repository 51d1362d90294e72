#!/bin/sh
# Makes a node's data folder of a base backup, to be started: it then reads the archived log up to POINT, and takes writes.
#   restore.sh FOLDER/NAME LABEL POINT DATA
# Do it for each node, with the same point, and start them. The coordinator still knows the nodes by the addresses of the
# backup, so that what it would do to them by itself is off until `citewire_retriever cluster readdress` has told it
# the present ones.
set -eu
from="$1" label="$2" point="$3" data="$4"

if [ -n "$(ls -A "$data" 2> /dev/null)" ]; then
  echo "restore.sh: $data isn't empty" >&2
  exit 1
fi
if [ ! -e "$from/base/$label/backup_label" ]; then
  echo "restore.sh: there is no base backup $from/base/$label; there are: $(ls "$from/base" 2> /dev/null | tr '\n' ' ')" >&2
  exit 1
fi
mkdir -p "$data"
cp -R "$from/base/$label/." "$data/"
chmod 700 "$data"
cat >> "$data/postgresql.auto.conf" << END
restore_command = 'cp "$from/wal/%f" "%p"'
recovery_target_name = '$point'
recovery_target_action = 'promote'
citus.recover_2pc_interval = -1
citus.defer_shard_delete_interval = -1
citus.background_task_queue_interval = -1
END
touch "$data/recovery.signal"
