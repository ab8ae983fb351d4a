-- Limits and rates: parts of a worker's tick for tasks that have one. The words in braces are explained in words.sql and
-- worker.sql.

-- :name limits_setup
-- A row of this group came to its end: of each lane as many blocked ones as may run are due again, in the order of
-- their dues. (Of each, for nobody may serve the lane of the first.) Nothing is counted that could be miscounted: what
-- runs is what has a token. Who doesn't know the limit lets one follow each that ended.
CREATE TEMP VIEW nextdue_freed AS SELECT NULL AS name, NULL AS grp;
CREATE TEMP TRIGGER nextdue_freed_do INSTEAD OF INSERT ON nextdue_freed
BEGIN
  UPDATE nextdue_task SET {unblocked} WHERE id IN (
    SELECT b.id FROM nextdue_lane l CROSS JOIN nextdue_task b ON b.id IN (
      SELECT n.id FROM nextdue_task n
      WHERE n.name = NEW.name AND n.grp = NEW.grp AND n.due IS NULL AND n.lane = l.id AND n.wished IS NOT NULL AND n.rest = 'blocked'
      ORDER BY n.wished, n.id
      LIMIT coalesce(
        (SELECT max(0, coalesce(most, 1 << 40) - (
            SELECT count(*) FROM nextdue_task r WHERE r.name = NEW.name AND r.grp = NEW.grp AND r.token IS NOT NULL))
          FROM nextdue_limit WHERE name = NEW.name),
        (SELECT count(*) FROM nextdue_settled s WHERE s.name = NEW.name AND s.grp = NEW.grp)))
    WHERE l.name = NEW.name);
END;

-- A row of a task with a limit or a rate wants to be claimed, and mayn't. If its group runs as many as it may, the row is
-- set aside; if its rate forbids it, the row gets the next free slot as its due. In both cases it takes those behind it
-- along, so that they stand in nobody's way.
CREATE TEMP TABLE nextdue_behind(place INTEGER PRIMARY KEY, id INTEGER NOT NULL);
CREATE TEMP VIEW nextdue_refused AS
SELECT NULL AS id, NULL AS token, NULL AS lease, NULL AS name, NULL AS grp, NULL AS most, NULL AS rate;
CREATE TEMP TRIGGER nextdue_refused_do INSTEAD OF INSERT ON nextdue_refused
BEGIN
  DELETE FROM nextdue_behind;
  -- What had the last slots may have been cancelled: they are given out again.
  UPDATE nextdue_rate SET tail = coalesce((
    SELECT max(t.due) FROM nextdue_task t
    WHERE t.name = NEW.name AND t.grp = NEW.grp AND t.due > {now} AND t.due <= nextdue_rate.tail AND t.token IS NULL),
    free - NEW.rate)
  WHERE NEW.rate IS NOT NULL AND name = NEW.name AND grp = NEW.grp AND tail > {now};
  INSERT INTO nextdue_behind(id) SELECT NEW.id;
  INSERT INTO nextdue_behind(id)
    SELECT t.id FROM (
      SELECT * FROM (
        SELECT b.id FROM nextdue_task b
        WHERE b.name = NEW.name AND b.grp = NEW.grp AND b.due <= {now} AND b.token IS NULL
        ORDER BY b.due LIMIT 1000)
      UNION SELECT * FROM (
        SELECT b.id FROM nextdue_task b
        WHERE NEW.grp = '' AND b.grp IS NULL AND b.lane = (SELECT n.lane FROM nextdue_task n WHERE n.id = NEW.id)
          AND b.due <= {now} AND b.token IS NULL
        ORDER BY b.due LIMIT 1000 * (NEW.grp = ''))) u
      CROSS JOIN nextdue_task t ON t.id = u.id
    WHERE t.id <> NEW.id ORDER BY t.due, t.id;
  UPDATE nextdue_task SET wished = due, due = NULL, rest = 'blocked', grp = NEW.grp
  WHERE (SELECT count(*) FROM nextdue_task r WHERE r.name = NEW.name AND r.grp = NEW.grp AND r.token IS NOT NULL) >= NEW.most
    AND id IN (SELECT id FROM nextdue_behind);
  DELETE FROM nextdue_behind WHERE (SELECT t.due FROM nextdue_task t WHERE t.id = NEW.id) IS NULL;
  UPDATE nextdue_task SET grp = NEW.grp, due = min(max(r.free, r.tail + NEW.rate) + NEW.rate * (b.place - 1), {max})
  FROM nextdue_behind b CROSS JOIN nextdue_rate r ON r.name = NEW.name AND r.grp = NEW.grp
  WHERE nextdue_task.id = b.id;
  UPDATE nextdue_rate SET tail = max(free, tail + NEW.rate) + NEW.rate * ((SELECT max(place) FROM nextdue_behind) - 1)
  WHERE name = NEW.name AND grp = NEW.grp AND EXISTS (SELECT 1 FROM nextdue_behind);
