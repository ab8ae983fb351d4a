-- The verbs of those who put tasks. The words in braces are explained in words.sql, those of one put below.
-- A delay counts from now, which is cut to ms: + 1, or it would be early.
-- :define wanted min(coalesce(:due, {instant} + :delay + (:delay > 0)), {max})
-- :define expiry min(coalesce(:expires, {instant} + :expires_in), {max})
-- :define lane (SELECT id FROM nextdue_lane WHERE queue = :queue AND name = :name AND priority = :priority AND alone = 0)

-- :name lane_add
INSERT OR IGNORE INTO nextdue_lane(queue, name, priority, alone) VALUES (:queue, :name, :priority, 0)

-- Some tasks, each as [queue, name, priority, due, delay, expires, expires_in, grp, args]. A lane that isn't there is
-- NULL, which the table refuses; then lane_add makes it. No process remembers lanes, for the file may be restored.
-- :name put
INSERT INTO nextdue_task(lane, name, due, args, remember, created, expires, grp)
SELECT l.id, r.name,
  min(coalesce(r.due, {instant} + r.delay + (r.delay > 0)), {max}),
  r.args, 0, {instant},
  min(coalesce(r.expires, {instant} + r.expires_in), {max}), r.grp
FROM (
  SELECT value ->> 0 AS queue, value ->> 1 AS name, value ->> 2 AS priority, value ->> 3 AS due, value ->> 4 AS delay,
    value ->> 5 AS expires, value ->> 6 AS expires_in, value ->> 7 AS grp, value -> 8 AS args
  FROM json_each(:rows)
) r
LEFT JOIN nextdue_lane l ON l.queue = r.queue AND l.name = r.name AND l.priority = r.priority AND l.alone = 0

-- Tasks that differ in their arguments only: :calls is a JSON array of them. Only the first can be the nearest of its
-- lane, so the others leave `remember` NULL, by which the bell knows them.
-- :name put_many
INSERT INTO nextdue_task(lane, name, due, args, remember, created, expires, grp)
SELECT {lane}, :name, {wanted}, value, CASE WHEN key = 0 THEN 0 END, {instant}, {expiry}, :grp
FROM json_each(:calls)

-- :name bell
SELECT rung FROM nextdue_bell

-- The temporary objects of a caller's connection. A row that was put as the nearest of its lane touches the bell, which
-- shows in the count of changes: to ask afterwards would be a transaction more, a tenth of a put.
-- :name caller_setup
CREATE TEMP TABLE nextdue_bell(rung INTEGER NOT NULL);
INSERT INTO nextdue_bell VALUES (0);
CREATE TEMP TRIGGER nextdue_put_rings AFTER INSERT ON main.nextdue_task
WHEN NEW.remember = 0 AND NEW.key IS NULL AND (SELECT {nearest} FROM (SELECT NEW.id AS id, NEW.lane AS lane, NEW.due AS due) t)
BEGIN
  UPDATE nextdue_bell SET rung = rung + 1;
END;
-- A task with a key: what becomes of it goes by what holds the key, in one step for each case. `before` tells it
-- afterwards; 'over' is what may begin a new life.
CREATE TEMP TABLE nextdue_kept(
  one INTEGER PRIMARY KEY, now INTEGER NOT NULL, due INTEGER NOT NULL, lane INTEGER, expires INTEGER, id INTEGER, before TEXT,
  ring INTEGER NOT NULL DEFAULT 0);
-- A row that was free to run leaves its place: one of each lane that were set aside behind it is due again. If their
-- group runs as many as it may, the next tick sets it aside once more.
CREATE TEMP VIEW nextdue_next AS SELECT NULL AS id;
CREATE TEMP TRIGGER nextdue_next_do INSTEAD OF INSERT ON nextdue_next
BEGIN
  UPDATE nextdue_task SET {unblocked} WHERE id IN (
    SELECT {first_blocked} FROM nextdue_task t CROSS JOIN nextdue_lane l ON l.name = t.name
    WHERE t.id = NEW.id AND t.due IS NOT NULL AND t.token IS NULL AND t.grp IS NOT NULL);
END;
CREATE TEMP VIEW nextdue_put AS
SELECT NULL AS now, NULL AS queue, NULL AS name, NULL AS priority, NULL AS due, NULL AS delay, NULL AS key, NULL AS remember,
  NULL AS args, NULL AS mode, NULL AS latest, NULL AS expires, NULL AS expires_in, NULL AS grp;
