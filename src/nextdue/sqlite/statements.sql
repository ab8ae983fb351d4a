-- The SQL of the SQLite store: one page of named statements. Rules that hold for all of them:
-- . what writes is ONE statement in autocommit, so that nothing of ours holds the write lock across a return to
--   Python (with busy threads each return costs 5 to 40 ms). Verbs of several steps are an INSERT into a temporary
--   view whose trigger does the steps.
-- . :now is NULL outside tests: then the store's clock speaks, read once the write lock is held.
-- . `token` is worker << 32 | n: the rows of a worker are a range of tokens.
-- :define clock CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)
-- :define max 253402300799999
-- :define now (SELECT now FROM nextdue_now)
-- :define believed (SELECT believed FROM nextdue_now)
-- The ring rule: whether row t is the nearest of its lane. It may be asked after the commit: whoever is hidden by an
-- earlier row is covered by that row's own ring, or by the sleep computed from it. Of rows with one due the first
-- rings, or those of one commit would hide each other. A running row hides nothing: an expired lease that can't be
-- believed yet is no row that anybody waits for.
-- :define nearest t.id = (SELECT o.id FROM nextdue_task o WHERE o.lane = t.lane AND o.due <= t.due AND o.token IS NULL ORDER BY o.due, o.id LIMIT 1)
-- How often queues or names were paused or resumed; and that together with the newest lane.
-- :define pauses coalesce((SELECT value FROM nextdue_meta WHERE name = 'pauses'), 0)
-- :define lanes (SELECT coalesce(max(id), 0) FROM nextdue_lane) + ({pauses} << 32)
-- :define held BETWEEN :worker << 32 AND (:worker << 32) + 4294967295
-- :define mine BETWEEN NEW.worker << 32 AND (NEW.worker << 32) + 4294967295

-- :name now
SELECT coalesce(:now, {clock})

-- :name key_state
SELECT id, CASE WHEN token IS NOT NULL THEN 'running' WHEN due IS NOT NULL OR rest = 'blocked' THEN 'waiting' ELSE rest END
FROM nextdue_task WHERE name = :name AND key = :key

-- :name get
SELECT t.id, t.name, l.queue, l.priority,
  CASE WHEN t.token IS NOT NULL THEN 'running' WHEN t.due IS NOT NULL OR t.rest = 'blocked' THEN 'waiting' ELSE t.rest END,
  t.due, t.key, t.args, t.attempts, t.crashes, t.claims, t.scheduled_for, t.created, t.reason, t.message, t.token >> 32
FROM nextdue_task t LEFT JOIN nextdue_lane l ON l.id = t.lane WHERE t.id = :id

-- A task whose row is gone, from the last line of its history.
-- :name get_run
SELECT task, name, NULL, NULL, CASE outcome WHEN 'done' THEN 'done' WHEN 'cancelled' THEN 'cancelled' ELSE 'gone' END,
  NULL, key, NULL, 0, 0, claim, scheduled_for, NULL, reason, message, worker
FROM nextdue_run WHERE task = :id ORDER BY id DESC LIMIT 1

-- Of each lane the nearest; then what rests, in the order in which it lies: as much of a big file as is shown.
-- :name find
WITH
  near(id, due) AS MATERIALIZED (
    SELECT id, due FROM (
      SELECT t.id AS id, t.due AS due FROM nextdue_lane l CROSS JOIN nextdue_task t ON t.id IN (
        SELECT n.id FROM nextdue_task n WHERE n.lane = l.id AND n.due IS NOT NULL AND n.token IS NULL
        ORDER BY n.due, n.id LIMIT :limit)
      WHERE coalesce(:state, 'waiting') = 'waiting'
        AND (:name IS NULL OR l.name = :name) AND (:queue IS NULL OR l.queue = :queue)
      UNION ALL
      SELECT t.id, t.due FROM nextdue_task t CROSS JOIN nextdue_lane l ON l.id = t.lane
      WHERE t.token IS NOT NULL AND coalesce(:state, 'running') = 'running'
        AND (:name IS NULL OR t.name = :name) AND (:queue IS NULL OR l.queue = :queue)
    ) ORDER BY due, id LIMIT :limit),
  resting(id) AS MATERIALIZED (
    SELECT id FROM (
      SELECT t.id AS id FROM nextdue_task t NOT INDEXED
      WHERE coalesce(:state, '') NOT IN ('waiting', 'running') AND t.due IS NULL AND (:state IS NULL OR t.rest = :state)
        AND (:name IS NULL OR t.name = :name)
        AND (:queue IS NULL OR t.lane IN (SELECT l.id FROM nextdue_lane l WHERE l.queue = :queue))
      ORDER BY t.id LIMIT (SELECT :limit - count(*) FROM near))
    UNION ALL
    SELECT id FROM (
      SELECT t.id AS id FROM nextdue_task t
      WHERE :state = 'waiting' AND t.grp IS NOT NULL AND t.rest = 'blocked'
        AND (:name IS NULL OR t.name = :name)
        AND (:queue IS NULL OR t.lane IN (SELECT l.id FROM nextdue_lane l WHERE l.queue = :queue))
      LIMIT (SELECT :limit - count(*) FROM near)))
SELECT t.id, t.name, l.queue, l.priority,
  CASE WHEN t.token IS NOT NULL THEN 'running' WHEN t.due IS NOT NULL OR t.rest = 'blocked' THEN 'waiting' ELSE t.rest END,
  t.due, t.key, t.args, t.attempts, t.crashes, t.claims, t.scheduled_for, t.created, t.reason, t.message, t.token >> 32
FROM (SELECT id FROM near UNION ALL SELECT id FROM resting) f
CROSS JOIN nextdue_task t ON t.id = f.id LEFT JOIN nextdue_lane l ON l.id = t.lane
ORDER BY t.due IS NULL, t.due, t.id

-- :name runs
SELECT task, name, key, claim, scheduled_for, started, ended, outcome, reason, message, result, worker
FROM nextdue_run WHERE :task IS NULL OR task = :task ORDER BY id DESC LIMIT :limit
