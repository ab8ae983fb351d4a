-- What people do to tasks, one or many: a page of named statements. Rules that hold for all of them:
-- . a verb is one statement in autocommit over at most some thousand ids, so that no bulk holds the write lock for long.
-- . the ids were found by a read before; so each verb asks again what the row is and whether it still matches.
-- The row of a schedule is neither cancelled nor purged, but by what is done to the schedule.
-- :define single coalesce(substr(t.key, 1, 1) <> '@', 1)
-- :define matches (:state IS NULL OR {state} = :state) AND (:name IS NULL OR t.name = :name) AND (:queue IS NULL OR t.lane IN (SELECT id FROM nextdue_lane WHERE queue = :queue)) AND (:key IS NULL OR t.key = :key) AND (:reason IS NULL OR t.reason = :reason) AND (:before IS NULL OR {touched} <= :before) AND (:since IS NULL OR {touched} >= :since)
-- :define may CASE :verb WHEN 'retry' THEN {retriable} WHEN 'run_now' THEN {startable} WHEN 'cancel' THEN {unfinished} WHEN 'purge' THEN {purgeable} ELSE 1 END
-- A paused task is not retried: its owner said that it shall not run. One that never failed has nothing to be retried.
-- :define retriable t.token IS NULL AND (t.rest IN ('dead', 'cancelled') OR (t.rest = 'held' AND coalesce(t.reason, '') NOT IN ('paused', 'orphaned')) OR (t.due IS NOT NULL AND (t.attempts > 0 OR t.crashes > 0)))
-- :define startable t.token IS NULL AND t.due IS NOT NULL AND NOT {rated}
-- Hurrying makes nothing later. While the starts of its group are given away for longer than it has to wait, it would give
-- up the slot that it has, and get one behind all others.
-- :define rated (t.due > {instant} AND EXISTS (SELECT 1 FROM nextdue_rate r WHERE r.name = t.name AND r.grp = coalesce(t.grp, '') AND t.due <= r.tail AND r.free <= {instant} + {slowest}))
-- :define unfinished (t.rest IS NULL OR t.rest NOT IN ('done', 'cancelled')) AND ({single} OR t.token IS NOT NULL)
-- :define purgeable t.rest IN ('done', 'dead', 'cancelled') AND {single}
-- The age of a task counts from here: it was put, or a run of it ended, as far as the history goes back.
-- :define touched max(t.created, coalesce((SELECT max(r.ended) FROM nextdue_run r WHERE r.task = t.id), 0))

-- The tasks that match, some at a time. By their ids, through all of the table:
-- :name care_page
SELECT t.id, t.name, {state}, t.key FROM nextdue_task t
WHERE t.id > :after AND {may} AND {matches} ORDER BY t.id LIMIT :limit

-- Those at rest until a person decides, which have an index: by name and id.
-- :name care_page_rest
SELECT t.id, t.name, t.rest, t.key FROM nextdue_task t
WHERE t.rest IN ('dead', 'held') AND t.rest = :state AND (t.name, t.id) > (:after_name, :after) AND {may} AND {matches}
ORDER BY t.name, t.id LIMIT :limit

-- Those of one key: it belongs to its name, so each name is asked.
-- :name care_page_key
SELECT t.id, t.name, {state}, t.key
FROM (SELECT name FROM nextdue_lane UNION SELECT :name WHERE :name IS NOT NULL) n
CROSS JOIN nextdue_task t ON t.name = n.name AND t.key = :key
WHERE t.id > :after AND {may} AND {matches} ORDER BY t.id LIMIT :limit

-- The nearest due of each lane, and of those and of all that run the nearest.
-- :name care_due
SELECT id, name, state, key FROM (
  SELECT o.id, o.name, 'waiting' AS state, o.key, o.due
  FROM nextdue_lane l CROSS JOIN nextdue_task o ON o.id IN (
    SELECT t.id FROM nextdue_task t
    WHERE t.lane = l.id AND t.due IS NOT NULL AND t.token IS NULL AND {matches} ORDER BY t.due, t.id LIMIT :limit)
  WHERE (:name IS NULL OR l.name = :name) AND (:queue IS NULL OR l.queue = :queue)
  UNION ALL
  SELECT t.id, t.name, 'running', t.key, t.due FROM nextdue_task t WHERE t.token IS NOT NULL AND {matches})
ORDER BY due, id LIMIT :limit

-- :name care_running
SELECT t.id, t.name, 'running', t.key FROM nextdue_task t
WHERE t.token IS NOT NULL AND {matches} ORDER BY t.due, t.id LIMIT :limit

-- :name care_blocked
SELECT t.id, t.name, 'waiting', t.key
FROM (SELECT DISTINCT name FROM nextdue_lane) n
CROSS JOIN nextdue_task t ON t.name = n.name AND t.grp IS NOT NULL AND t.due IS NULL AND t.rest = 'blocked'
WHERE {matches} ORDER BY t.id LIMIT :limit

