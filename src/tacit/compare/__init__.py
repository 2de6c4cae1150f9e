"""Other mechanisms for the same job, in one harness."""
