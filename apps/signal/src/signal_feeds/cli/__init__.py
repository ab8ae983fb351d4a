"""The command `signal`."""
