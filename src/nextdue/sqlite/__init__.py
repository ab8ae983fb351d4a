"""The SQLite store: one file beside the script, its alarm, and the locks by which deaths are noticed."""
