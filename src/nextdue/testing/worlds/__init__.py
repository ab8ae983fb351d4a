"""Worlds: many workers on one thread and one real file, under a simulated clock, with every kind of trouble.

Each world comes from a seed, and each change of each row in it is judged. `nextdue prove` lives through many of them.
"""
