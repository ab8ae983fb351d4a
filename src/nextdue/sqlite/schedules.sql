-- Schedules: each a row in nextdue_schedule, and one in nextdue_task of the same name and key. The words in braces are
-- explained in words.sql. Whatever moves a due is followed by a ring.

-- :define unfinished (token IS NOT NULL OR (rest IS 'held' AND reason IS 'in_doubt'))
-- :name schedules_setup
CREATE TEMP VIEW IF NOT EXISTS nextdue_declare AS
SELECT NULL AS now, NULL AS name, NULL AS key, NULL AS queue, NULL AS priority, NULL AS args, NULL AS plan, NULL AS source, NULL AS due,
  NULL AS slot, NULL AS remember;
-- Whoever declares what is there already changes nothing. A schedule that is another one now begins anew: a waiting row
-- at once, one whose occurrence isn't over with its next life.
CREATE TEMP TRIGGER IF NOT EXISTS nextdue_declare_do INSTEAD OF INSERT ON nextdue_declare
WHEN NOT EXISTS (
  SELECT 1 FROM nextdue_schedule g
    CROSS JOIN nextdue_task t ON t.name = g.name AND t.key = g.key CROSS JOIN nextdue_lane l ON l.id = t.lane
  WHERE g.name = NEW.name AND g.key = NEW.key AND g.plan = NEW.plan AND g.source IS NEW.source AND g.orphaned IS NULL
    AND coalesce(t.again_args, t.args) = NEW.args AND l.queue = NEW.queue AND l.priority = NEW.priority)
BEGIN
  INSERT OR IGNORE INTO nextdue_lane(queue, name, priority, alone) VALUES (NEW.queue, NEW.name, NEW.priority, 0);
  INSERT INTO nextdue_schedule(name, key, plan, source) VALUES (NEW.name, NEW.key, NEW.plan, NEW.source)
    ON CONFLICT(name, key) DO UPDATE SET plan = NEW.plan, source = NEW.source, orphaned = NULL,
      -- Of what runs and is another one's from now on, nothing is counted when it ends.
      fired = CASE WHEN plan = NEW.plan THEN fired + EXISTS (
        SELECT 1 FROM nextdue_task WHERE name = NEW.name AND key = NEW.key AND {unfinished} AND again_due IS NULL) ELSE 0 END,
      missed = CASE WHEN plan = NEW.plan THEN missed ELSE 0 END;
  -- By its slot, for the base of what follows is never a due with its jitter.
  UPDATE nextdue_task SET again_args = NEW.args, again_due = coalesce((
      SELECT NEW.slot FROM nextdue_schedule g
      WHERE g.name = NEW.name AND g.key = NEW.key AND coalesce(g.fired < g.plan ->> 'count', 1)), {max})
    WHERE name = NEW.name AND key = NEW.key AND {unfinished};
  INSERT INTO nextdue_task(lane, name, due, rest, key, args, remember, created, scheduled_for, wished, gone_at)
    SELECT l.id, NEW.name, CASE WHEN g.paused IS NULL THEN g.due END,
      CASE WHEN g.due IS NULL THEN 'done' WHEN g.paused IS NOT NULL THEN 'held' END, NEW.key, NEW.args, NEW.remember,
      NEW.now, NEW.slot, CASE WHEN g.paused IS NOT NULL THEN g.due END, CASE WHEN g.due IS NULL THEN {max} END
    FROM nextdue_lane l CROSS JOIN (
      SELECT paused, CASE WHEN coalesce(fired < plan ->> 'count', 1) THEN NEW.due END AS due
      FROM nextdue_schedule WHERE name = NEW.name AND key = NEW.key) g
    WHERE l.queue = NEW.queue AND l.name = NEW.name AND l.priority = NEW.priority AND l.alone = 0
    ON CONFLICT(name, key) WHERE key IS NOT NULL DO UPDATE SET
      lane = excluded.lane, due = excluded.due, rest = excluded.rest, args = excluded.args, created = excluded.created,
      scheduled_for = excluded.scheduled_for, wished = excluded.wished, gone_at = excluded.gone_at, attempts = 0, crashes = 0,
      reason = CASE WHEN excluded.rest = 'held' THEN 'paused' END, message = NULL, remember = excluded.remember,
      again_due = NULL, again_args = NULL
    WHERE NOT {unfinished};
