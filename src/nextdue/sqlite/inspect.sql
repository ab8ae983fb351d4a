-- Looking into the file: nothing here changes it, and nothing is run by a worker between two tasks, so a full scan is
-- allowed.

-- What waits and what runs, lane by lane. Only the counts read more than one entry of the index, a million in 30 ms.
-- :name backlog
SELECT l.name, l.queue, 0,
  (SELECT count(*) FROM nextdue_task t WHERE t.lane = l.id AND t.due IS NOT NULL AND t.token IS NULL),
  (SELECT count(*) FROM nextdue_task t WHERE t.lane = l.id AND t.due <= :now AND t.token IS NULL),
  (SELECT min(t.due) FROM nextdue_task t WHERE t.lane = l.id AND t.due IS NOT NULL AND t.token IS NULL),
  (SELECT min(t.due) FROM nextdue_task t WHERE t.lane = l.id AND t.due > :now AND t.token IS NULL)
FROM nextdue_lane l
UNION ALL
SELECT l.name, l.queue, 1, count(*), sum(t.due <= :now), min(t.due), min(CASE WHEN t.due > :now THEN t.due END)
FROM nextdue_task t CROSS JOIN nextdue_lane l ON l.id = t.lane WHERE t.token IS NOT NULL GROUP BY l.id

-- Those at rest until other tasks are done or an event is sent.
-- :name backlog_waits
SELECT l.name, l.queue, count(DISTINCT t.id)
FROM nextdue_mark m INDEXED BY nextdue_mark_open CROSS JOIN nextdue_task t ON t.id = m.task AND t.rest = 'waits'
CROSS JOIN nextdue_lane l ON l.id = t.lane
WHERE m.waits IS NOT NULL AND m.done IS NULL GROUP BY l.name, l.queue

-- The deferred tasks of a forecast, counted for each column of its drawing; those of schedules are foretold by their rules.
-- :name coming
SELECT l.name, l.queue, max(0, (max(t.due, :now) - :start) / :width) AS n, count(*), max(min(t.due), :now), min(t.key)
FROM nextdue_lane l CROSS JOIN nextdue_task t ON t.lane = l.id AND t.due <= :until AND t.token IS NULL
WHERE coalesce(substr(t.key, 1, 1) <> '@', 1)
GROUP BY l.name, l.queue, n

-- :name clock_step
SELECT value ->> 0, value ->> 1 FROM nextdue_meta WHERE name = 'clock_step'

-- :name at_rest
SELECT name, rest, count(*) FROM nextdue_task WHERE rest <> 'waits' GROUP BY name, rest ORDER BY name, rest

-- Lanes stay for ever, so that nothing bigger need be asked.
-- :name lanes_known
SELECT DISTINCT name, queue FROM nextdue_lane ORDER BY name, queue

-- :name workers_known
SELECT w.id, w.started, w.host, w.pid, w.serves, (SELECT count(*) FROM nextdue_task t
  WHERE t.token BETWEEN w.id << 32 AND (w.id << 32) + 4294967295)
FROM nextdue_worker w ORDER BY w.id

-- :name lane_of
SELECT l.queue, l.name, l.priority, l.alone FROM nextdue_task t CROSS JOIN nextdue_lane l ON l.id = t.lane
WHERE t.id = :id

-- Whether the due of a task is one of the slots that its rate has given away.
-- :name slot_of
SELECT r.grp FROM nextdue_task t CROSS JOIN nextdue_rate r ON r.name = t.name AND r.grp = coalesce(t.grp, '')
WHERE t.id = :id AND t.due BETWEEN r.free AND r.tail

-- How many tasks of the same lane wait before this one.
-- :name before_it
SELECT
  (SELECT count(*) FROM nextdue_task o WHERE o.lane = t.lane AND o.due < t.due AND o.token IS NULL) +
  (SELECT count(*) FROM nextdue_task o WHERE o.lane = t.lane AND o.due = t.due AND o.id < t.id AND o.token IS NULL)
FROM nextdue_task t WHERE t.id = :id

-- The latest instant among the newest rows; to look at all of them would take seconds beside millions.
-- :name newest
SELECT max(
  (SELECT coalesce(max(created), 0) FROM (SELECT created FROM nextdue_task ORDER BY id DESC LIMIT 10000)),
  (SELECT coalesce(max(ended), 0) FROM (SELECT ended FROM nextdue_run ORDER BY id DESC LIMIT 10000)))

-- :name schema_found
SELECT value FROM nextdue_meta WHERE name = 'schema'

-- :name journal_mode
PRAGMA journal_mode

