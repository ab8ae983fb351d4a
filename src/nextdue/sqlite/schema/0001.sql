-- Every object is called nextdue_*: the file may be the user's own. No STRICT tables: one of them makes the whole
-- file unreadable for SQLite below 3.37. Rows are written only by the pages beside
-- this folder and by the view nextdue_tasks.

CREATE TABLE nextdue_meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- Queues and names at rest. nextdue_meta's `pauses` counts the changes, so that a tick by older lanes claims nothing.
CREATE TABLE nextdue_pause(
  kind TEXT NOT NULL CHECK (kind IN ('queue', 'name')), word TEXT NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY(kind, word)
) WITHOUT ROWID;

-- The slots of a task (and group) with a rate.
CREATE TABLE nextdue_rate(
  name TEXT NOT NULL, grp TEXT NOT NULL,
  free INTEGER NOT NULL,                   -- from when on the next one may start
  tail INTEGER NOT NULL,                   -- the last slot that was given out
  PRIMARY KEY(name, grp)
) WITHOUT ROWID;

CREATE TABLE nextdue_lane(
  id INTEGER PRIMARY KEY,
  queue TEXT NOT NULL, name TEXT NOT NULL, priority INTEGER NOT NULL,
  alone INTEGER NOT NULL DEFAULT 0,        -- 1: its tasks killed workers and are tried with nothing beside them
  UNIQUE(queue, name, priority, alone)
);

-- AUTOINCREMENT: numbers are never used again, so that an old token can't prove a new claim.
CREATE TABLE nextdue_worker(
  id INTEGER PRIMARY KEY AUTOINCREMENT, started INTEGER NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
  serves TEXT                              -- for people: a JSON array [names, queues], queues null = all of them
);

CREATE TABLE nextdue_task(
  id INTEGER PRIMARY KEY AUTOINCREMENT,    -- never used again: a handle means one task for ever
  lane INTEGER NOT NULL,
  name TEXT NOT NULL,
  due INTEGER CHECK (typeof(due) IN ('integer', 'null')),   -- UTC ms; of a running row: the end of its lease
  rest TEXT,                               -- why it isn't due: done, dead, cancelled, held, blocked (by its limit), waits
  key TEXT,
  args TEXT NOT NULL,                      -- a JSON array or object
  attempts INTEGER NOT NULL DEFAULT 0,     -- tries that ended in failure
  crashes INTEGER NOT NULL DEFAULT 0,      -- claims whose worker died, since the last success
  claims INTEGER NOT NULL DEFAULT 0,
  token INTEGER,                           -- of a running row: worker << 32 | n, the proof of the claim
  scheduled_for INTEGER,                   -- the due of the first claim
  created INTEGER NOT NULL,
  remember INTEGER,                        -- how long a finished row occupies its key, ms
  gone_at INTEGER,                         -- of a tombstone: when it ends
  reason TEXT, message TEXT,               -- of the last failure
  wished INTEGER,                          -- the due it had when it was set aside: blocked, waiting, paused
  again_due INTEGER, again_args TEXT, again_grp TEXT,      -- its next life, asked for while it runs
  latest INTEGER,                          -- to which extending may move its due at most
  expires INTEGER,                         -- not to be started after this
  grp TEXT,                                -- the group by which a limit or a rate counts it; '' = the whole task
  stop INTEGER,                            -- when a running row was asked to stop
  progress TEXT,                           -- what it said of itself: a JSON array [done, total, note]
  CHECK ((due IS NULL) = (rest IS NOT NULL)),
  CHECK (token IS NULL OR due IS NOT NULL)
);
-- What waits, by lane; and what runs, by the end of its lease. As one index it would cost each task two changes more.
CREATE INDEX nextdue_task_due ON nextdue_task(lane, due) WHERE due IS NOT NULL AND token IS NULL;
CREATE INDEX nextdue_task_lease ON nextdue_task(due, token) WHERE token IS NOT NULL;
CREATE UNIQUE INDEX nextdue_task_key ON nextdue_task(name, key) WHERE key IS NOT NULL;
CREATE INDEX nextdue_task_group ON nextdue_task(name, grp, due, wished) WHERE grp IS NOT NULL;
CREATE INDEX nextdue_task_blocked ON nextdue_task(name, grp, lane, wished) WHERE rest = 'blocked';
CREATE INDEX nextdue_task_running ON nextdue_task(name, grp) WHERE grp IS NOT NULL AND token IS NOT NULL;
-- By `stop`, which no claim changes: an index of the token would be asked at each of them.
CREATE INDEX nextdue_task_stop ON nextdue_task(stop) WHERE stop IS NOT NULL;
-- What waits for a person's decision, to be found and counted beside any number of other rows.
CREATE INDEX nextdue_task_rest ON nextdue_task(rest, name) WHERE rest IN ('dead', 'held');
CREATE INDEX nextdue_task_gone ON nextdue_task(gone_at) WHERE gone_at IS NOT NULL;

