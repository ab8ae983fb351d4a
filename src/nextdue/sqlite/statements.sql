-- Looking at tasks, and the clock. The words in braces are explained in words.sql.

-- :name now
SELECT {instant}

-- :name key_state
SELECT t.id, {state} FROM nextdue_task t WHERE t.name = :name AND t.key = :key

-- :name get
SELECT t.id, t.name, l.queue, l.priority,
  {state},
  t.due, t.key, t.args, t.attempts, t.crashes, t.claims, t.scheduled_for, t.created, t.reason, t.message, t.token >> 32
FROM nextdue_task t LEFT JOIN nextdue_lane l ON l.id = t.lane WHERE t.id = :id

-- A task whose row is gone, from the last line of its history.
-- :name get_run
SELECT task, name, NULL, NULL, CASE outcome WHEN 'done' THEN 'done' WHEN 'cancelled' THEN 'cancelled' WHEN 'expired' THEN 'dead' ELSE 'gone' END,
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
  {state},
  t.due, t.key, t.args, t.attempts, t.crashes, t.claims, t.scheduled_for, t.created, t.reason, t.message, t.token >> 32
FROM (SELECT id FROM near UNION ALL SELECT id FROM resting) f
CROSS JOIN nextdue_task t ON t.id = f.id LEFT JOIN nextdue_lane l ON l.id = t.lane
ORDER BY t.due IS NULL, t.due, t.id

-- :name runs
SELECT task, name, key, claim, scheduled_for, started, ended, outcome, reason, message, result, worker
FROM nextdue_run WHERE :task IS NULL OR task = :task ORDER BY id DESC LIMIT :limit
