-- The SQL of transactions that aren't ours alone: they run on a connection that may be the user's own. Hence plain
-- statements and no temporary objects; the block holds the write lock across returns to Python anyway.
-- . :now is NULL outside tests, as everywhere.
-- . Whatever settles shows (id, token).
-- The other words in braces are explained in statements.sql.
-- :define instant coalesce(:now, {clock})
-- :define wanted min(coalesce(:due, {instant} + :delay + (:delay > 0)), {max})
-- :define lane_of (SELECT id FROM nextdue_lane WHERE queue = :queue AND name = :name AND priority = :priority AND alone = 0)
-- :define doomed (SELECT max(id) FROM (SELECT id, ended FROM nextdue_run ORDER BY id LIMIT 2) WHERE ended < {instant} - :keep_ms OR id <= (SELECT max(id) FROM nextdue_run) - :keep_rows)

-- Which file a connection has open, and what its commits are worth.
-- :name tx_file
PRAGMA database_list

-- :name tx_synchronous
PRAGMA synchronous

-- Whether our tables are there; asked on a connection of ours.
-- :name tx_tables
SELECT 1 FROM sqlite_master WHERE name = 'nextdue_task'

-- What the last statement did: rows changed, the id of the last row inserted.
-- :name tx_did
SELECT changes(), last_insert_rowid()

-- :name tx_held
SELECT t.key, t.grp, t.again_due, t.stop FROM nextdue_task t WHERE t.id = :id AND t.token = :token

-- The same, and from now on nobody else writes: a transaction that began by reading might not be able to write.
-- :name tx_lock
UPDATE nextdue_task SET token = token WHERE id = :id AND token = :token

-- :name tx_extend
UPDATE nextdue_task SET due = min(max(due, {instant} + :ms), {max}) WHERE id = :id AND token = :token

-- :name tx_run
INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, started, ended, outcome, result, worker, keep)
SELECT id, name, key, claims, scheduled_for, {instant} - :ran, {instant}, 'done', :result, token >> 32, min({instant} + :keep, {max})
FROM nextdue_task WHERE id = :id AND token = :token AND (:keep_rows > 0 OR :keep IS NOT NULL)

-- Done, and nobody needs its key.
-- :name tx_forget
DELETE FROM nextdue_task WHERE id = :id AND token = :token

-- Done, and it guards its key for a while. It leaves the lane of those that are tried alone, as after any success.
-- :name tx_rest
UPDATE nextdue_task SET
  due = NULL, rest = 'done', token = NULL, crashes = 0, stop = NULL, progress = NULL,
  gone_at = min({instant} + coalesce(remember, 0), {max}),
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
    coalesce(:again_due, {instant} + :again_delay + (:again_delay > 0), {max}), {max}),
  args = coalesce(again_args, args), again_due = NULL, again_args = NULL,
  token = NULL, attempts = 0, crashes = 0, scheduled_for = :slot, stop = NULL, progress = NULL,
  reason = NULL, message = NULL,
  lane = coalesce((
    SELECT twin.id FROM nextdue_lane l CROSS JOIN nextdue_lane twin
      ON twin.queue = l.queue AND twin.name = l.name AND twin.priority = l.priority AND twin.alone = 0
    WHERE l.id = nextdue_task.lane), lane)
WHERE id = :id AND token = :token

-- An occurrence of a schedule has ended. Nothing changes if the schedule was removed meanwhile.
-- :name tx_fired
UPDATE nextdue_schedule SET fired = fired + :counted, missed = 0, last = :scheduled_for WHERE name = :name AND key = :key

-- A schedule that was paused, or whose code is gone, waits from now on; one that became another while it ran may be over.
-- :name tx_hold
UPDATE nextdue_task SET
  wished = nullif(due, {max}), due = NULL, rest = iif(due = {max}, 'done', 'held'), gone_at = CASE WHEN due = {max} THEN due END,
  reason = CASE WHEN due < {max} THEN iif(g.paused IS NULL, 'orphaned', 'paused') END
FROM nextdue_schedule g
WHERE nextdue_task.id = :id AND g.name = :name AND g.key = :key
  AND (coalesce(g.paused, g.orphaned) IS NOT NULL OR nextdue_task.due = {max})

-- A slot of a group became free: of each lane the one that has waited longest for it is due again, as by nextdue_next.
-- :name tx_unblock
UPDATE nextdue_task SET due = wished, rest = NULL, wished = NULL
WHERE id IN (
  SELECT (
    SELECT n.id FROM nextdue_task n
    WHERE n.name = :name AND n.grp = :grp AND n.due IS NULL AND n.lane = l.id AND n.wished IS NOT NULL AND n.rest = 'blocked'
    ORDER BY n.wished, n.id LIMIT 1)
  FROM nextdue_lane l WHERE l.name = :name)