-- Schedules; each has one row in nextdue_task, of the same name and key.
CREATE TABLE nextdue_schedule(
  name TEXT NOT NULL, key TEXT NOT NULL,
  plan TEXT NOT NULL,                      -- JSON: the recurrence and what belongs to it
  source TEXT,                             -- the module that declares it; NULL: made at run time
  fired INTEGER NOT NULL DEFAULT 0,        -- occurrences that ended
  last INTEGER,                            -- the slot of the last of them
  missed INTEGER NOT NULL DEFAULT 0,       -- occurrences passed over since then
  missed_ever INTEGER NOT NULL DEFAULT 0,
  paused INTEGER,                          -- since when; likewise:
  orphaned INTEGER,                        -- its module no longer declares it
  PRIMARY KEY(name, key)
) WITHOUT ROWID;

-- What is known of a task besides its row: the steps that it made, what it waits for, how far it came. Marks belong to one
-- occurrence and go with it.
CREATE TABLE nextdue_mark(
  task INTEGER NOT NULL,
  label TEXT NOT NULL,                     -- of a step; '@after N', '@event NAME', '@sleep LABEL' and '@cursor' are none
  begun INTEGER NOT NULL,
  done INTEGER,                            -- NULL: in doubt, or still waited for
  result TEXT,                             -- JSON
  problem TEXT,                            -- why there is no result
  waits,                                   -- for what: a task (its id) or an event (its name)
  until INTEGER,                           -- and how long at most
  how TEXT,                                -- of a step in doubt: repeat, skip, hold; if the task waited for ends badly: hold, cancel
  PRIMARY KEY(task, label)
) WITHOUT ROWID;
CREATE INDEX nextdue_mark_waits ON nextdue_mark(waits) WHERE waits IS NOT NULL AND done IS NULL;
CREATE INDEX nextdue_mark_open ON nextdue_mark(task) WHERE waits IS NOT NULL AND done IS NULL;

