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
-- :define mine BETWEEN NEW.worker << 32 AND (NEW.worker << 32) + 4294967295

-- :name now
SELECT coalesce(:now, {clock})

-- :name lane_add
INSERT OR IGNORE INTO nextdue_lane(queue, name, priority, alone) VALUES (:queue, :name, :priority, 0)

-- One or some tasks, each as [queue, name, priority, due, delay, key, remember, args]. A lane that isn't there is
-- NULL, which the table refuses; then lane_add makes it. No process remembers lanes, for the file may be restored.
-- A delay counts from now, which is cut to ms: + 1, or it would be early.
-- :name put
INSERT INTO nextdue_task(lane, name, due, key, args, remember, created)
SELECT l.id, r.name,
  min(coalesce(r.due, coalesce(:now, {clock}) + r.delay + (r.delay > 0)), {max}),
  r.key, r.args, coalesce(r.remember, 0), coalesce(:now, {clock})
FROM (
  SELECT value ->> 0 AS queue, value ->> 1 AS name, value ->> 2 AS priority, value ->> 3 AS due, value ->> 4 AS delay,
    value ->> 5 AS key, value ->> 6 AS remember, value -> 7 AS args
  FROM json_each(:rows)
) r
LEFT JOIN nextdue_lane l ON l.queue = r.queue AND l.name = r.name AND l.priority = r.priority AND l.alone = 0
WHERE true
ON CONFLICT(name, key) WHERE key IS NOT NULL DO UPDATE SET
  lane = excluded.lane, due = excluded.due, rest = NULL, args = excluded.args, remember = excluded.remember,
  created = excluded.created, attempts = 0, crashes = 0, claims = 0, scheduled_for = NULL, gone_at = NULL,
  reason = NULL, message = NULL
WHERE nextdue_task.rest IN ('dead', 'cancelled')
  OR (nextdue_task.rest = 'done' AND nextdue_task.gone_at <= excluded.created)

-- Tasks that differ in their arguments only: :calls is a JSON array of them. Only the first can be the nearest of its
-- lane, so the others leave `remember` NULL, by which the bell knows them.
-- :name put_many
INSERT INTO nextdue_task(lane, name, due, args, remember, created)
SELECT
  (SELECT id FROM nextdue_lane WHERE queue = :queue AND name = :name AND priority = :priority AND alone = 0), :name,
  min(coalesce(:due, coalesce(:now, {clock}) + :delay + (:delay > 0)), {max}),
  value, CASE WHEN key = 0 THEN 0 END, coalesce(:now, {clock})
FROM json_each(:calls)

-- :name bell
SELECT rung FROM nextdue_bell

-- :name key_state
SELECT id, CASE WHEN token IS NOT NULL THEN 'running' WHEN due IS NOT NULL OR rest = 'blocked' THEN 'waiting' ELSE rest END
FROM nextdue_task WHERE name = :name AND key = :key

-- :name enlist
INSERT INTO nextdue_worker(started, host, pid) VALUES (coalesce(:now, {clock}), :host, :pid)

-- :name resign
DELETE FROM nextdue_worker WHERE id = :worker

-- The temporary objects of a worker's connection.
-- :name worker_setup
CREATE TEMP TABLE nextdue_now(one INTEGER PRIMARY KEY, now INTEGER NOT NULL, believed INTEGER NOT NULL);
CREATE TEMP TABLE nextdue_open(lane INTEGER PRIMARY KEY, priority INTEGER NOT NULL, lease INTEGER NOT NULL, alone INTEGER NOT NULL);
CREATE TEMP TABLE nextdue_settled(
  id INTEGER NOT NULL, token INTEGER NOT NULL, outcome TEXT NOT NULL, ran INTEGER, forget INTEGER NOT NULL,
  delay INTEGER, rest TEXT, attempts INTEGER, crashes INTEGER, alone INTEGER, reason TEXT, message TEXT, result TEXT);
CREATE TEMP TABLE nextdue_buried(id INTEGER NOT NULL);
CREATE TEMP TABLE nextdue_claimed(
  place INTEGER PRIMARY KEY, id INTEGER NOT NULL, taken INTEGER NOT NULL, risky INTEGER NOT NULL);

CREATE TEMP VIEW nextdue_tick AS
SELECT NULL AS now, NULL AS done, NULL AS settlements, NULL AS worker, NULL AS token, NULL AS slots, NULL AS ahead, NULL AS fair,
  NULL AS alone, NULL AS until, NULL AS believed, NULL AS expected, NULL AS renewed, NULL AS renew_every, NULL AS keep_rows, NULL AS keep_ms;