-- A waiting row is put off: those behind it follow, as by nextdue_next.
-- :name tx_follow
UPDATE nextdue_task SET due = wished, rest = NULL, wished = NULL
WHERE id IN (
  SELECT b.id FROM nextdue_task t CROSS JOIN nextdue_lane l ON l.name = t.name CROSS JOIN nextdue_task b ON b.id = (
    SELECT n.id FROM nextdue_task n
    WHERE n.name = t.name AND n.grp = t.grp AND n.due IS NULL AND n.lane = l.id AND n.wished IS NOT NULL AND n.rest = 'blocked'
    ORDER BY n.wished, n.id LIMIT 1)
  WHERE t.id = :id AND t.due IS NOT NULL AND t.token IS NULL AND t.grp IS NOT NULL)

-- Purge at most twice what was settled, as each settling transaction does: history by count and age, tombstones and
-- results by their end.
-- :name tx_purge_kept
INSERT OR REPLACE INTO nextdue_result(task, result, keep)
SELECT task, result, keep FROM nextdue_run WHERE id <= {doomed} AND keep > {instant} AND result IS NOT NULL ORDER BY id

-- :name tx_purge_runs
DELETE FROM nextdue_run WHERE id <= {doomed}

-- :name tx_purge_results
DELETE FROM nextdue_result WHERE task IN (SELECT task FROM nextdue_result WHERE keep <= {instant} LIMIT 2)

-- :name tx_purge_tasks
DELETE FROM nextdue_task WHERE id IN (SELECT id FROM nextdue_task WHERE gone_at <= {instant} LIMIT 2)

-- A task with a key, by the same cases as nextdue_put_do of caller.sql, which can't be on a user's connection: what holds
-- the key ('over' may begin a new life), and then one of the four statements below, or none.
-- :name tx_key
SELECT id,
  CASE
    WHEN token IS NOT NULL THEN 'running'
    WHEN due IS NOT NULL OR rest = 'blocked' THEN 'waiting'
    WHEN rest IN ('dead', 'cancelled') THEN 'over'
    WHEN rest = 'done' AND (gone_at <= {instant} OR :mode NOT IN ('ignore', 'reject')) THEN 'over'
    ELSE rest END
FROM nextdue_task WHERE name = :name AND key = :key

-- The number of a run on demand.
-- :name tx_number
SELECT {number}

-- :name tx_put
INSERT INTO nextdue_task(lane, name, due, key, args, remember, created, latest, expires, grp)
VALUES ({lane_of}, :name, {wanted}, :key, :args, :remember, {instant}, min({instant} + :latest, {max}),
  min(coalesce(:expires, {instant} + :expires_in), {max}), :grp)

-- :name tx_revive
UPDATE nextdue_task SET
  lane = {lane_of}, due = {wanted}, rest = NULL, args = :args, remember = :remember, created = {instant}, attempts = 0,
  crashes = 0, claims = 0, scheduled_for = NULL, gone_at = NULL, reason = NULL, message = NULL, wished = NULL,
  again_due = NULL, again_args = NULL, latest = min({instant} + :latest, {max}),
  expires = min(coalesce(:expires, {instant} + :expires_in), {max}), grp = :grp
WHERE id = :id

-- :define then coalesce(due, wished)
-- :define moved CASE :mode WHEN 'replace' THEN {wanted} WHEN 'earliest' THEN min({wanted}, {then}) ELSE min(max({wanted}, {then}), max(coalesce(latest, {max}), {then})) END
-- :name tx_change
UPDATE nextdue_task SET
  due = CASE WHEN due IS NOT NULL THEN {moved} END, wished = CASE WHEN due IS NULL THEN {moved} END,
  lane = CASE WHEN :mode = 'replace' THEN {lane_of} ELSE lane END,
  args = :args, expires = min(coalesce(:expires, {instant} + :expires_in), {max}), again_due = NULL, again_args = NULL,
  attempts = CASE WHEN :mode = 'replace' THEN 0 ELSE attempts END,
  scheduled_for = CASE WHEN :mode = 'replace' THEN NULL ELSE scheduled_for END
WHERE id = :id

-- :name tx_wish
UPDATE nextdue_task SET
  latest = CASE WHEN again_due IS NULL THEN min({instant} + :latest, {max}) ELSE latest END,
  again_args = :args, expires = min(coalesce(:expires, {instant} + :expires_in), {max}),
  again_due = CASE :mode
    WHEN 'replace' THEN {wanted}
    WHEN 'extend' THEN min(max({wanted}, coalesce(again_due, {wanted})),
      CASE WHEN again_due IS NULL THEN coalesce({instant} + :latest, {max}) ELSE coalesce(latest, {max}) END)
    ELSE min({wanted}, coalesce(again_due, {wanted})) END
WHERE id = :id