CREATE TABLE nextdue_event(
  name TEXT PRIMARY KEY, data TEXT, sent INTEGER NOT NULL, gone_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX nextdue_event_gone ON nextdue_event(gone_at);

-- (`+`: else `waits`, which has no type, would be converted to that of an id, and its index be of no use.)
-- These six hold whoever changes a row, a person with SQL too. A row that ends takes its marks along, but for one that
-- may be retried, whose effects are out; another slot or other arguments are another occurrence. Before that has begun,
-- the tasks that it comes after are no matter of its arguments. (IN would make a table of its three words for each row.)
CREATE TRIGGER nextdue_task_deleted AFTER DELETE ON nextdue_task
WHEN EXISTS (SELECT 1 FROM nextdue_mark WHERE task = OLD.id)
  OR EXISTS (SELECT 1 FROM nextdue_mark WHERE waits = +OLD.id AND done IS NULL)
BEGIN
  DELETE FROM nextdue_mark WHERE task = OLD.id;
  UPDATE nextdue_mark SET problem = 'cancelled' WHERE waits = +OLD.id AND done IS NULL AND problem IS NULL;
END;
CREATE TRIGGER nextdue_task_over AFTER UPDATE OF args, rest ON nextdue_task
WHEN NEW.rest = 'done' OR NEW.rest = 'dead' OR NEW.rest = 'cancelled' OR NEW.scheduled_for IS NOT OLD.scheduled_for OR NEW.args IS NOT OLD.args
BEGIN
  DELETE FROM nextdue_mark WHERE task = NEW.id AND (
    NEW.rest IS 'done' OR NEW.scheduled_for IS NOT OLD.scheduled_for
    OR (NEW.args IS NOT OLD.args AND NOT (OLD.scheduled_for IS NULL AND label LIKE '@after %')));
  UPDATE nextdue_mark SET problem = NEW.rest
    WHERE waits = +NEW.id AND done IS NULL AND NEW.rest IN ('dead', 'cancelled') AND OLD.rest IS NOT NEW.rest;
  -- What waited in its other life waits for nothing now.
  UPDATE nextdue_task SET due = coalesce(wished, created), wished = NULL, rest = NULL
    WHERE NEW.rest = 'waits' AND id = NEW.id AND rest = 'waits' AND NOT EXISTS (
      SELECT 1 FROM nextdue_mark m INDEXED BY nextdue_mark_open WHERE m.task = NEW.id AND m.waits IS NOT NULL AND m.done IS NULL);
END;
-- It may wait for what has ended badly already.
CREATE TRIGGER nextdue_task_waits AFTER UPDATE OF rest ON nextdue_task
WHEN NEW.rest IS 'waits'
BEGIN
  UPDATE nextdue_mark SET problem = problem WHERE task = NEW.id AND done IS NULL AND problem IS NOT NULL;
END;
-- Whoever starts a held or cancelled task all the same has it wait for no other task any more.
CREATE TRIGGER nextdue_task_anyway AFTER UPDATE OF rest ON nextdue_task
WHEN NEW.rest IS NULL AND OLD.rest IN ('held', 'cancelled')
BEGIN
  UPDATE nextdue_mark SET done = NEW.due, problem = coalesce(problem, 'waived')
    WHERE task = NEW.id AND label LIKE '@after %' AND done IS NULL;
END;
-- What a task waited for has come: it is due if that was the last of it.
CREATE TRIGGER nextdue_mark_done AFTER UPDATE OF done ON nextdue_mark
WHEN NEW.waits IS NOT NULL AND OLD.done IS NULL AND NEW.done IS NOT NULL
BEGIN
  UPDATE nextdue_task SET
    due = CASE WHEN due IS NULL THEN max(coalesce(wished, 0), NEW.done) ELSE min(due, NEW.done) END,
    wished = NULL, reason = CASE WHEN rest = 'held' THEN NULL ELSE reason END,
    message = CASE WHEN rest = 'held' THEN NULL ELSE message END, rest = NULL
  WHERE id = NEW.task AND token IS NULL
    AND (rest = 'waits' OR (rest = 'held' AND reason = 'parent') OR (due IS NOT NULL AND NEW.until IS NOT NULL))
    AND NOT EXISTS (SELECT 1 FROM nextdue_mark m INDEXED BY nextdue_mark_open
      WHERE m.task = NEW.task AND m.waits IS NOT NULL AND m.done IS NULL);
  UPDATE nextdue_task SET wished = min(wished, NEW.done)
    WHERE id = NEW.task AND rest = 'held' AND reason = 'paused' AND NEW.until IS NOT NULL;
END;
-- A task that it was to come after will never be done. What is to be cancelled is due, so that a worker says so in the
-- history, as for any other that was asked to stop.
CREATE TRIGGER nextdue_mark_failed AFTER UPDATE OF problem ON nextdue_mark
WHEN NEW.waits IS NOT NULL AND NEW.done IS NULL AND NEW.problem IS NOT NULL
BEGIN
  UPDATE nextdue_task SET
    due = CASE WHEN NEW.how = 'cancel' THEN created END, stop = CASE WHEN NEW.how = 'cancel' THEN created END,
    rest = CASE WHEN NEW.how IS NOT 'cancel' THEN 'held' END,
    reason = 'parent', message = 'task #' || NEW.waits || ', which it comes after, is ' || NEW.problem
  WHERE id = NEW.task AND rest = 'waits';
END;

CREATE TABLE nextdue_run(
  id INTEGER PRIMARY KEY,
  task INTEGER NOT NULL, name TEXT NOT NULL, key TEXT, claim INTEGER NOT NULL, scheduled_for INTEGER,
  started INTEGER, ended INTEGER NOT NULL,
  outcome TEXT NOT NULL, reason TEXT, message TEXT, result TEXT, worker INTEGER,
  keep INTEGER                             -- its result is kept until then, whatever the history's bounds
);
CREATE INDEX nextdue_run_task ON nextdue_run(task);

-- Results that outlive their line of the history.
CREATE TABLE nextdue_result(
  task INTEGER PRIMARY KEY, name TEXT NOT NULL, key TEXT, result TEXT NOT NULL, keep INTEGER NOT NULL
);
CREATE INDEX nextdue_result_keep ON nextdue_result(keep);

-- What any program with SQL may read and, through the trigger, write.
CREATE VIEW nextdue_tasks AS
SELECT t.id, t.name, l.queue, l.priority,
  CASE WHEN t.token IS NOT NULL THEN 'running' WHEN t.due IS NOT NULL OR t.rest IN ('blocked', 'waits') THEN 'waiting' ELSE t.rest END AS state,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.due / 1000.0, 'unixepoch') AS due_utc, t.due AS due_ms,
  t.key, t.args, t.attempts, t.crashes, t.claims,
  t.scheduled_for AS scheduled_for_ms, t.created AS created_ms, t.reason, t.message
