"""The demo: real agents on this machine, killed and resumed."""
