"""A hub that stays, and agents that follow it: enrolment, sessions on demand and by schedule.

- `invitation`, `enrolment`: from one line of text to a certificate; the private keys never travel.
- `messages`, `channel`: what goes over a member's one connection, and many sessions in it.
- `hub_directory`, `store`: what a hub must not forget. `gateway`: its port. `orders`, `hub`: from a promise
  to its mean.
- `policy`, `sources`: what an owner allows, and where the value comes from.
- `hub_connection`, `follower`: a member that follows a hub.
"""