CREATE TEMP TRIGGER nextdue_tick_do INSTEAD OF INSERT ON nextdue_tick
BEGIN
  INSERT OR REPLACE INTO nextdue_now
    SELECT 1, n.now, CASE WHEN n.now - NEW.expected BETWEEN -1000 AND 1000 THEN NEW.believed ELSE 0 END
    FROM (SELECT coalesce(NEW.now, {clock}) AS now) n;
  DELETE FROM nextdue_claimed;
  DELETE FROM nextdue_settled;

  -- Settle. Whoever can't show the token has lost the row and changes nothing. Plain successes, by far the most,
  -- come as [id, token, ran]; all others with everything that is to be known of them.
  INSERT INTO nextdue_settled(id, token, outcome, ran, forget)
    SELECT t.id, t.token, 'done', j.value ->> 2, 1
    FROM json_each(NEW.done) j CROSS JOIN nextdue_task t ON t.id = j.value ->> 0 AND t.token = j.value ->> 1;
  INSERT INTO nextdue_settled
    SELECT t.id, t.token, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
      value ->> 9, value ->> 10, value ->> 11, value ->> 12
    FROM json_each(NEW.settlements) j CROSS JOIN nextdue_task t ON t.id = j.value ->> 0 AND t.token = j.value ->> 1;
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, started, ended, outcome, reason, message, result, worker)
    SELECT t.id, t.name, t.key, t.claims, t.scheduled_for, {now} - s.ran, {now}, s.outcome, s.reason, s.message,
      s.result, NEW.worker
    FROM nextdue_settled s CROSS JOIN nextdue_task t ON t.id = s.id
    WHERE s.ran IS NOT NULL AND NEW.keep_rows > 0;
  DELETE FROM nextdue_task WHERE id IN (SELECT id FROM nextdue_settled WHERE forget);
  INSERT OR IGNORE INTO nextdue_lane(queue, name, priority, alone)
    SELECT l.queue, l.name, l.priority, s.alone
    FROM nextdue_settled s CROSS JOIN nextdue_task t ON t.id = s.id CROSS JOIN nextdue_lane l ON l.id = t.lane
    WHERE s.alone AND NOT l.alone;
  UPDATE nextdue_task SET
    lane = (
      SELECT twin.id FROM nextdue_lane l CROSS JOIN nextdue_lane twin
        ON twin.queue = l.queue AND twin.name = l.name AND twin.priority = l.priority AND twin.alone = coalesce(s.alone, l.alone)
      WHERE l.id = nextdue_task.lane),
    due = min({now} + s.delay + (s.delay > 0), {max}),
    rest = s.rest, token = NULL,
    attempts = coalesce(s.attempts, nextdue_task.attempts), crashes = coalesce(s.crashes, nextdue_task.crashes),
    reason = coalesce(s.reason, nextdue_task.reason), message = coalesce(s.message, nextdue_task.message),
    gone_at = CASE WHEN s.rest = 'done' THEN min({now} + coalesce(remember, 0), {max}) END
  FROM nextdue_settled s WHERE nextdue_task.id = s.id AND NOT s.forget;

  -- Purge at most twice what was settled: history by count and age, tombstones by their end.
  DELETE FROM nextdue_run WHERE id <= (
    SELECT max(id) FROM (
      SELECT id, ended FROM nextdue_run ORDER BY id LIMIT 2 * (SELECT count(*) FROM nextdue_settled))
    WHERE ended < {now} - NEW.keep_ms OR id <= (SELECT max(id) FROM nextdue_run) - NEW.keep_rows);
  DELETE FROM nextdue_task WHERE id IN (
    SELECT id FROM nextdue_task WHERE gone_at <= {now} LIMIT 2 * (SELECT count(*) FROM nextdue_settled));

  -- Renew, before any claim, all that this worker holds.
  UPDATE nextdue_task SET due = min({now} + o.lease, {max})
    FROM nextdue_open o
    WHERE {now} NOT BETWEEN NEW.renewed AND NEW.renewed + NEW.renew_every
      AND nextdue_task.token {mine} AND o.lane = nextdue_task.lane;

  -- Claim. The queue of this recursion holds the nearest row of each open lane: it merges them lazily, by
  -- priority and due, whatever the backlog. Two steps to the next row of a lane keep each an index seek.
  -- Rows with crashes are never claimed ahead; an expired lease only if it can be believed.
  INSERT INTO nextdue_claimed(id, taken, risky)
  SELECT id, taken, risky FROM (
    WITH RECURSIVE
    merged(rank, due, id, lane, lease, taken, risky) AS (
      SELECT CASE WHEN NEW.fair THEN 0 ELSE -o.priority END, t.due, t.id, o.lane, o.lease, t.token IS NOT NULL, t.crashes > 0
      FROM nextdue_open o CROSS JOIN nextdue_task t ON t.id = (
        SELECT n.id FROM nextdue_task n
        WHERE n.lane = o.lane AND n.due <= min({now}, coalesce(NEW.until, {max}))
          AND (n.token IS NULL OR o.lease <= {believed})
        ORDER BY n.due, n.id LIMIT 1)
      WHERE o.alone = NEW.alone
      UNION ALL
      SELECT m.rank, t.due, t.id, m.lane, m.lease, t.token IS NOT NULL, t.crashes > 0
      FROM merged m CROSS JOIN nextdue_task t ON t.id = coalesce(
        (SELECT n.id FROM nextdue_task n
         WHERE n.lane = m.lane AND n.due = m.due AND n.id > m.id AND (n.token IS NULL OR m.lease <= {believed})
         ORDER BY n.id LIMIT 1),
        (SELECT n.id FROM nextdue_task n
         WHERE n.lane = m.lane AND n.due > m.due AND n.due <= min({now}, coalesce(NEW.until, {max}))
           AND (n.token IS NULL OR m.lease <= {believed})
         ORDER BY n.due, n.id LIMIT 1))
      ORDER BY 1, 2, 3 LIMIT NEW.slots + NEW.ahead
    )
    SELECT id, taken, risky FROM merged
  );
  DELETE FROM nextdue_claimed WHERE place > NEW.slots AND (taken OR risky);
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, reason, message, worker)
    SELECT t.id, t.name, t.key, t.claims, t.scheduled_for, {now}, 'crashed', 'lease_expired',
      'its lease ended without a word from its worker', t.token >> 32
    FROM nextdue_claimed c CROSS JOIN nextdue_task t ON t.id = c.id
    WHERE c.taken AND NEW.keep_rows > 0;
  UPDATE nextdue_task SET
    due = min({now} + (SELECT o.lease FROM nextdue_open o WHERE o.lane = nextdue_task.lane), {max}),
    scheduled_for = coalesce(scheduled_for, due), crashes = crashes + (token IS NOT NULL), claims = claims + 1,
    token = NEW.token
  WHERE id IN (SELECT id FROM nextdue_claimed);
