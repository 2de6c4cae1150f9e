#!/bin/sh
# Make a hub and invite its members, both once; then serve.
#
#   TACIT_ADDRESS      where members reach the hub, wss://host:port
#   TACIT_MEMBERS      names to invite, with spaces between them
#   TACIT_INVITATIONS  the directory that invitations are written to
#   TACIT_STATUS       where the status is served, http://host:port
set -eu
umask 077

home=hub
if [ ! -e "$home" ]; then
    tacit hub new "$home" --address "$TACIT_ADDRESS"
fi
for name in $TACIT_MEMBERS; do
    invitation="$TACIT_INVITATIONS/$name"
    if [ ! -e "$invitation" ]; then
        tacit invite "$name" --hub "$home" > "$invitation.new"
        mv "$invitation.new" "$invitation"
    fi
done
exec tacit hub serve "$home" --status "$TACIT_STATUS"
