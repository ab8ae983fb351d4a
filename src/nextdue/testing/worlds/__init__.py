"""Worlds: many workers on one thread and one real file, under a simulated clock, with every kind of trouble.

Each world comes from a seed, and each change of each row in it is judged. `nextdue prove` lives through many of them.

Another kind of world is a subclass of World, as TimeWorld is: `_job` says what its tasks will do, SimExecutor's
`_ending` does it (`Crew._executor` makes one), an `_on_...` for each event that `at` foretells, `judge_of` sees each
change, `_check_end` looks at the whole. It gets its turn in `proof.TURNS`.
"""