END;

-- A dead worker's rows fall due again after a short back-off that doubles with each crash.
CREATE TEMP VIEW nextdue_bury AS SELECT NULL AS now, NULL AS worker, NULL AS backoffs, NULL AS keep_rows;
CREATE TEMP TRIGGER nextdue_bury_do INSTEAD OF INSERT ON nextdue_bury
BEGIN
  INSERT OR REPLACE INTO nextdue_now VALUES (1, coalesce(NEW.now, {clock}), 0);
  DELETE FROM nextdue_buried;
  INSERT INTO nextdue_buried SELECT id FROM nextdue_task WHERE token {mine};
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, reason, message, worker)
    SELECT id, name, key, claims, scheduled_for, {now}, 'crashed', 'worker_died', 'its worker died', NEW.worker
    FROM nextdue_task WHERE token {mine} AND NEW.keep_rows > 0;
  UPDATE nextdue_task SET
    due = min({now} + (NEW.backoffs ->> min(crashes, json_array_length(NEW.backoffs) - 1)), {max}), token = NULL, crashes = crashes + 1,
    reason = 'worker_died', message = 'its worker died'
  WHERE token {mine};
  DELETE FROM nextdue_worker WHERE id = NEW.worker;
END

-- :name tick
INSERT INTO nextdue_tick(now, done, settlements, worker, token, slots, ahead, fair, alone, until, believed, expected, renewed,
  renew_every, keep_rows, keep_ms)
VALUES (:now, :done, :settlements, :worker, :token, :slots, :ahead, :fair, :alone, :until, :believed, :expected, :renewed,
  :renew_every, :keep_rows, :keep_ms)

-- What the tick did, as one row: each row more would be one return to Python more.
-- :name ticked
SELECT (SELECT now FROM nextdue_now),
  (SELECT json_group_array(json_array(
      t.id, t.token, t.name, t.args, t.key, t.attempts, t.crashes, t.claims, t.scheduled_for, :alone))
    FROM nextdue_claimed c CROSS JOIN nextdue_task t ON t.id = c.id WHERE t.token = :token),
  (SELECT count(*) FROM nextdue_settled),
  (SELECT min((
      SELECT n.due FROM nextdue_task n WHERE n.lane = o.lane AND n.due IS NOT NULL AND n.token IS NULL
      ORDER BY n.due LIMIT 1)) FROM nextdue_open o WHERE o.alone),
  (SELECT coalesce(max(id), 0) FROM nextdue_lane),
  :retries AND EXISTS (
    SELECT 1 FROM nextdue_settled s CROSS JOIN nextdue_task t ON t.id = s.id WHERE s.delay IS NOT NULL AND {nearest})

-- :name settled
SELECT json_group_array(json_array(id, token)) FROM nextdue_settled

