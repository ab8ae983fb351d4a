"""The command `signal`."""


def main() -> int:
    """Run it; answers the exit code."""
    raise SystemExit("signal: not built yet")
