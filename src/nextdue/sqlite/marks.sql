-- Marks: the steps that a task has made, what it waits for, and events. Each is written for a claim that stands, so the proof
-- is shown; what becomes of a task whose wait is over is the matter of the triggers in the schema.
-- :define holder nextdue_task t WHERE t.id = :id AND t.token = :token

-- :name mark
SELECT m.label, m.done, m.result, m.problem
FROM nextdue_task t LEFT JOIN nextdue_mark m ON m.task = t.id AND m.label = :label WHERE t.id = :id AND t.token = :token

-- The effect is about to go out.
-- :name mark_begin
INSERT INTO nextdue_mark(task, label, begun, how) SELECT t.id, :label, {instant}, :how FROM {holder}
ON CONFLICT(task, label) DO UPDATE SET begun = excluded.begun, how = excluded.how WHERE done IS NULL

-- It is out.
-- :name mark_end
INSERT INTO nextdue_mark(task, label, begun, done, result, problem)
SELECT t.id, :label, {instant}, {instant}, :result, :problem FROM {holder}
ON CONFLICT(task, label) DO UPDATE SET done = excluded.done, result = excluded.result, problem = excluded.problem

-- It did not go out.
-- :name mark_withdraw
DELETE FROM nextdue_mark WHERE task = :id AND label = :label AND EXISTS (SELECT 1 FROM {holder})

-- By what an effect is known outside: the id that the store had when the task was put, and when that was.
-- :name mark_identity
SELECT t.created, coalesce(
  (SELECT s.value ->> 0 FROM nextdue_meta m CROSS JOIN json_each(m.value) s
   WHERE m.name = 'stores' AND s.value ->> 1 >= t.id ORDER BY s.key LIMIT 1),
  (SELECT value FROM nextdue_meta WHERE name = 'store'))
FROM nextdue_task t WHERE t.id = :id

-- What the tasks returned that this one comes after, in the order in which they were given.
-- :name mark_results
SELECT result FROM nextdue_mark WHERE task = :id AND label LIKE '@after %' ORDER BY label

-- Waiting, in a transaction: for an event, or (:event NULL) for a time only.
-- :name mark_wait
INSERT OR IGNORE INTO nextdue_mark(task, label, begun, waits, until, done, result)
SELECT :id, :label, {instant}, :event, min({instant} + :within + 1, {max}), CASE WHEN e.name IS NOT NULL THEN {instant} END, e.data
FROM (SELECT 1) LEFT JOIN nextdue_event e ON e.name = :event AND e.gone_at > {instant}

-- Nothing came in time; or it was but a time.
-- :name mark_over
UPDATE nextdue_mark SET done = {instant}, problem = CASE WHEN waits IS NOT NULL THEN 'timeout' END
WHERE task = :id AND label = :label AND done IS NULL AND until <= {instant}

-- :name mark_waited
SELECT done, result, problem, until FROM nextdue_mark WHERE task = :id AND label = :label

-- Sending: who sends an event again changes nothing while it is kept. Events whose time is over go on this occasion.
-- :name event_purge
DELETE FROM nextdue_event WHERE name IN (SELECT name FROM nextdue_event WHERE gone_at <= {instant} LIMIT 2)
  OR (name = :event AND gone_at <= {instant})

-- :name event_send
INSERT OR IGNORE INTO nextdue_event(name, data, sent, gone_at)
VALUES (:event, :data, {instant}, min({instant} + :keep, {max}))

-- :name event_arrive
UPDATE nextdue_mark SET done = {instant}, result = :data WHERE waits = :event AND done IS NULL

-- Tasks that come after others, which are given as :after, a JSON array of ids. First, whether that can be:
-- how each of them ended, if it did; NULL: nobody knows.
-- :define ended CASE WHEN t.rest IN ('done', 'dead', 'cancelled') THEN t.rest WHEN t.id IS NOT NULL THEN '' WHEN r.outcome IN ('dead', 'expired') THEN 'dead' WHEN r.outcome <> 'done' THEN 'cancelled' WHEN r.id IS NOT NULL OR k.task IS NOT NULL THEN 'done' END
-- :define parents json_each(:after) j LEFT JOIN nextdue_task t ON t.id = j.value LEFT JOIN nextdue_run r ON r.id = (SELECT max(n.id) FROM nextdue_run n WHERE n.task = j.value) LEFT JOIN nextdue_result k ON k.task = j.value
-- :name after_unknown
SELECT j.value FROM {parents} WHERE {ended} IS NULL LIMIT 1

