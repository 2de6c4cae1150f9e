#!/bin/sh
# Enrol an agent or a keeper, once; then follow the hub.
#
#   TACIT_NAME         its name
#   TACIT_ROLE         agent or keeper
#   TACIT_KEEPERS      an agent trusts these keepers, with spaces between them
#   TACIT_INVITATIONS  the directory with the invitations, and with the keepers' public keys
#   TACIT_STATUS       where the status is served, host:port
#
# On one machine everybody reads everybody's invitation. Elsewhere an invitation reaches its owner alone, and an
# agent's owner gets a keeper's public key from the keeper's owner.
set -eu
umask 077

wait_for() {
    until [ -s "$1" ]; do sleep 1; done
}

if [ ! -e "$TACIT_NAME.toml" ]; then
    invitation="$TACIT_INVITATIONS/$TACIT_NAME"
    wait_for "$invitation"
    if [ "$TACIT_ROLE" = keeper ]; then
        tacit enroll "$invitation" --keeper
        key=$(tacit keys show "$TACIT_NAME" --json | sed -n 's/^ *"key": "\(.*\)",*$/\1/p')
        echo "$key" > "$invitation.key.new"
        mv "$invitation.key.new" "$invitation.key"
    else
        set --
        for keeper in $TACIT_KEEPERS; do
            wait_for "$TACIT_INVITATIONS/$keeper.key"
            set -- "$@" --trust "$keeper=$(cat "$TACIT_INVITATIONS/$keeper.key")"
        done
        # A made-up reading. A real agent's value comes from its own device: see the policy's value sources.
        [ -e reading.txt ] || echo "$(($(od -An -N1 -tu1 /dev/urandom) % 50))" > reading.txt
        tacit enroll "$invitation" --value-file reading.txt --range 0:50 --cap 20 "$@"
    fi
fi
exec tacit agent "$TACIT_NAME.toml" --status "$TACIT_STATUS"
