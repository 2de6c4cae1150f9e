"""A permanent hub, and members that follow it and join its sessions.

- `invitation`, `enrolment`: from one line of text to a certificate; private keys are never sent.
- `messages`, `channel`: the messages on a member's single connection, which carries many sessions.
- `hub_directory`, `store`: the hub's durable data. `gateway`: its port. `orders`, `hub`: design, start and
  finish sessions.
- `policy`, `sources`: what an owner allows, and where the value comes from.
- `hub_connection`, `follower`: a member that follows a hub.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import modules

if not TYPE_CHECKING:
    __getattr__, __dir__ = modules(__name__)