-- :name held
SELECT json_group_array(json_array(id, token)) FROM nextdue_task
WHERE token BETWEEN :worker << 32 AND (:worker << 32) + 4294967295

-- :name bury
INSERT INTO nextdue_bury(now, worker, backoffs, keep_rows) VALUES (:now, :worker, :backoffs, :keep_rows)

-- :name buried
SELECT json_group_array(id) FROM nextdue_buried

-- :name serve_clear
DELETE FROM nextdue_open

-- :name serve
INSERT INTO nextdue_open
SELECT l.id, l.priority, n.value, l.alone FROM nextdue_lane l CROSS JOIN json_each(:leases) n ON n.key = l.name
WHERE :queues IS NULL OR l.queue IN (SELECT value FROM json_each(:queues))

-- :name lanes
SELECT coalesce(max(id), 0) FROM nextdue_lane

-- The nearest due of exactly the rows that a tick could claim; the same of those tried alone; and the shortest lease
-- among those that have expired but can't be believed yet.
-- :name look
SELECT coalesce(:now, {clock}),
  (SELECT min((
      SELECT n.due FROM nextdue_task n
      WHERE n.lane = o.lane AND n.due IS NOT NULL
        AND (n.token IS NULL OR o.lease <= :believed OR n.due > coalesce(:now, {clock}))
      ORDER BY n.due LIMIT 1)) FROM nextdue_open o WHERE NOT o.alone),
  (SELECT min((
      SELECT n.due FROM nextdue_task n
      WHERE n.lane = o.lane AND n.due IS NOT NULL
        AND (n.token IS NULL OR o.lease <= :believed OR n.due > coalesce(:now, {clock}))
      ORDER BY n.due LIMIT 1)) FROM nextdue_open o WHERE o.alone),
  (SELECT min(o.lease) FROM nextdue_task t CROSS JOIN nextdue_open o ON o.lane = t.lane
   WHERE t.token IS NOT NULL AND t.due <= coalesce(:now, {clock}) AND o.lease > :believed),
  (SELECT coalesce(max(id), 0) FROM nextdue_lane)

-- No lease may be longer than what was asked, as it is after a backward step of the clock; the living renew theirs.
-- :name cut_leases
UPDATE nextdue_task SET due = coalesce(:now, {clock}) + o.lease FROM nextdue_open o
WHERE o.lane = nextdue_task.lane AND nextdue_task.token IS NOT NULL
  AND nextdue_task.due > coalesce(:now, {clock}) + o.lease
  AND nextdue_task.token >> 32 NOT IN (SELECT value FROM json_each(:living))

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

-- The temporary objects of a caller's connection. A row that was put as the nearest of its lane touches the bell, which
-- shows in the count of changes: to ask afterwards would be a transaction more, a tenth of a put.
-- :name caller_setup
CREATE TEMP TABLE nextdue_bell(rung INTEGER NOT NULL);
INSERT INTO nextdue_bell VALUES (0);
CREATE TEMP TRIGGER nextdue_put_rings AFTER INSERT ON main.nextdue_task
WHEN NEW.remember IS NOT NULL AND (SELECT {nearest} FROM (SELECT NEW.id AS id, NEW.lane AS lane, NEW.due AS due) t)
BEGIN
  UPDATE nextdue_bell SET rung = rung + 1;
END;
CREATE TEMP TRIGGER nextdue_put_again_rings AFTER UPDATE OF created ON main.nextdue_task
WHEN (SELECT {nearest} FROM (SELECT NEW.id AS id, NEW.lane AS lane, NEW.due AS due) t)
BEGIN
  UPDATE nextdue_bell SET rung = rung + 1;
END;
CREATE TEMP VIEW nextdue_cancel AS SELECT NULL AS now, NULL AS id, NULL AS keep_rows;
CREATE TEMP TRIGGER nextdue_cancel_do INSTEAD OF INSERT ON nextdue_cancel
BEGIN
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome)
    SELECT id, name, key, claims, coalesce(scheduled_for, due), coalesce(NEW.now, {clock}), 'cancelled'
    FROM nextdue_task WHERE id = NEW.id AND (due IS NOT NULL OR rest IN ('held', 'dead')) AND token IS NULL AND NEW.keep_rows > 0;
  UPDATE nextdue_task SET
    due = NULL, rest = 'cancelled', gone_at = min(coalesce(NEW.now, {clock}) + coalesce(remember, 0), {max})
  WHERE id = NEW.id AND (due IS NOT NULL OR rest IN ('held', 'dead')) AND token IS NULL;
  DELETE FROM nextdue_task WHERE id = NEW.id AND rest = 'cancelled' AND key IS NULL;
END

-- :name cancel
INSERT INTO nextdue_cancel(now, id, keep_rows) VALUES (:now, :id, :keep_rows)
