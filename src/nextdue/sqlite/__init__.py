"""The SQLite store: one file beside the script, its alarm, and the locks by which deaths are noticed.

Each module that asks the file something has a page of SQL of its own name beside it, but for these:

store       the verbs of ports.Store            statements.sql (looking), caller.sql (putting), worker.sql and
                                                limits.sql (working)
words.sql   what the words in braces mean, in all pages
schema/     the tables, a file for each version; migrate brings a file to the newest

who uses it
caller      any thread of a program: one connection, put after put in common commits
tx          transactions that aren't ours alone
marks       steps of tasks, what they wait for, events
waiting     who waits for the end of tasks: one thread for all of them
care        what people do to tasks, one or many: find, retry, run now, cancel, purge
pauses      queues, names and tasks at rest
health      whether all that is due is being run, for monitoring
inspect     the fsck, what waits, who works; uninstall is the end of it all
backup      a verified copy; restore puts one in the file's place, held until it is released

what it rests on
database    one connection: writing, waiting for the lock, files that are gone, the size of the WAL
files       the paths beside the file, the file system, who is who
forks       what a fork must not break
lives       the locks by which workers live and die; steady says whom to believe dead
alarm       sleeping and ringing; linux is its inotify, timers and statx
"""