-- :name after_itself
SELECT t.id FROM nextdue_task t WHERE t.name = :name AND t.key = :key AND t.id IN (
  WITH RECURSIVE before(id) AS (
    SELECT value FROM json_each(:after)
    UNION SELECT m.waits FROM before b CROSS JOIN nextdue_mark m ON m.task = b.id AND m.waits IS NOT NULL AND m.done IS NULL
    WHERE typeof(m.waits) = 'integer')
  SELECT id FROM before)

-- :name after_mark
INSERT INTO nextdue_mark(task, label, begun, waits, how, done, result, problem)
SELECT c.id, printf('@after %06d', p.place), {instant}, p.parent, :how,
  CASE WHEN p.ended = 'done' THEN {instant} END, CASE WHEN p.ended = 'done' THEN p.result END,
  CASE WHEN p.ended IN ('dead', 'cancelled') THEN p.ended END
FROM (SELECT j.key AS place, j.value AS parent, {ended} AS ended, coalesce(r.result, k.result) AS result FROM {parents}) p
CROSS JOIN nextdue_task c ON c.id BETWEEN :first AND :last

-- :name after_rest
UPDATE nextdue_task SET wished = due, due = NULL, rest = 'waits' WHERE id BETWEEN :first AND :last
  AND EXISTS (SELECT 1 FROM nextdue_mark m WHERE m.task = nextdue_task.id AND m.waits IS NOT NULL AND m.done IS NULL)

-- Deciding what a task is in doubt of.
-- :name doubts
SELECT label, begun, how, problem FROM nextdue_mark
WHERE task = :id AND EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = :id AND t.token IS NULL) AND substr(label, 1, 1) <> '@' AND (done IS NULL OR problem IS NOT NULL) ORDER BY begun, label

-- All that is known of a task besides its row; of a task waited for also what it is. (An event may be called like an id.)
-- :name marks
SELECT m.label, m.begun, m.done, m.result, m.problem, m.waits, m.until, m.how, t.name, CASE WHEN t.id IS NOT NULL THEN {state} END
FROM nextdue_mark m LEFT JOIN nextdue_task t ON typeof(m.waits) = 'integer' AND t.id = m.waits
WHERE m.task = :id ORDER BY m.begun, m.label

-- :name mark_followers
SELECT t.id, t.name, {state} FROM nextdue_mark m CROSS JOIN nextdue_task t ON t.id = m.task
WHERE m.waits = :id AND m.done IS NULL ORDER BY t.id LIMIT :limit

-- When a task became what it is, as far as the history goes back.
-- :name mark_ended
SELECT max(ended) FROM nextdue_run WHERE task = :id

-- Why a step can't be decided on: its task is gone, or runs.
-- :name resolve_refused
SELECT t.token IS NOT NULL FROM nextdue_task t WHERE t.id = :id

-- :name resolve_happened
UPDATE nextdue_mark SET done = {instant}, result = :result, problem = NULL
WHERE task = :id AND label = :label AND substr(label, 1, 1) <> '@' AND (done IS NULL OR problem IS NOT NULL)
  AND EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = :id AND t.token IS NULL)

-- :name resolve_not_happened
DELETE FROM nextdue_mark
WHERE task = :id AND label = :label AND substr(label, 1, 1) <> '@' AND (done IS NULL OR problem IS NOT NULL)
  AND EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = :id AND t.token IS NULL)

-- :name resolve_release
UPDATE nextdue_task SET due = {instant}, rest = NULL, reason = NULL, message = NULL
WHERE id = :id AND rest = 'held' AND reason = 'in_doubt' AND NOT EXISTS (
  SELECT 1 FROM nextdue_mark m WHERE m.task = :id AND m.done IS NULL AND m.how = 'hold' AND m.waits IS NULL)
