"""The protocol without its network: events in, records to save and messages to send out.

- `session`: what all agree on, and its id. `canonical`: the bytes the id is a hash of.
- `messages`, `codec`: what is said, and the only way to read and write it.
- `effects`, `records`: what goes into a machine and what comes out.
- `agent`, `coordinator`, `peer`: the machines. `tables`: their transitions as data.

Nothing here touches a clock, entropy, a disk or a network: all of it is brought by events.
"""