-- check(): each finding as text. One pass over the table, not its indexes, which may be what is wrong.
-- :name check_tasks
SELECT 'task ' || id || ': ' || substr(wrong, 3) FROM (
  SELECT t.id AS id,
    CASE WHEN (t.due IS NULL) = (t.rest IS NULL) THEN '; it must have either a due or a reason to rest' ELSE '' END ||
    CASE WHEN typeof(t.due) NOT IN ('integer', 'null') OR t.due NOT BETWEEN 0 AND {max}
      THEN '; its due is no instant: ' || quote(t.due) ELSE '' END ||
    CASE WHEN t.rest NOT IN ('done', 'dead', 'cancelled', 'held', 'blocked', 'waits') THEN '; unknown rest ' || quote(t.rest) ELSE '' END ||
    CASE WHEN t.token IS NOT NULL AND t.due IS NULL THEN '; it is at rest and has a token' ELSE '' END ||
    CASE WHEN t.token >> 32 NOT BETWEEN 1
        AND coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'nextdue_worker'), 0)
      THEN '; its token names worker ' || (t.token >> 32) || ', which never was' ELSE '' END ||
    CASE WHEN t.token IS NOT NULL AND (t.claims < 1 OR t.scheduled_for IS NULL)
      THEN '; it is running and was never claimed' ELSE '' END ||
    CASE WHEN l.id IS NULL THEN '; it is in lane ' || quote(t.lane) || ', which isn''t there'
      WHEN l.name <> t.name THEN '; it is called ' || quote(t.name) || ' in a lane of ' || quote(l.name) ELSE '' END ||
    CASE WHEN t.rest IN ('done', 'cancelled') AND t.key IS NOT NULL AND t.gone_at IS NULL
      THEN '; it occupies its key for ever' ELSE '' END ||
    CASE WHEN t.rest IN ('done', 'cancelled') AND t.key IS NULL THEN '; it is finished and has no key: a row too many'
      ELSE '' END ||
    CASE WHEN t.gone_at IS NOT NULL AND coalesce(t.rest, '') NOT IN ('done', 'cancelled')
      THEN '; it isn''t finished and would be purged' ELSE '' END ||
    CASE WHEN NOT json_valid(t.args) THEN '; its arguments aren''t JSON'
      WHEN json_type(t.args) NOT IN ('array', 'object') THEN '; its arguments are no JSON array or object' ELSE '' END ||
    CASE WHEN typeof(t.attempts) <> 'integer' OR t.attempts < 0 THEN '; attempts ' || quote(t.attempts) ELSE '' END ||
    CASE WHEN typeof(t.crashes) <> 'integer' OR t.crashes < 0 THEN '; crashes ' || quote(t.crashes) ELSE '' END ||
    CASE WHEN typeof(t.claims) <> 'integer' OR t.claims < 0 THEN '; claims ' || quote(t.claims) ELSE '' END ||
    CASE WHEN typeof(t.created) <> 'integer' OR t.created NOT BETWEEN 0 AND {max}
      THEN '; created ' || quote(t.created) ELSE '' END ||
    CASE WHEN t.id > coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'nextdue_task'), 0)
      THEN '; its id will be used again' ELSE '' END
    AS wrong
  FROM nextdue_task t NOT INDEXED LEFT JOIN nextdue_lane l ON l.id = t.lane
) WHERE wrong <> '' OR wrong IS NULL ORDER BY id LIMIT :limit

-- :name check_marks
SELECT 'mark ' || quote(m.label) || ' of task ' || m.task || ': ' || CASE
  WHEN t.id IS NULL THEN 'its task isn''t there'
  WHEN t.rest = 'done' THEN 'its task is done'
  ELSE 'its result isn''t JSON' END
FROM nextdue_mark m LEFT JOIN nextdue_task t ON t.id = m.task
WHERE t.id IS NULL OR t.rest = 'done' OR NOT json_valid(coalesce(m.result, '0')) LIMIT :limit

-- :name check_waits
SELECT 'task ' || t.id || ': it waits, and for nothing' FROM nextdue_task t
WHERE t.rest = 'waits' AND NOT EXISTS (
  SELECT 1 FROM nextdue_mark m WHERE m.task = t.id AND m.waits IS NOT NULL AND m.done IS NULL)
UNION ALL
SELECT 'task ' || m.task || ': it waits for task ' || m.waits || ', which isn''t there' FROM nextdue_mark m
WHERE m.waits IS NOT NULL AND m.done IS NULL AND typeof(m.waits) = 'integer' AND m.problem IS NULL
  AND NOT EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = m.waits)
LIMIT :limit

-- :name check_keys
SELECT 'task ' || name || ': the key ' || quote(key) || ' is held by ' || count(*) || ' rows: ' || group_concat(id)
FROM nextdue_task NOT INDEXED WHERE key IS NOT NULL GROUP BY name, key HAVING count(*) > 1 LIMIT :limit