FROM nextdue_task t LEFT JOIN nextdue_lane l ON l.id = t.lane;

CREATE VIEW nextdue_runs AS
SELECT task, name, key, claim, outcome, reason, message, result, worker,
  strftime('%Y-%m-%dT%H:%M:%fZ', started / 1000.0, 'unixepoch') AS started_utc,
  strftime('%Y-%m-%dT%H:%M:%fZ', ended / 1000.0, 'unixepoch') AS ended_utc,
  scheduled_for AS scheduled_for_ms, started AS started_ms, ended AS ended_ms
FROM nextdue_run;

-- INSERT INTO nextdue_tasks(name, args, due_utc, key) puts a task from any program; due_utc NULL = now.
CREATE TRIGGER nextdue_tasks_insert INSTEAD OF INSERT ON nextdue_tasks
BEGIN
  SELECT CASE
    WHEN typeof(NEW.name) <> 'text' OR length(NEW.name) NOT BETWEEN 1 AND 200
      THEN RAISE(ABORT, 'nextdue_tasks: name must be a text of 1 to 200 characters')
    WHEN NEW.key IS NOT NULL AND (typeof(NEW.key) <> 'text' OR length(NEW.key) NOT BETWEEN 1 AND 200)
      THEN RAISE(ABORT, 'nextdue_tasks: key must be a text of 1 to 200 characters')
    WHEN substr(NEW.key, 1, 1) = '@'
      THEN RAISE(ABORT, 'nextdue_tasks: key must not begin with @, as those of schedules do')
    WHEN instr(NEW.name, char(0)) OR instr(NEW.key, char(0)) OR instr(NEW.queue, char(0)) OR instr(NEW.args, char(0))
      THEN RAISE(ABORT, 'nextdue_tasks: name, key, queue and args must not contain a NUL character')
    WHEN NEW.queue IS NOT NULL AND (typeof(NEW.queue) <> 'text' OR length(NEW.queue) NOT BETWEEN 1 AND 200)
      THEN RAISE(ABORT, 'nextdue_tasks: queue must be a text of 1 to 200 characters')
    WHEN coalesce(NEW.id, NEW.state, NEW.due_ms, NEW.attempts, NEW.crashes, NEW.claims, NEW.scheduled_for_ms,
        NEW.created_ms, NEW.reason, NEW.message) IS NOT NULL
      THEN RAISE(ABORT, 'nextdue_tasks: only name, args, due_utc, key, queue and priority can be given')
    WHEN typeof(coalesce(NEW.args, '[]')) <> 'text'
      THEN RAISE(ABORT, 'nextdue_tasks: args must be a JSON array or object')
    WHEN length(CAST(NEW.args AS BLOB)) > 1048576 THEN RAISE(ABORT, 'nextdue_tasks: args are over 1 MiB')
    WHEN NOT json_valid(coalesce(NEW.args, '[]')) OR json_type(coalesce(NEW.args, '[]')) NOT IN ('array', 'object')
      THEN RAISE(ABORT, 'nextdue_tasks: args must be a JSON array or object')
    WHEN NEW.due_utc IS NOT NULL AND (typeof(NEW.due_utc) <> 'text' OR julianday(NEW.due_utc) IS NULL
        OR julianday(NEW.due_utc) < 2440587.5
          OR date(substr(NEW.due_utc, 1, 10), '+0 days') IS NOT substr(NEW.due_utc, 1, 10))
      THEN RAISE(ABORT, 'nextdue_tasks: due_utc must be a text like 2026-12-01T09:00:00Z')
    WHEN typeof(coalesce(NEW.priority, 0)) <> 'integer' OR coalesce(NEW.priority, 0) NOT BETWEEN -100 AND 100
      THEN RAISE(ABORT, 'nextdue_tasks: priority must be a whole number from -100 to 100')
    END;
  INSERT OR IGNORE INTO nextdue_lane(queue, name, priority, alone)
    VALUES (coalesce(NEW.queue, 'default'), NEW.name, coalesce(NEW.priority, 0), 0);
  DELETE FROM nextdue_mark WHERE task = (
    SELECT t.id FROM nextdue_task t WHERE t.name = NEW.name AND t.key = NEW.key AND t.rest IN ('dead', 'cancelled'));
  INSERT INTO nextdue_task(lane, name, due, key, args, remember, created)
    SELECT l.id, NEW.name,
      CAST(round((julianday(coalesce(NEW.due_utc, 'now')) - 2440587.5) * 86400000.0) AS INTEGER),
      NEW.key, coalesce(NEW.args, '[]'), CASE WHEN NEW.key IS NOT NULL THEN 86400000 END,
      CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)
    FROM nextdue_lane l
    WHERE l.queue = coalesce(NEW.queue, 'default') AND l.name = NEW.name
      AND l.priority = coalesce(NEW.priority, 0) AND l.alone = 0
    ON CONFLICT(name, key) WHERE key IS NOT NULL DO UPDATE SET
      lane = excluded.lane, due = excluded.due, rest = NULL, args = excluded.args, remember = excluded.remember,
      created = excluded.created, attempts = 0, crashes = 0, claims = 0, scheduled_for = NULL, gone_at = NULL,
      reason = NULL, message = NULL, wished = NULL, again_due = NULL, again_args = NULL, latest = NULL,
      expires = NULL, grp = NULL
    WHERE nextdue_task.rest IN ('dead', 'cancelled')
      OR (nextdue_task.rest = 'done' AND nextdue_task.gone_at <= excluded.created);
END;
