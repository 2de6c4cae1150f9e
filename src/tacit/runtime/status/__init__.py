"""What a running member shows of itself."""