CREATE TEMP TRIGGER nextdue_put_do INSTEAD OF INSERT ON nextdue_put
BEGIN
  INSERT OR REPLACE INTO nextdue_kept(one, now, due, lane, expires, id, before)
    SELECT 1, n.now, min(coalesce(NEW.due, n.now + NEW.delay + (NEW.delay > 0)), {max}),
      (SELECT l.id FROM nextdue_lane l
       WHERE l.queue = NEW.queue AND l.name = NEW.name AND l.priority = NEW.priority AND l.alone = 0),
      min(coalesce(NEW.expires, n.now + NEW.expires_in), {max}),
      t.id,
      CASE
        WHEN t.rest IN ('dead', 'cancelled') THEN 'over'
        -- A tombstone guards against the same task twice; who asks for a change or for another run has a reason.
        WHEN t.rest = 'done' AND (t.gone_at <= n.now OR NEW.mode NOT IN ('ignore', 'reject')) THEN 'over'
        ELSE {state} END
    FROM (SELECT coalesce(NEW.now, {clock}) AS now) n LEFT JOIN nextdue_task t ON t.name = NEW.name AND t.key = NEW.key;
  INSERT INTO nextdue_task(lane, name, due, key, args, remember, created, latest, expires, grp)
    SELECT k.lane, NEW.name, k.due, NEW.key, NEW.args, NEW.remember, k.now, min(k.now + NEW.latest, {max}), k.expires, NEW.grp
    FROM nextdue_kept k WHERE k.before IS NULL;
  DELETE FROM nextdue_mark WHERE task = (SELECT k.id FROM nextdue_kept k WHERE k.before = 'over');
  UPDATE nextdue_task SET
    lane = k.lane, due = k.due, rest = NULL, args = NEW.args, remember = NEW.remember, created = k.now, attempts = 0,
    crashes = 0, claims = 0, scheduled_for = NULL, gone_at = NULL, reason = NULL, message = NULL, wished = NULL,
    again_due = NULL, again_args = NULL, latest = min(k.now + NEW.latest, {max}), expires = k.expires, grp = NEW.grp
  FROM nextdue_kept k WHERE k.before = 'over' AND nextdue_task.id = k.id;
  -- One that waits: what it does is the newest wish; when, by the mode. Set aside by a limit, it has a wish instead of a due.
  -- A next life that was asked for before, while it ran, is this one now. A slot of its rate is kept unless it is put off.
  -- Who leaves its group leaves its place there, set aside or not.
  INSERT INTO nextdue_next SELECT k.id FROM nextdue_kept k CROSS JOIN nextdue_task t ON t.id = k.id
    WHERE k.before = 'waiting'
      AND (NEW.mode IN ('replace', 'extend') OR (NEW.mode = 'earliest' AND t.grp IS NOT NEW.grp));
  UPDATE nextdue_task SET
    due = CASE WHEN nextdue_task.due IS NOT NULL OR k.moves THEN k.at END,
    rest = CASE WHEN NOT k.moves THEN rest END,
    wished = CASE WHEN nextdue_task.due IS NULL AND NOT k.moves THEN k.at END,
    grp = NEW.grp,
    lane = CASE WHEN NEW.mode = 'replace' THEN k.lane ELSE nextdue_task.lane END,
    args = NEW.args, expires = k.expires, again_due = NULL, again_args = NULL,
    attempts = CASE WHEN NEW.mode = 'replace' THEN 0 ELSE attempts END,
    crashes = CASE WHEN args IS NOT NEW.args THEN min(crashes, {last_try}) ELSE crashes END,
    scheduled_for = CASE WHEN NEW.mode = 'replace' THEN NULL ELSE scheduled_for END
  FROM (
    SELECT k.*, t.grp IS NOT NEW.grp AND t.rest IS NOT 'waits' AS moves, CASE
      WHEN k.due < t.due AND t.grp IS NEW.grp AND EXISTS (
        SELECT 1 FROM nextdue_rate r WHERE r.name = t.name AND r.grp = t.grp AND t.due > k.now AND t.due <= r.tail
          AND r.free <= k.now + {slowest}) THEN t.due
      WHEN NEW.mode = 'replace' THEN k.due
      WHEN NEW.mode = 'earliest' THEN min(k.due, coalesce(t.due, t.wished))
      ELSE min(max(k.due, coalesce(t.due, t.wished)), max(coalesce(t.latest, {max}), coalesce(t.due, t.wished))) END AS at
    FROM nextdue_kept k CROSS JOIN nextdue_task t ON t.id = k.id) k
  WHERE k.before = 'waiting' AND NEW.mode IN ('replace', 'earliest', 'extend') AND nextdue_task.id = k.id;
  -- One that runs has read its arguments: the wish is for its next life, which begins when this attempt is settled.
  UPDATE nextdue_task SET
    latest = CASE WHEN again_due IS NULL THEN min(k.now + NEW.latest, {max}) ELSE latest END,
    again_args = NEW.args, expires = k.expires, again_grp = NEW.grp,
    again_due = CASE NEW.mode
      WHEN 'replace' THEN k.due
      WHEN 'extend' THEN min(max(k.due, coalesce(again_due, k.due)),
        CASE WHEN again_due IS NULL THEN coalesce(k.now + NEW.latest, {max}) ELSE coalesce(latest, {max}) END)
      ELSE min(k.due, coalesce(again_due, k.due)) END
  FROM nextdue_kept k
  WHERE k.before = 'running' AND NEW.mode IN ('replace', 'earliest', 'extend', 'again') AND nextdue_task.id = k.id;
  UPDATE nextdue_kept SET id = coalesce(id, (SELECT t.id FROM nextdue_task t WHERE t.name = NEW.name AND t.key = NEW.key));
  UPDATE nextdue_kept SET ring = 1
    WHERE (before IS NULL OR before = 'over' OR (before = 'waiting' AND NEW.mode IN ('replace', 'earliest', 'extend')))
      AND EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = nextdue_kept.id AND (t.grp IS NOT NULL OR {nearest}));
