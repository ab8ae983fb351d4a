-- The SQL of transactions that aren't ours alone: they run on a connection that may be the user's own. Hence plain
-- statements and no temporary objects; the block holds the write lock across returns to Python anyway.
-- . Whatever settles shows (id, token).
-- The words in braces are explained in words.sql and caller.sql, but for this one: how far the history is purged.
-- :define doomed (SELECT max(id) FROM (SELECT id, ended FROM nextdue_run ORDER BY id LIMIT 2 * :count) WHERE ended < {instant} - :keep_ms OR id <= (SELECT max(id) FROM nextdue_run) - :keep_rows)

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
UPDATE nextdue_task SET token = token WHERE id = :id AND token = :token RETURNING id

-- :name tx_extend
UPDATE nextdue_task SET due = min(max(due, {instant} + :ms), {max}) WHERE id = :id AND token = :token

-- :name tx_run
INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, started, ended, outcome, result, worker, keep)
SELECT id, name, key, claims, scheduled_for, {instant} - :ran, {instant}, :outcome, :result, token >> 32, min({instant} + :keep, {max})
FROM nextdue_task WHERE id = :id AND token = :token AND (:keep_rows > 0 OR :keep IS NOT NULL)

-- Those that come after it may start.
-- :name tx_awaited
UPDATE nextdue_mark SET done = {instant}, result = :result, problem = NULL WHERE waits = :id AND done IS NULL RETURNING task

-- It waits, for an event or for a time.
-- :name tx_wait
UPDATE nextdue_task AS t SET
  due = :until, rest = CASE WHEN :until IS NULL THEN 'waits' END, wished = CASE WHEN :until IS NULL THEN {instant} END,
  token = NULL, crashes = 0, stop = NULL, progress = NULL, lane = {plain_lane}
WHERE id = :id AND token = :token

-- Done, and nobody needs its key.
-- :name tx_forget
DELETE FROM nextdue_task WHERE id = :id AND token = :token

-- Done, and it guards its key for a while. It leaves the lane of those that are tried alone, as after any success.
-- :name tx_rest
UPDATE nextdue_task AS t SET
  due = NULL, rest = 'done', token = NULL, crashes = 0, stop = NULL, progress = NULL,
  gone_at = min({instant} + coalesce(remember, 0), {max}),
  lane = {plain_lane}
WHERE id = :id AND token = :token

-- Its next life: asked for by the task itself (:again_due, or :again_delay from now), by others while it ran
-- (again_due, again_args), or by both; then the earlier of the two.
-- :name tx_again
UPDATE nextdue_task AS t SET
  due = min(
    coalesce(again_due, {max}),
    coalesce(:again_due, {instant} + :again_delay + (:again_delay > 0), {max}), {max}),
  args = coalesce(again_args, args), grp = CASE WHEN again_due IS NULL THEN grp ELSE again_grp END,
  again_due = NULL, again_args = NULL,
  token = NULL, attempts = 0, crashes = 0, scheduled_for = :slot, stop = NULL, progress = NULL,
  claims = CASE WHEN key IS NULL THEN claims ELSE 0 END, reason = NULL, message = NULL,
  lane = {plain_lane}
WHERE id = :id AND token = :token

-- An instant that the task of a schedule asked for itself is a slot: no clock that is set back brings it nearer.
-- :name tx_asked
UPDATE nextdue_task SET scheduled_for = due WHERE id = :id

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
UPDATE nextdue_task SET {unblocked} WHERE id IN (
  SELECT {first_blocked} FROM (SELECT :name AS name, :grp AS grp) t CROSS JOIN nextdue_lane l ON l.name = t.name)

-- A waiting row is put off: those behind it follow, as by nextdue_next.
-- :name tx_follow
UPDATE nextdue_task SET {unblocked} WHERE id IN (
  SELECT {first_blocked} FROM nextdue_task t CROSS JOIN nextdue_lane l ON l.name = t.name
  WHERE t.id = :id AND t.due IS NOT NULL AND t.token IS NULL AND t.grp IS NOT NULL)

-- Purge at most twice what was settled, as each settling transaction does: history by count and age, tombstones and
-- results by their end.
-- :name tx_purge_kept
INSERT OR REPLACE INTO nextdue_result(task, name, key, result, keep)
SELECT task, name, key, result, keep FROM nextdue_run WHERE id <= {doomed} AND keep > {instant} AND result IS NOT NULL ORDER BY id

