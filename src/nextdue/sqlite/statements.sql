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
SELECT task, name, NULL, NULL, CASE outcome WHEN 'done' THEN 'done' WHEN 'cancelled' THEN 'cancelled' ELSE 'gone' END,
  NULL, key, NULL, 0, 0, claim, scheduled_for, NULL, reason, message, worker
FROM nextdue_run WHERE task = :id ORDER BY id DESC LIMIT 1

-- One whose history is gone too, from the result that outlived it.
-- :name get_result
SELECT task, name, NULL, NULL, 'done', NULL, key, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
FROM nextdue_result WHERE task = :id

-- :name runs
SELECT task, name, key, claim, scheduled_for, started, ended, outcome, reason, message, result, worker
FROM nextdue_run WHERE :task IS NULL OR task = :task ORDER BY id DESC LIMIT :limit
