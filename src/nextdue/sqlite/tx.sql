-- The SQL of transactions that aren't ours alone: they run on a connection that may be the user's own. Hence plain
-- statements and no temporary objects; the block holds the write lock across returns to Python anyway.
-- . :now is NULL outside tests, as everywhere.
-- . Whatever settles shows (id, token).
-- :define clock CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)
-- :define now coalesce(:now, {clock})
-- :define max 253402300799999

-- Which file a connection has open, and what its commits are worth.
-- :name tx_file
PRAGMA database_list

-- :name tx_synchronous
PRAGMA synchronous

-- Whether our tables are there; asked on a connection of ours.
-- :name tx_tables
SELECT 1 FROM sqlite_master WHERE name = 'nextdue_task'

-- A task with a key, for on_conflict="ignore" and "reject": who holds the key keeps it, unless it is over.
-- :name tx_put
INSERT INTO nextdue_task(lane, name, due, key, args, remember, created, expires, grp)
SELECT l.id, :name, min(coalesce(:due, {now} + :delay + (:delay > 0)), {max}), :key, :args, :remember, {now},
  min(coalesce(:expires, {now} + :expires_in), {max}), :grp
FROM nextdue_lane l WHERE l.queue = :queue AND l.name = :name AND l.priority = :priority AND l.alone = 0
ON CONFLICT(name, key) WHERE key IS NOT NULL DO UPDATE SET
  lane = excluded.lane, due = excluded.due, rest = NULL, args = excluded.args, remember = excluded.remember,
  created = excluded.created, attempts = 0, crashes = 0, claims = 0, scheduled_for = NULL, gone_at = NULL,
  reason = NULL, message = NULL, wished = NULL, again_due = NULL, again_args = NULL, latest = NULL,
  expires = excluded.expires, grp = excluded.grp
WHERE nextdue_task.rest IN ('dead', 'cancelled')
  OR (nextdue_task.rest = 'done' AND nextdue_task.gone_at <= excluded.created)

-- What the last statement did: rows changed, the id of the last row inserted.
-- :name tx_did
SELECT changes(), last_insert_rowid()

-- :name tx_held
SELECT t.key, t.grp, t.again_due, t.stop FROM nextdue_task t WHERE t.id = :id AND t.token = :token

-- The same, and from now on nobody else writes: a transaction that began by reading might not be able to write.
-- :name tx_lock
UPDATE nextdue_task SET token = token WHERE id = :id AND token = :token

-- :name tx_extend
UPDATE nextdue_task SET due = min(max(due, {now} + :ms), {max}) WHERE id = :id AND token = :token

-- :name tx_run
INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, started, ended, outcome, result, worker, keep)
SELECT id, name, key, claims, scheduled_for, {now} - :ran, {now}, 'done', :result, token >> 32, {now} + :keep
FROM nextdue_task WHERE id = :id AND token = :token AND (:keep_rows > 0 OR :keep IS NOT NULL)

-- Done, and nobody needs its key.
-- :name tx_forget
DELETE FROM nextdue_task WHERE id = :id AND token = :token

-- Done, and it guards its key for a while. It leaves the lane of those that are tried alone, as after any success.
-- :name tx_rest
UPDATE nextdue_task SET
  due = NULL, rest = 'done', token = NULL, crashes = 0, stop = NULL, progress = NULL,
  gone_at = min({now} + coalesce(remember, 0), {max}),
  lane = coalesce((
    SELECT twin.id FROM nextdue_lane l CROSS JOIN nextdue_lane twin
      ON twin.queue = l.queue AND twin.name = l.name AND twin.priority = l.priority AND twin.alone = 0
    WHERE l.id = nextdue_task.lane), lane)
WHERE id = :id AND token = :token

-- Its next life: asked for by the task itself (:again_due, or :again_delay from now), by others while it ran
-- (again_due, again_args), or by both; then the earlier of the two.
-- :name tx_again
UPDATE nextdue_task SET
  due = min(
    coalesce(again_due, {max}),
    coalesce(:again_due, {now} + :again_delay + (:again_delay > 0), {max}), {max}),
  args = coalesce(again_args, args), again_due = NULL, again_args = NULL,
  token = NULL, attempts = 0, crashes = 0, scheduled_for = NULL, stop = NULL, progress = NULL, latest = NULL,
  reason = NULL, message = NULL,
  lane = coalesce((
    SELECT twin.id FROM nextdue_lane l CROSS JOIN nextdue_lane twin
      ON twin.queue = l.queue AND twin.name = l.name AND twin.priority = l.priority AND twin.alone = 0
    WHERE l.id = nextdue_task.lane), lane)
WHERE id = :id AND token = :token

-- A slot of a group became free: the one that has waited longest for it is due again.
-- :name tx_unblock
UPDATE nextdue_task SET due = wished, rest = NULL, wished = NULL
WHERE id = (
  SELECT id FROM nextdue_task
  WHERE name = :name AND grp = :grp AND due IS NULL AND wished IS NOT NULL AND rest = 'blocked'
  ORDER BY wished, id LIMIT 1)

-- Purge at most twice what was settled, as each settling transaction does: history by count and age, then tombstones.
-- :name tx_purge_runs
DELETE FROM nextdue_run WHERE id IN (
  SELECT id FROM (SELECT id, ended, keep FROM nextdue_run ORDER BY id LIMIT 2)
  WHERE (ended < {now} - :keep_ms OR id <= (SELECT max(id) FROM nextdue_run) - :keep_rows)
    AND coalesce(keep, 0) <= {now})

-- :name tx_purge_tasks
DELETE FROM nextdue_task WHERE id IN (SELECT id FROM nextdue_task WHERE gone_at <= {now} LIMIT 2)