-- :name tx_purge_runs
DELETE FROM nextdue_run WHERE id <= {doomed}

-- :name tx_purge_results
DELETE FROM nextdue_result WHERE task IN (SELECT task FROM nextdue_result WHERE keep <= {instant} LIMIT 2 * :count)

-- :name tx_purge_tasks
DELETE FROM nextdue_task WHERE id IN (SELECT id FROM nextdue_task WHERE gone_at <= {instant} LIMIT 2 * :count)

-- A task with a key, by the same cases as nextdue_put_do of caller.sql, which can't be on a user's connection: what holds
-- the key ('over' may begin a new life), and then one of the four statements below, or none.
-- :name tx_key
SELECT t.id,
  CASE
    WHEN t.rest IN ('dead', 'cancelled') THEN 'over'
    WHEN t.rest = 'done' AND (t.gone_at <= {instant} OR :mode NOT IN ('ignore', 'reject')) THEN 'over'
    ELSE {state} END
FROM nextdue_task t WHERE t.name = :name AND t.key = :key

-- The number of a run on demand.
-- :name tx_number
SELECT {number}

-- :name tx_put
INSERT INTO nextdue_task(lane, name, due, key, args, remember, created, latest, expires, grp)
VALUES ({lane}, :name, {wanted}, :key, :args, :remember, {instant}, min({instant} + :latest, {max}),
  {expiry}, :grp)

-- The marks of the life before.
-- :name tx_unmark
DELETE FROM nextdue_mark WHERE task = :id

-- :name tx_revive
UPDATE nextdue_task SET
  lane = {lane}, due = {wanted}, rest = NULL, args = :args, remember = :remember, created = {instant}, attempts = 0,
  crashes = 0, claims = 0, scheduled_for = NULL, gone_at = NULL, reason = NULL, message = NULL, wished = NULL,
  again_due = NULL, again_args = NULL, latest = min({instant} + :latest, {max}),
  expires = {expiry}, grp = :grp
WHERE id = :id

-- :define slot EXISTS (SELECT 1 FROM nextdue_rate r WHERE r.name = nextdue_task.name AND r.grp = nextdue_task.grp AND due > {instant} AND due <= r.tail)
-- :define then coalesce(due, wished)
-- :define moves (grp IS NOT :grp AND rest IS NOT 'waits')
-- :define moved CASE WHEN {wanted} < due AND NOT {moves} AND {slot} THEN due WHEN :mode = 'replace' THEN {wanted} WHEN :mode = 'earliest' THEN min({wanted}, {then}) ELSE min(max({wanted}, {then}), max(coalesce(latest, {max}), {then})) END
-- :name tx_change
UPDATE nextdue_task SET
  due = CASE WHEN due IS NOT NULL OR {moves} THEN {moved} END, rest = CASE WHEN NOT {moves} THEN rest END,
  wished = CASE WHEN due IS NULL AND NOT {moves} THEN {moved} END, grp = :grp,
  lane = CASE WHEN :mode = 'replace' THEN {lane} ELSE lane END,
  args = :args, expires = {expiry}, again_due = NULL, again_args = NULL,
  attempts = CASE WHEN :mode = 'replace' THEN 0 ELSE attempts END,
  crashes = CASE WHEN args IS NOT :args THEN min(crashes, {last_try}) ELSE crashes END,
  scheduled_for = CASE WHEN :mode = 'replace' THEN NULL ELSE scheduled_for END
WHERE id = :id

-- :name tx_wish
UPDATE nextdue_task SET
  latest = CASE WHEN again_due IS NULL THEN min({instant} + :latest, {max}) ELSE latest END,
  again_args = :args, expires = {expiry}, again_grp = :grp,
  again_due = CASE :mode
    WHEN 'replace' THEN {wanted}
    WHEN 'extend' THEN min(max({wanted}, coalesce(again_due, {wanted})),
      CASE WHEN again_due IS NULL THEN coalesce({instant} + :latest, {max}) ELSE coalesce(latest, {max}) END)
    ELSE min({wanted}, coalesce(again_due, {wanted})) END
WHERE id = :id