-- :name check_lanes
SELECT 'lane ' || id || ': ' || quote(queue) || ', ' || quote(name) || ', priority ' || quote(priority) ||
  ', alone ' || quote(alone) || ' can''t be meant'
FROM nextdue_lane NOT INDEXED
WHERE typeof(priority) <> 'integer' OR priority NOT BETWEEN -100 AND 100 OR alone NOT IN (0, 1)
  OR length(name) NOT BETWEEN 1 AND 200 OR length(queue) NOT BETWEEN 1 AND 200
LIMIT :limit

-- :name check_schedules
SELECT 'schedule ' || quote(name) || ' ' || quote(substr(key, 2)) || ': ' || substr(wrong, 3) FROM (
  SELECT g.name AS name, g.key AS key,
    CASE WHEN substr(g.key, 1, 1) <> '@' THEN '; its key is no schedule''s' ELSE '' END ||
    CASE WHEN NOT EXISTS (SELECT 1 FROM nextdue_task t WHERE t.name = g.name AND t.key = g.key)
      THEN '; it has no row, so it never runs: put it anew, or remove it' ELSE '' END ||
    CASE WHEN typeof(g.plan) <> 'text' THEN '; its plan is no text'
      WHEN NOT json_valid(g.plan) THEN '; its plan isn''t JSON'
      WHEN json_type(g.plan) <> 'object' THEN '; its plan is no JSON object' ELSE '' END ||
    CASE WHEN typeof(g.fired) <> 'integer' OR g.fired < 0 THEN '; fired ' || quote(g.fired) ELSE '' END ||
    CASE WHEN typeof(g.missed) <> 'integer' OR g.missed < 0 THEN '; missed ' || quote(g.missed) ELSE '' END ||
    CASE WHEN typeof(g.missed_ever) <> 'integer' OR g.missed_ever < 0 THEN '; missed_ever ' || quote(g.missed_ever) ELSE '' END ||
    CASE WHEN typeof(g.last) NOT IN ('integer', 'null') OR g.last NOT BETWEEN 0 AND {max}
      THEN '; its last slot is no instant: ' || quote(g.last) ELSE '' END AS wrong
  FROM nextdue_schedule g
) WHERE wrong <> '' LIMIT :limit

-- :name check_runs
SELECT 'run ' || id || ': ' || substr(wrong, 3) FROM (
  SELECT r.id AS id,
    CASE WHEN r.outcome NOT IN ('done', 'failed', 'snoozed', 'released', 'dead', 'held', 'crashed', 'cancelled', 'expired',
        'missed')
      THEN '; unknown outcome ' || quote(r.outcome) ELSE '' END ||
    CASE WHEN typeof(r.ended) <> 'integer' OR r.started > r.ended THEN '; it ended before it began' ELSE '' END ||
    CASE WHEN r.task > coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'nextdue_task'), 0)
      THEN '; its task ' || r.task || ' never was' ELSE '' END ||
    CASE WHEN r.outcome = 'done' AND r.key IS NULL AND EXISTS (
        SELECT 1 FROM nextdue_task t WHERE t.id = r.task AND (t.claims < r.claim OR t.scheduled_for IS r.scheduled_for))
      THEN '; its task ' || r.task || ' is done and still there' ELSE '' END ||
    CASE WHEN r.result IS NOT NULL AND NOT json_valid(r.result) THEN '; its result isn''t JSON' ELSE '' END AS wrong
  FROM nextdue_run r NOT INDEXED
) WHERE wrong <> '' ORDER BY id LIMIT :limit

-- A claim of a task without a key ends once (a key's next life counts its claims anew).
-- :name check_endings
SELECT 'task ' || task || ': its claim ' || claim || ' ended ' || count(*) || ' times: ' || group_concat(outcome)
FROM nextdue_run NOT INDEXED WHERE key IS NULL AND outcome NOT IN ('cancelled', 'expired')
GROUP BY task, claim HAVING count(*) > 1 LIMIT :limit

-- :name check_workers
SELECT 'worker ' || id || ': its number will be used again' FROM nextdue_worker
WHERE id > coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'nextdue_worker'), 0) LIMIT :limit

-- :name check_meta
SELECT CASE
  WHEN (SELECT value FROM nextdue_meta WHERE name = 'schema') IS NOT :version
    THEN 'meta: schema ' || quote((SELECT value FROM nextdue_meta WHERE name = 'schema')) || ', expected ' || :version
  WHEN (SELECT value FROM nextdue_meta WHERE name = 'store') IS NULL THEN 'meta: the store has no id' END

-- :name check_objects
SELECT 'schema: ' || value || ' is missing' FROM json_each(:names)
WHERE value NOT IN (SELECT name FROM main.sqlite_master)

-- :name check_integrity
SELECT :name || ': ' || integrity_check FROM pragma_integrity_check(:name) WHERE integrity_check <> 'ok' LIMIT :limit