END;

-- Such a row is claimed, or refused. Most are claimed, so what is done with the others stands apart.
CREATE TEMP VIEW nextdue_admit AS
SELECT NULL AS id, NULL AS token, NULL AS lease, NULL AS name, NULL AS grp, NULL AS most, NULL AS rate;
CREATE TEMP TRIGGER nextdue_admit_do INSTEAD OF INSERT ON nextdue_admit
WHEN EXISTS (SELECT 1 FROM nextdue_task t WHERE t.id = NEW.id AND t.due <= {now} AND t.token IS NULL)
BEGIN
  -- No slot is further away than this, unless the clock was set back or the rate is another: then it begins anew.
  UPDATE nextdue_rate SET free = {now}, tail = {now} WHERE name = NEW.name AND grp = NEW.grp AND free > {now} + NEW.rate;
  UPDATE nextdue_task SET grp = NEW.grp,
    due = min({now} + NEW.lease, {max}), scheduled_for = coalesce(scheduled_for, due), claims = claims + 1, token = NEW.token
  WHERE id = NEW.id
    AND (NEW.most IS NULL
      OR (SELECT count(*) FROM nextdue_task r WHERE r.name = NEW.name AND r.grp = NEW.grp AND r.token IS NOT NULL) < NEW.most)
    AND (NEW.rate IS NULL OR NOT EXISTS (
      SELECT 1 FROM nextdue_rate r WHERE r.name = NEW.name AND r.grp = NEW.grp AND r.free > {now}));
  INSERT INTO nextdue_refused
    SELECT NEW.id, NEW.token, NEW.lease, NEW.name, NEW.grp, NEW.most, NEW.rate
    WHERE (SELECT t.token FROM nextdue_task t WHERE t.id = NEW.id) IS NULL;
  -- A little late is no reason to run late for ever: slots follow each other by the rate, not by the starts.
  INSERT INTO nextdue_rate(name, grp, free, tail)
    SELECT NEW.name, NEW.grp, {now} + NEW.rate, {now}
    FROM nextdue_task t WHERE t.id = NEW.id AND t.token = NEW.token AND NEW.rate IS NOT NULL
    ON CONFLICT(name, grp) DO UPDATE SET
      free = CASE WHEN excluded.tail - free < NEW.rate THEN free + NEW.rate ELSE excluded.free END,
      tail = max(tail, excluded.tail);
END;

-- At the start, for a limit may be another than it was: what may run now; and rates that say nothing any more: their
-- group has none now, or they are older than the slowest rate, one a day.
-- :name unblock
INSERT INTO nextdue_freed
SELECT DISTINCT name, grp FROM nextdue_task
WHERE rest = 'blocked' AND grp IS NOT NULL AND name IN (SELECT key FROM json_each(:names)) AND due IS NULL

-- :name forget_rates
DELETE FROM nextdue_rate WHERE max(free, tail) < {instant} - {slowest}
  OR coalesce(
    (SELECT s.rate FROM nextdue_special s WHERE s.name = nextdue_rate.name AND s.grp = nextdue_rate.grp),
    (SELECT coalesce(l.rate, 0) FROM nextdue_limit l WHERE l.name = nextdue_rate.name)) = 0

-- A clock that was ahead has given away starts that are further off than one rate. They come, with what waits for them,
-- as near as the first may be now.
-- :define pace coalesce((SELECT s.rate FROM nextdue_special s WHERE s.name = r.name AND s.grp = r.grp), (SELECT l.rate FROM nextdue_limit l WHERE l.name = r.name))
-- :name cut_slots
UPDATE nextdue_task SET due = due + {instant} - (
  SELECT r.free FROM nextdue_rate r WHERE r.name = nextdue_task.name AND r.grp = nextdue_task.grp)
WHERE id IN (
  SELECT t.id FROM nextdue_rate r CROSS JOIN nextdue_task t ON t.name = r.name AND t.grp = r.grp
  WHERE r.free > {instant} + {pace} AND t.due BETWEEN r.free AND r.tail AND t.token IS NULL)

-- :name cut_rates
UPDATE nextdue_rate AS r SET free = {instant}, tail = tail - free + {instant} WHERE free > {instant} + {pace}