-- Those that wait for other tasks or for an event, however many there are of others.
-- :name care_waits
SELECT t.id, t.name, 'waiting', t.key
FROM nextdue_mark m INDEXED BY nextdue_mark_open CROSS JOIN nextdue_task t ON t.id = m.task
WHERE m.waits IS NOT NULL AND m.done IS NULL AND t.rest = 'waits' AND {matches}
GROUP BY m.task ORDER BY m.task LIMIT :limit

-- :name care_tombstones
SELECT t.id, t.name, t.rest, t.key FROM nextdue_task t
WHERE t.rest IN ('done', 'cancelled') AND {matches} ORDER BY t.id LIMIT :limit

-- The longest untouched first.
-- :name care_aged
SELECT t.id, t.name, {state}, t.key FROM nextdue_task t WHERE {matches} ORDER BY {touched}, t.id LIMIT :limit

-- :name care_aged_rest
SELECT t.id, t.name, t.rest, t.key FROM nextdue_task t
WHERE t.rest IN ('dead', 'held') AND t.rest = :state AND {matches}
ORDER BY {touched}, t.id LIMIT :limit

-- Finished tasks whose row is gone, newest first.
-- :name care_finished
SELECT r.task, r.name, r.outcome, r.key FROM nextdue_run r
WHERE r.outcome = :state AND (:name IS NULL OR r.name = :name) AND (:key IS NULL OR r.key = :key)
  AND (:reason IS NULL OR r.reason = :reason)
  AND (:before IS NULL OR r.ended <= :before) AND (:since IS NULL OR r.ended >= :since)
  AND NOT EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = r.task)
ORDER BY r.id DESC LIMIT :limit

-- What only people want to know of a row.
-- :name care_sight
SELECT 1, t.rest, t.wished, t.progress, t.stop, t.expires, t.grp,
  (SELECT since FROM nextdue_pause WHERE kind = 'queue' AND word = l.queue),
  (SELECT since FROM nextdue_pause WHERE kind = 'name' AND word = t.name),
  t.token IS NULL AND coalesce({rated}, 0)
FROM nextdue_task t LEFT JOIN nextdue_lane l ON l.id = t.lane WHERE t.id = :id

-- A new life of the same row. An end of its time that has passed is lifted: a person wants it to run all the same.
-- :name care_retry
UPDATE nextdue_task AS t SET
  lane = {plain_lane},
  due = CASE WHEN {rated} THEN t.due ELSE {instant} END, rest = NULL, attempts = 0, crashes = 0, gone_at = NULL, wished = NULL, stop = NULL,
  progress = NULL, reason = NULL, message = NULL,
  expires = CASE WHEN t.expires > {instant} THEN t.expires END
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND {retriable} AND {matches}

-- :name care_run_now
UPDATE nextdue_task AS t SET
  due = min(t.due, {instant}),
  scheduled_for = CASE WHEN {single} OR t.attempts > 0 OR t.due <= {instant} THEN t.scheduled_for END
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND {startable} AND {matches}

-- :name care_purge
DELETE FROM nextdue_task AS t
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND {purgeable} AND {matches}

-- Each row goes through the store's own verb; what it changed is counted by the triggers below.
-- :name care_cancel
INSERT INTO nextdue_cancel(now, id, keep_rows)
SELECT :now, t.id, :keep_rows FROM json_each(:ids) j CROSS JOIN nextdue_task t ON t.id = j.value
WHERE {unfinished} AND {matches}

-- :name care_cancel_setup
CREATE TEMP TABLE nextdue_cared(cancelled INTEGER NOT NULL);
CREATE TEMP TRIGGER nextdue_cancel_counts AFTER UPDATE OF rest ON main.nextdue_task
WHEN NEW.rest = 'cancelled' AND OLD.rest IS NOT 'cancelled'
BEGIN
  INSERT INTO nextdue_cared VALUES (1);
END;
CREATE TEMP TRIGGER nextdue_stop_counts AFTER UPDATE OF stop ON main.nextdue_task
WHEN NEW.stop IS NOT NULL AND OLD.stop IS NULL
BEGIN
  INSERT INTO nextdue_cared VALUES (0);
END

-- :name care_cared_clear
DELETE FROM nextdue_cared

-- :name care_cared
SELECT coalesce(sum(cancelled), 0), coalesce(sum(NOT cancelled), 0) FROM nextdue_cared

-- How many tombstones among these ids still guard their keys.
-- :name care_guarding
SELECT count(*) FROM json_each(:ids) j CROSS JOIN nextdue_task t ON t.id = j.value
WHERE t.rest = 'done' AND t.gone_at > {instant}

-- Lines of the history. A result that is to be kept longer than the line stays.
-- :define line (:state IS NULL OR r.outcome = :state) AND (:name IS NULL OR r.name = :name) AND (:key IS NULL OR r.key = :key) AND (:reason IS NULL OR r.reason = :reason) AND r.ended <= :before AND (:since IS NULL OR r.ended >= :since) AND (r.keep IS NULL OR r.keep <= {instant})
-- :name care_lines
SELECT r.id FROM nextdue_run r WHERE r.id > :after AND {line} ORDER BY r.id LIMIT :limit

-- :name care_purge_lines
DELETE FROM nextdue_run AS r WHERE r.id IN (SELECT value FROM json_each(:ids)) AND {line}
