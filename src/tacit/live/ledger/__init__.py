"""An agent's messages and their loss: durable before anything is sent."""
