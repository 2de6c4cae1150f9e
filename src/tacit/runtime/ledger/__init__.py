"""What an agent said, and what that cost: durable before anything is sent."""