END;
CREATE TEMP VIEW nextdue_cancel AS SELECT NULL AS now, NULL AS id, NULL AS keep_rows;
CREATE TEMP TRIGGER nextdue_cancel_do INSTEAD OF INSERT ON nextdue_cancel
BEGIN
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome)
    SELECT id, name, key, claims, coalesce(scheduled_for, due, wished), coalesce(NEW.now, {clock}), 'cancelled'
    FROM nextdue_task WHERE id = NEW.id AND (due IS NOT NULL OR rest IN ('held', 'dead', 'blocked', 'waits')) AND token IS NULL AND {plain} AND NEW.keep_rows > 0;
  INSERT INTO nextdue_next SELECT id FROM nextdue_task WHERE id = NEW.id AND {plain};
  UPDATE nextdue_task SET
    due = NULL, rest = 'cancelled', wished = NULL, again_due = NULL, again_args = NULL, gone_at = min(coalesce(NEW.now, {clock}) + coalesce(remember, 0), {max})
  WHERE id = NEW.id AND (due IS NOT NULL OR rest IN ('held', 'dead', 'blocked', 'waits')) AND token IS NULL AND {plain};
  DELETE FROM nextdue_task WHERE id = NEW.id AND rest = 'cancelled' AND key IS NULL;
  -- A running one is asked to stop, and its next life is off; but not that of a schedule, which has become another one.
  UPDATE nextdue_task SET stop = coalesce(stop, NEW.now, {clock}),
    again_due = CASE WHEN NOT {plain} THEN again_due END, again_args = CASE WHEN NOT {plain} THEN again_args END
  WHERE id = NEW.id AND token IS NOT NULL;
END

-- Whoever takes a waiting row away lets those behind it follow.
-- :name follow
INSERT INTO nextdue_next VALUES (:id)

-- :name put_keyed
INSERT INTO nextdue_put(now, queue, name, priority, due, delay, key, remember, args, mode, latest, expires, expires_in, grp)
VALUES (:now, :queue, :name, :priority, :due, :delay, :key, :remember, :args, :mode, :latest, :expires, :expires_in, :grp)

-- A run on demand: its key is that of all of them and the number of the period in which it is wished, at whose end it is
-- due; but no period whose run was begun, for that may have read what the wish is about before it was there.
-- :define number (SELECT max( coalesce(:due, {instant} + :delay) / :period, coalesce((SELECT max(CAST(substr(t.key, length(:key) + 2) AS INTEGER)) FROM nextdue_task t WHERE t.name = :name AND t.key > :key || '/' AND t.key < :key || '0' AND t.claims > 0), -1) + 1))
-- :name put_on_demand
INSERT INTO nextdue_put(now, queue, name, priority, due, delay, key, remember, args, mode, latest, expires, expires_in, grp)
SELECT :now, :queue, :name, :priority, min((n.number + 1) * :period, {max}), 0, :key || '/' || n.number, :remember, :args, 'ignore',
  NULL, :expires, :expires_in, :grp
FROM (SELECT {number} AS number) n

-- :name kept
SELECT id, before, ring, (SELECT rung FROM nextdue_bell) FROM nextdue_kept

-- :name cancel
INSERT INTO nextdue_cancel(now, id, keep_rows) VALUES (:now, :id, :keep_rows)
