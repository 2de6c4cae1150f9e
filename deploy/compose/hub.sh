#!/bin/sh
# Make a hub and invite its members, both once; then serve.
#
#   TACIT_ADDRESS      where members reach this host of the hub, wss://host:port
#   TACIT_MEMBERS      names to invite, with spaces between them
#   TACIT_INVITATIONS  the directory that invitations are written to
#   TACIT_STATUS       where the status is served, http://host:port
#
# Of a hub on several hosts:
#
#   TACIT_STORE        its database, postgresql://user@host/name
#   TACIT_PASSWORD     a file with the password of the database
#   TACIT_HOSTS        the addresses of all hosts, with spaces between them
#   TACIT_HANDOVER     a directory where the first host leaves a copy for the others; with keys, so it is private
#   TACIT_FURTHER      not empty: this is one of the others
set -eu
umask 077

home=hub
if [ -n "${TACIT_PASSWORD:-}" ]; then
    PGPASSWORD=$(cat "$TACIT_PASSWORD")
    export PGPASSWORD
fi
if [ ! -e "$home" ] && [ -n "${TACIT_FURTHER:-}" ]; then
    until [ -e "$TACIT_HANDOVER/$home" ]; do sleep 1; done
    rm -rf "$home.new"
    cp -a "$TACIT_HANDOVER/$home" "$home.new"
    tacit hub new "$home.new" --moved --address "$TACIT_ADDRESS"
    mv "$home.new" "$home"
elif [ ! -e "$home" ]; then
    tacit hub new "$home" --address "$TACIT_ADDRESS" ${TACIT_STORE:+--store "$TACIT_STORE"}
fi
if [ -n "${TACIT_HANDOVER:-}" ] && [ -z "${TACIT_FURTHER:-}" ] && [ ! -e "$TACIT_HANDOVER/$home" ]; then
    cp -a "$home" "$TACIT_HANDOVER/$home.new"
    mv "$TACIT_HANDOVER/$home.new" "$TACIT_HANDOVER/$home"
fi
set --
for address in ${TACIT_HOSTS:-}; do
    set -- "$@" --address "$address"
done
for name in $TACIT_MEMBERS; do
    invitation="$TACIT_INVITATIONS/$name"
    if [ ! -e "$invitation" ]; then
        tacit invite "$name" --hub "$home" "$@" > "$invitation.new"
        mv "$invitation.new" "$invitation"
    fi
done
exec tacit hub serve "$home" --status "$TACIT_STATUS"