END;
CREATE TEMP VIEW IF NOT EXISTS nextdue_scheduling AS
SELECT NULL AS now, NULL AS verb, NULL AS name, NULL AS key, NULL AS due, NULL AS slot;
-- The row of a schedule that is paused, or that no code declares any more, is held; one that runs is when it ends.
CREATE TEMP TRIGGER IF NOT EXISTS nextdue_scheduling_do INSTEAD OF INSERT ON nextdue_scheduling
BEGIN
  UPDATE nextdue_schedule SET
    paused = CASE NEW.verb WHEN 'pause' THEN coalesce(paused, NEW.now) WHEN 'resume' THEN NULL ELSE paused END,
    orphaned = CASE NEW.verb WHEN 'orphan' THEN coalesce(orphaned, NEW.now) ELSE orphaned END
  WHERE name = NEW.name AND key = NEW.key;
  UPDATE nextdue_task SET
    wished = coalesce(due, wished), due = NULL, rest = 'held', reason = iif(NEW.verb = 'pause', 'paused', 'orphaned')
  WHERE NEW.verb IN ('pause', 'orphan') AND name = NEW.name AND key = NEW.key AND token IS NULL
    AND (due IS NOT NULL OR rest IN ('blocked', 'waits'));
  -- An occurrence that came to a wait goes on with it; any other gives its place to the next one.
  UPDATE nextdue_task SET due = CASE WHEN NOT {waits} THEN max(coalesce(wished, 0), NEW.now) END, {resumed}
  WHERE NEW.verb = 'resume' AND name = NEW.name AND key = NEW.key AND rest = 'held' AND reason = 'paused' AND EXISTS (
    SELECT 1 FROM nextdue_mark m WHERE m.task = nextdue_task.id AND (m.until IS NOT NULL OR m.waits IS NOT NULL)
  ) AND EXISTS (SELECT 1 FROM nextdue_schedule WHERE name = NEW.name AND key = NEW.key AND orphaned IS NULL);
  UPDATE nextdue_task SET
    due = NEW.due, scheduled_for = NEW.slot, wished = NULL, reason = NULL, rest = CASE WHEN NEW.due IS NULL THEN 'done' END,
    gone_at = CASE WHEN NEW.due IS NULL THEN {max} END, attempts = 0, crashes = 0,
    args = coalesce(again_args, args), again_due = NULL, again_args = NULL
  WHERE NEW.verb = 'resume' AND name = NEW.name AND key = NEW.key AND rest = 'held' AND reason = 'paused' AND EXISTS (
    SELECT 1 FROM nextdue_schedule WHERE name = NEW.name AND key = NEW.key AND orphaned IS NULL);
  DELETE FROM nextdue_schedule WHERE NEW.verb = 'remove' AND name = NEW.name AND key = NEW.key;
  DELETE FROM nextdue_task WHERE NEW.verb = 'remove' AND name = NEW.name AND key = NEW.key AND token IS NULL;
END

-- :name declare
INSERT INTO nextdue_declare(now, name, key, queue, priority, args, plan, source, due, slot, remember)
SELECT {instant}, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
  value ->> 8, {max}
FROM json_each(:rows)

-- :name schedules
SELECT g.name, g.key, g.plan, g.source, g.fired, g.last, g.missed, g.missed_ever, g.paused, g.orphaned,
  t.id, t.args, coalesce(t.due, t.wished), t.scheduled_for, t.token IS NOT NULL, t.rest, t.attempts, t.reason, t.message, l.queue, l.priority
FROM nextdue_schedule g LEFT JOIN nextdue_task t ON t.name = g.name AND t.key = g.key LEFT JOIN nextdue_lane l ON l.id = t.lane
WHERE (:name IS NULL OR g.name = :name) AND (:key IS NULL OR g.key = :key)
  AND (NOT :declared OR g.source IS NOT NULL)
ORDER BY g.name, g.key

-- :name scheduling
INSERT INTO nextdue_scheduling(now, verb, name, key, due, slot) VALUES ({instant}, :verb, :name, :key, :due, :slot)
