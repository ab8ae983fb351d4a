"""Measurements of nextdue, each beside a raw probe of the same run: `python -m bench --help`, and NOTES.md.

Workers import their apps through this package, so nothing heavy may be imported here.
"""
