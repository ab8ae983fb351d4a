-- The verbs of a worker. The words in braces are explained in words.sql, as is how verbs are written; these are its own:
-- :define now (SELECT now FROM nextdue_now)
-- :define believed (SELECT believed FROM nextdue_now)
-- By how many pauses and up to which newest lane its lanes are open.
-- :define lanes (SELECT coalesce(max(id), 0) FROM nextdue_lane) + ({pauses} << 32)
-- The tokens of a worker.
-- :define held BETWEEN :worker << 32 AND (:worker << 32) + 4294967295
-- :define mine BETWEEN NEW.worker << 32 AND (NEW.worker << 32) + 4294967295
-- Of a claim: in which order row t of lane o is taken, what is odd about it, how far it looks, and whether lane o is to be looked at.
-- :define rank CASE WHEN NEW.fair THEN 0 ELSE -o.priority END
-- :define odd (t.crashes > 0 OR o.limited & 1) + (o.limited & 2) + CASE WHEN t.expires <= {now} THEN 4 ELSE 0 END + CASE WHEN t.stop IS NOT NULL AND {plain} THEN 8 ELSE 0 END
-- :define until min({now}, coalesce(NEW.until, {max}))
-- :define opened o.alone = NEW.alone AND (NEW.alone OR o.kind = NEW.kind) AND NEW.pauses = {pauses}

-- :name enlist
INSERT INTO nextdue_worker(started, host, pid) VALUES ({instant}, :host, :pid)

-- :name serves
UPDATE nextdue_worker SET serves = :serves WHERE id = :worker

-- :name resign
DELETE FROM nextdue_worker WHERE id = :worker

-- The temporary objects of a worker's connection.
-- :name worker_setup
CREATE TEMP TABLE nextdue_now(one INTEGER PRIMARY KEY, now INTEGER NOT NULL, believed INTEGER NOT NULL, purge INTEGER, woke INTEGER);
CREATE TEMP TABLE nextdue_open(
  lane INTEGER PRIMARY KEY, priority INTEGER NOT NULL, lease INTEGER NOT NULL, alone INTEGER NOT NULL, kind TEXT NOT NULL,
  limited INTEGER NOT NULL);
CREATE TEMP TABLE nextdue_limit(name TEXT PRIMARY KEY, lease INTEGER NOT NULL, most INTEGER, rate INTEGER);
-- The rates of single groups in place of their task's; 0: none.
CREATE TEMP TABLE nextdue_special(name TEXT NOT NULL, grp TEXT NOT NULL, rate INTEGER NOT NULL, PRIMARY KEY(name, grp)) WITHOUT ROWID;
CREATE TEMP TABLE nextdue_settled(
  id INTEGER NOT NULL, token INTEGER NOT NULL, outcome TEXT NOT NULL, ran INTEGER, forget INTEGER NOT NULL,
  delay INTEGER, rest TEXT, attempts INTEGER, crashes INTEGER, alone INTEGER, reason TEXT, message TEXT, result TEXT,
  keep INTEGER, again INTEGER, name TEXT, grp TEXT, slot INTEGER, missed INTEGER, scheduled INTEGER, key TEXT, was INTEGER,
  another INTEGER);
CREATE TEMP TABLE nextdue_buried(id INTEGER NOT NULL);
CREATE TEMP TABLE nextdue_claimed(
  place INTEGER PRIMARY KEY, id INTEGER NOT NULL, taken INTEGER NOT NULL, odd INTEGER NOT NULL, lease INTEGER NOT NULL);

-- What was settled and goes on: tried again, resting, or letting others of its group go. A part of the tick that stands
-- apart, as does the next: each statement that finds nothing costs as much as a task.
CREATE TEMP VIEW nextdue_onward AS SELECT NULL AS one;
CREATE TEMP TRIGGER nextdue_onward_do INSTEAD OF INSERT ON nextdue_onward
BEGIN
  UPDATE nextdue_schedule SET
    fired = fired + (s.missed IS NULL AND NOT s.another), last = CASE WHEN s.missed IS NULL THEN s.was ELSE last END,
    missed = CASE WHEN s.missed IS NULL THEN 0 ELSE nextdue_schedule.missed + s.missed END,
    missed_ever = missed_ever + coalesce(s.missed, 0)
  FROM nextdue_settled s
  WHERE s.scheduled AND nextdue_schedule.name = s.name AND nextdue_schedule.key = s.key;
  INSERT OR IGNORE INTO nextdue_lane(queue, name, priority, alone)
    SELECT l.queue, l.name, l.priority, s.alone
    FROM nextdue_settled s CROSS JOIN nextdue_task t ON t.id = s.id CROSS JOIN nextdue_lane l ON l.id = t.lane
    WHERE s.alone AND NOT l.alone;
  UPDATE nextdue_task SET
    lane = (
      SELECT twin.id FROM nextdue_lane l CROSS JOIN nextdue_lane twin
        ON twin.queue = l.queue AND twin.name = l.name AND twin.priority = l.priority
        AND twin.alone = CASE WHEN s.again IS NOT NULL THEN 0 ELSE coalesce(s.alone, l.alone) END
      WHERE l.id = nextdue_task.lane),
    due = coalesce(s.again, min({now} + s.delay + (s.delay > 0), {max})),
    rest = CASE WHEN s.again IS NULL THEN s.rest END, token = NULL, stop = NULL, progress = NULL,
    attempts = CASE WHEN s.again IS NULL THEN coalesce(s.attempts, nextdue_task.attempts) ELSE 0 END,
    -- Given back before it was started: as if it had never been claimed.
    claims = CASE WHEN s.again IS NULL THEN nextdue_task.claims - (s.outcome = 'released' AND s.ran IS NULL) ELSE 0 END,
    crashes = CASE WHEN s.again IS NULL THEN coalesce(s.crashes, nextdue_task.crashes) ELSE 0 END,
    scheduled_for = CASE WHEN s.again IS NULL THEN scheduled_for ELSE s.slot END,
    args = CASE WHEN s.again IS NULL THEN args ELSE coalesce(again_args, args) END,
    grp = CASE WHEN s.again IS NULL OR (s.scheduled AND again_due IS NULL) THEN nextdue_task.grp ELSE again_grp END,
    again_args = CASE WHEN s.again IS NULL AND s.outcome = 'released' THEN again_args END,
    again_due = CASE WHEN s.again IS NULL AND s.outcome = 'released' THEN again_due END,
    -- Of what goes on after a success, an older failure is no news.
    reason = CASE WHEN s.again IS NULL OR s.outcome <> 'done' THEN coalesce(s.reason, nextdue_task.reason) END,
    message = CASE WHEN s.again IS NULL OR s.outcome <> 'done' THEN coalesce(s.message, nextdue_task.message) END,
    gone_at = CASE WHEN s.again IS NULL AND s.rest IN ('done', 'cancelled') THEN min({now} + coalesce(remember, 0), {max}) END
  FROM nextdue_settled s WHERE nextdue_task.id = s.id AND NOT s.forget;
  -- A schedule that was paused, or whose code is gone, waits from now on; one that became another while it ran may be over.
  UPDATE nextdue_task SET
    wished = nullif(due, {max}), due = NULL, rest = iif(due = {max}, 'done', 'held'), gone_at = CASE WHEN due = {max} THEN due END,
    reason = CASE WHEN due < {max} THEN iif(g.paused IS NULL, 'orphaned', 'paused') END
    FROM nextdue_settled s CROSS JOIN nextdue_schedule g
    WHERE s.scheduled AND nextdue_task.id = s.id AND g.name = nextdue_task.name AND g.key = nextdue_task.key
      AND (coalesce(g.paused, g.orphaned) IS NOT NULL OR nextdue_task.due = {max}) AND nextdue_task.due IS NOT NULL;
  INSERT INTO nextdue_freed SELECT DISTINCT name, grp FROM nextdue_settled WHERE grp IS NOT NULL;
END;

-- Tasks that come after those that were settled. What becomes of them is the matter of the triggers on nextdue_mark; here
-- those that are done say so, with their result. The others have another rest by then, or no row.
CREATE TEMP TABLE nextdue_woken(task INTEGER PRIMARY KEY);
CREATE TEMP VIEW nextdue_awaited AS SELECT NULL AS one;
CREATE TEMP TRIGGER nextdue_awaited_do INSTEAD OF INSERT ON nextdue_awaited
WHEN EXISTS (SELECT 1 FROM nextdue_mark WHERE waits IS NOT NULL AND done IS NULL)
BEGIN
  DELETE FROM nextdue_woken;
  INSERT OR IGNORE INTO nextdue_woken
    SELECT m.task FROM nextdue_settled s CROSS JOIN nextdue_mark m ON m.waits = +s.id AND m.done IS NULL;
  UPDATE nextdue_now SET woke = EXISTS (SELECT 1 FROM nextdue_woken);
  UPDATE nextdue_mark SET done = {now}, result = s.result, problem = NULL
  FROM nextdue_settled s WHERE nextdue_mark.waits = +s.id AND nextdue_mark.done IS NULL AND +s.outcome = 'done';
END;

-- What was claimed and isn't simply run: leases taken over, and odd ones.
CREATE TEMP TABLE nextdue_left(name TEXT NOT NULL, grp TEXT NOT NULL);
CREATE TEMP VIEW nextdue_odd AS SELECT NULL AS token, NULL AS keep_rows;
CREATE TEMP TRIGGER nextdue_odd_do INSTEAD OF INSERT ON nextdue_odd
BEGIN
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, reason, message, worker)
    SELECT t.id, t.name, t.key, t.claims, t.scheduled_for, {now}, 'crashed', 'lease_expired',
      'its lease ended without a word from its worker', t.token >> 32
    FROM nextdue_claimed c CROSS JOIN nextdue_task t ON t.id = c.id
    WHERE c.taken AND NEW.keep_rows > 0;

  -- Too late to be started, or asked to stop before its worker was lost: said in the history, and never silently. A next
  -- life that was asked for begins all the same.
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, reason, message)
    SELECT t.id, t.name, t.key, t.claims, coalesce(t.scheduled_for, t.due), {now},
      CASE WHEN c.odd & 8 THEN 'cancelled' ELSE 'expired' END,
      CASE WHEN NOT c.odd & 8 THEN 'expired' WHEN t.reason = 'parent' THEN t.reason END,
      CASE WHEN NOT c.odd & 8 THEN 'it was not to be started any more' WHEN t.reason = 'parent' THEN t.message END
    FROM nextdue_claimed c CROSS JOIN nextdue_task t ON t.id = c.id
    WHERE c.odd >= 4 AND NEW.keep_rows > 0;
  DELETE FROM nextdue_left;
  INSERT INTO nextdue_left
    SELECT DISTINCT t.name, t.grp FROM nextdue_claimed c CROSS JOIN nextdue_task t ON t.id = c.id
    WHERE (c.odd >= 4 OR (c.taken AND c.odd & 2)) AND t.grp IS NOT NULL;
  UPDATE nextdue_task SET
    due = again_due, rest = CASE WHEN again_due IS NULL THEN CASE WHEN c.odd & 8 THEN 'cancelled' ELSE 'dead' END END,
    token = NULL, stop = NULL, progress = NULL, args = coalesce(again_args, args), again_due = NULL, again_args = NULL,
    grp = CASE WHEN again_due IS NULL THEN grp ELSE again_grp END,
    attempts = CASE WHEN again_due IS NULL THEN attempts ELSE 0 END, crashes = CASE WHEN again_due IS NULL THEN crashes ELSE 0 END,
    claims = CASE WHEN again_due IS NULL THEN claims ELSE 0 END,
    scheduled_for = CASE WHEN again_due IS NULL THEN scheduled_for END,
    gone_at = CASE WHEN again_due IS NULL AND c.odd & 8 THEN min({now} + coalesce(remember, 0), {max}) END,
    reason = CASE WHEN c.odd & 8 THEN reason ELSE 'expired' END,
    message = CASE WHEN c.odd & 8 THEN message ELSE 'it was not to be started any more' END
  FROM nextdue_claimed c WHERE c.odd >= 4 AND nextdue_task.id = c.id;
  DELETE FROM nextdue_task WHERE key IS NULL AND id IN (SELECT id FROM nextdue_claimed WHERE odd & 8);

  -- One that is taken over starts once more: it gives its place back, as by a burial, and asks for one like any other.
  UPDATE nextdue_task SET token = NULL, crashes = crashes + 1, progress = NULL
    WHERE id IN (SELECT id FROM nextdue_claimed WHERE taken AND odd & 2 AND odd < 4);
  INSERT INTO nextdue_admit
    SELECT t.id, NEW.token, c.lease, t.name, coalesce(t.grp, ''), l.most, nullif(coalesce(s.rate, l.rate), 0)
    FROM nextdue_claimed c CROSS JOIN nextdue_task t ON t.id = c.id CROSS JOIN nextdue_limit l ON l.name = t.name
      LEFT JOIN nextdue_special s ON s.name = t.name AND s.grp = t.grp
    WHERE c.odd & 2 AND c.odd < 4 ORDER BY c.place;
  INSERT INTO nextdue_freed SELECT name, grp FROM nextdue_left;
END;

-- What still runs, or has just ended.
CREATE TEMP VIEW nextdue_still AS SELECT NULL AS words, NULL AS worker, NULL AS renewed, NULL AS renew_every;
CREATE TEMP TRIGGER nextdue_still_do INSTEAD OF INSERT ON nextdue_still
BEGIN
  -- What running tasks said of themselves, each as [id, token, text], the text being JSON: [progress] or [progress, cursor].
  -- Before they are settled, for the last word of one that failed is where it is to go on.
  UPDATE nextdue_task SET progress = coalesce(nullif((j.value ->> 2) -> 0, 'null'), progress) FROM json_each(NEW.words) j
    WHERE nextdue_task.id = j.value ->> 0 AND token = j.value ->> 1;
  INSERT INTO nextdue_mark(task, label, begun, done, result)
    SELECT t.id, '@cursor', {now}, {now}, (j.value ->> 2) -> 1
    FROM json_each(NEW.words) j CROSS JOIN nextdue_task t ON t.id = j.value ->> 0 AND t.token = j.value ->> 1
    WHERE json_array_length(j.value ->> 2) = 2
    ON CONFLICT(task, label) DO UPDATE SET done = excluded.done, result = excluded.result;
  -- Renew, before any claim, all that this worker holds, in paused lanes too. A lease that its task extended isn't cut,
  -- but by a clock set back.
  UPDATE nextdue_task SET due = min(max({now} + o.lease, CASE WHEN {now} >= NEW.renewed THEN due ELSE 0 END), {max})
    FROM nextdue_limit o
    WHERE {now} NOT BETWEEN NEW.renewed AND NEW.renewed + NEW.renew_every
      AND nextdue_task.token {mine} AND o.name = nextdue_task.name;
END;

-- The settlements that aren't plain successes.
CREATE TEMP VIEW nextdue_other AS SELECT NULL AS settlements;
CREATE TEMP TRIGGER nextdue_other_do INSTEAD OF INSERT ON nextdue_other
BEGIN
  -- (Materialized, or each word of the inner ones would be computed anew wherever an outer one uses it.)
  INSERT INTO nextdue_settled
    SELECT id, token, CASE WHEN halted THEN 'cancelled' ELSE outcome END, CASE WHEN halted THEN coalesce(ran, 0) ELSE ran END,
      known IS 0 OR (again IS NULL AND NOT goes_on AND (forget OR (halted AND key IS NULL))), CASE WHEN NOT halted THEN delay END,
      CASE WHEN halted THEN 'cancelled' ELSE rest END, attempts, crashes, alone, reason, message, result, keep,
      CASE WHEN known IS NOT 0 THEN coalesce(again, CASE WHEN goes_on THEN next END) END, name, grp,
      CASE WHEN again IS NULL THEN slot END, missed,
      known IS 1 AND reason IS NOT 'in_doubt' AND (delay IS NULL OR halted OR again IS NOT NULL), key, was, again IS NOT NULL
    FROM (WITH
    rows AS MATERIALIZED (SELECT value FROM json_each(NEW.settlements)),
    said AS MATERIALIZED (
      SELECT t.id, t.token, t.name, t.grp, t.key, t.scheduled_for AS was, value ->> 2 AS outcome, value ->> 3 AS ran, value ->> 4 AS forget,
        value ->> 5 AS delay, value ->> 6 AS rest, value ->> 7 AS attempts, value ->> 8 AS crashes, value ->> 9 AS alone,
        value ->> 10 AS reason, value ->> 11 AS message, value ->> 12 AS result, value ->> 14 AS keep,
        t.stop IS NOT NULL AND value ->> 5 IS NOT NULL AND (
          coalesce(substr(t.key, 1, 1) <> '@', 1) OR coalesce(value ->> 15, value ->> 16) IS NOT NULL OR value ->> 2 <> 'released'
        ) AS halted,
        CASE WHEN value ->> 2 <> 'released' OR t.stop IS NOT NULL THEN t.again_due END AS again,
        coalesce(value ->> 15, min({now} + (value ->> 16) + 1, {max})) AS next, value ->> 17 AS slot, value ->> 18 AS missed
      FROM rows CROSS JOIN nextdue_task t ON t.id = value ->> 0 AND t.token = value ->> 1),
    weighed AS MATERIALIZED (
      SELECT *, CASE WHEN substr(u.key, 1, 1) = '@' THEN EXISTS (
        SELECT 1 FROM nextdue_schedule g WHERE g.name = u.name AND g.key = u.key) END AS known
      FROM said u)
    SELECT *, known IS 1 AND next IS NOT NULL AND (delay IS NULL OR halted) AS goes_on FROM weighed);
END;

-- What is kept no longer: history by count and age, tombstones and results by their end. At most twice what was settled.
CREATE TEMP VIEW nextdue_purge AS SELECT NULL AS most, NULL AS keep_rows, NULL AS keep_ms;
CREATE TEMP TRIGGER nextdue_purge_do INSTEAD OF INSERT ON nextdue_purge
BEGIN
  UPDATE nextdue_now SET purge = (
    SELECT max(id) FROM (
      SELECT id, ended FROM nextdue_run ORDER BY id LIMIT NEW.most)
    WHERE ended < {now} - NEW.keep_ms OR id <= (SELECT max(id) FROM nextdue_run) - NEW.keep_rows);
  INSERT OR REPLACE INTO nextdue_result(task, name, key, result, keep)
    SELECT task, name, key, result, keep FROM nextdue_run
    WHERE id <= (SELECT purge FROM nextdue_now) AND keep > {now} AND result IS NOT NULL ORDER BY id;
  DELETE FROM nextdue_run WHERE id <= (SELECT purge FROM nextdue_now);
  DELETE FROM nextdue_result WHERE task IN (
    SELECT task FROM nextdue_result WHERE keep <= {now} LIMIT NEW.most);
  DELETE FROM nextdue_task WHERE id IN (
    SELECT id FROM nextdue_task WHERE gone_at <= {now} LIMIT NEW.most);
END;

-- The part of the tick that a worker is spared which has nothing to settle: one that was woken by a due is in a hurry.
CREATE TEMP VIEW nextdue_settle AS
SELECT NULL AS done, NULL AS settlements, NULL AS worker, NULL AS keep_rows, NULL AS keep_ms;
CREATE TEMP TRIGGER nextdue_settle_do INSTEAD OF INSERT ON nextdue_settle
WHEN NEW.done <> '[]' OR NEW.settlements <> '[]'
BEGIN
  -- Settle. Whoever can't show the token has lost the row and changes nothing. Plain successes, by far the most,
  -- come as [token, ran, ids], for JSON costs as much as a row; all others with everything that is to be known of them. A next life that was asked for
  -- while it ran begins whatever the outcome (but a mere release is none), and what was asked to stop isn't tried again.
  INSERT INTO nextdue_settled(id, token, outcome, ran, forget, again, name, grp)
    SELECT t.id, t.token, 'done', d.ran, t.again_due IS NULL, t.again_due, t.name, t.grp
    FROM (WITH said AS MATERIALIZED (
        SELECT value ->> 0 AS token, value ->> 1 AS ran, value ->> 2 AS ids FROM json_each(NEW.done)) SELECT * FROM said) d
      CROSS JOIN json_each(d.ids) j CROSS JOIN nextdue_task t ON t.id = j.value AND t.token = d.token;
  INSERT INTO nextdue_other SELECT NEW.settlements WHERE NEW.settlements <> '[]';
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, started, ended, outcome, reason, message, result, worker, keep)
    SELECT t.id, t.name, t.key, t.claims, t.scheduled_for, {now} - s.ran, {now}, s.outcome, s.reason, s.message,
      s.result, NEW.worker, min({now} + s.keep, {max})
    FROM nextdue_settled s CROSS JOIN nextdue_task t ON t.id = s.id
    WHERE s.ran IS NOT NULL AND (NEW.keep_rows > 0 OR s.keep IS NOT NULL);
  INSERT INTO nextdue_awaited VALUES (1);
  DELETE FROM nextdue_task WHERE id IN (SELECT id FROM nextdue_settled WHERE forget);
  INSERT INTO nextdue_onward SELECT 1 WHERE EXISTS (SELECT 1 FROM nextdue_settled WHERE NOT forget OR grp IS NOT NULL);

  -- As long as the oldest line of the history is to stay, no other is looked at, unless a wrong clock wrote it.
  INSERT INTO nextdue_purge SELECT 2 * (SELECT count(*) FROM nextdue_settled), NEW.keep_rows, NEW.keep_ms
    WHERE EXISTS (SELECT 1 FROM (SELECT id, ended FROM nextdue_run ORDER BY id LIMIT 1)
        WHERE ended NOT BETWEEN {now} - NEW.keep_ms AND {now} OR id <= (SELECT max(id) FROM nextdue_run) - NEW.keep_rows)
      OR EXISTS (SELECT 1 FROM nextdue_result WHERE keep <= {now}) OR EXISTS (SELECT 1 FROM nextdue_task WHERE gone_at <= {now});
END;

CREATE TEMP VIEW nextdue_tick AS
SELECT NULL AS now, NULL AS done, NULL AS settlements, NULL AS progress, NULL AS worker, NULL AS token, NULL AS kind, NULL AS slots,
  NULL AS ahead, NULL AS fair, NULL AS alone, NULL AS pauses, NULL AS until, NULL AS believed, NULL AS expected, NULL AS renewed,
  NULL AS renew_every, NULL AS keep_rows, NULL AS keep_ms;

CREATE TEMP TRIGGER nextdue_tick_do INSTEAD OF INSERT ON nextdue_tick
BEGIN
  INSERT OR REPLACE INTO nextdue_now(one, now, believed)
    SELECT 1, n.now, CASE WHEN n.now - NEW.expected BETWEEN -1000 AND 1000 THEN NEW.believed ELSE 0 END
    FROM (SELECT coalesce(NEW.now, {clock}) AS now) n;
  DELETE FROM nextdue_claimed;
  DELETE FROM nextdue_settled;
  INSERT INTO nextdue_still SELECT NEW.progress, NEW.worker, NEW.renewed, NEW.renew_every
    WHERE NEW.progress <> '[]' OR {now} NOT BETWEEN NEW.renewed AND NEW.renewed + NEW.renew_every;
  INSERT INTO nextdue_settle VALUES (NEW.done, NEW.settlements, NEW.worker, NEW.keep_rows, NEW.keep_ms);

  -- Claim. The queue of this recursion holds the nearest row of each open lane, and all expired leases: it merges them
  -- lazily, by priority and due, whatever the backlog. Two steps to the next row of a lane keep each an index seek.
  -- Odd rows: 1 = has crashes, or a rate, whose slot is the start; 2 = has a limit or a rate, 4 = has expired, 8 = was
  -- asked to stop. Of these only 2 alone is claimed ahead, the others
  -- are passed by. An expired lease is taken only if it can be believed, and nothing
  -- while the lanes are other ones than were opened.
  INSERT INTO nextdue_claimed(id, taken, odd, lease)
  SELECT id, taken, odd, lease FROM (
    WITH RECURSIVE
    merged(rank, due, id, lane, lease, limited, taken, odd) AS (
      SELECT {rank}, t.due, t.id, o.lane, o.lease, o.limited, 0, {odd}
      FROM nextdue_open o CROSS JOIN nextdue_task t ON t.id = (
        SELECT n.id FROM nextdue_task n
        WHERE n.lane = o.lane AND n.due <= {until} AND n.token IS NULL ORDER BY n.due, n.id LIMIT 1)
      WHERE {opened}
      UNION ALL
      SELECT {rank}, t.due, t.id, o.lane, o.lease, o.limited, 1, {odd}
      FROM nextdue_task t CROSS JOIN nextdue_open o ON o.lane = t.lane AND o.lease <= {believed}
      WHERE t.token IS NOT NULL AND t.due <= {until} AND {opened}
      UNION ALL
      SELECT o.rank, t.due, t.id, o.lane, o.lease, o.limited, 0, {odd}
      FROM merged o CROSS JOIN nextdue_task t ON t.id = coalesce(
        (SELECT n.id FROM nextdue_task n
         WHERE n.lane = o.lane AND n.due = o.due AND n.id > o.id AND n.token IS NULL ORDER BY n.id LIMIT 1),
        (SELECT n.id FROM nextdue_task n
         WHERE n.lane = o.lane AND n.due > o.due AND n.due <= {until} AND n.token IS NULL ORDER BY n.due, n.id LIMIT 1))
      WHERE NOT o.taken
      ORDER BY 1, 2, 3 LIMIT NEW.slots + NEW.ahead
    )
    SELECT id, taken, odd, lease FROM merged
  );
  UPDATE nextdue_claimed SET id = 0, taken = 0, odd = 0 WHERE place > NEW.slots AND (taken OR odd NOT IN (0, 2));
  INSERT INTO nextdue_odd SELECT NEW.token, NEW.keep_rows WHERE EXISTS (SELECT 1 FROM nextdue_claimed WHERE taken OR odd > 1);
  UPDATE nextdue_task SET
    due = min({now} + c.lease, {max}),
    scheduled_for = coalesce(scheduled_for, due), crashes = crashes + (token IS NOT NULL), claims = claims + 1,
    token = NEW.token
  FROM nextdue_claimed c WHERE nextdue_task.id = c.id AND c.odd < 2;
END;

-- A dead worker's rows fall due again after a short back-off that doubles with each crash.
CREATE TEMP VIEW nextdue_bury AS SELECT NULL AS now, NULL AS worker, NULL AS backoffs, NULL AS keep_rows;
CREATE TEMP TRIGGER nextdue_bury_do INSTEAD OF INSERT ON nextdue_bury
BEGIN
  INSERT OR REPLACE INTO nextdue_now(one, now, believed) VALUES (1, coalesce(NEW.now, {clock}), 0);
  DELETE FROM nextdue_buried;
  INSERT INTO nextdue_buried SELECT id FROM nextdue_task WHERE token {mine};
  DELETE FROM nextdue_settled;
  INSERT INTO nextdue_settled(id, token, outcome, forget, name, grp)
    SELECT id, token, 'crashed', stop IS NOT NULL AND key IS NULL, name, grp FROM nextdue_task WHERE token {mine};
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, reason, message, worker)
    SELECT id, name, key, claims, scheduled_for, {now}, 'crashed', 'worker_died', 'its worker died', NEW.worker
    FROM nextdue_task WHERE token {mine} AND NEW.keep_rows > 0;
  -- What was asked to stop isn't tried again, but a next life that was asked for after that begins.
  INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, worker)
    SELECT id, name, key, claims, scheduled_for, {now}, 'cancelled', NEW.worker
    FROM nextdue_task WHERE token {mine} AND stop IS NOT NULL AND {plain} AND NEW.keep_rows > 0;
  DELETE FROM nextdue_task WHERE id IN (SELECT id FROM nextdue_settled WHERE forget);
  UPDATE nextdue_task SET
    due = again_due, rest = CASE WHEN again_due IS NULL THEN 'cancelled' END, args = coalesce(again_args, args),
    grp = CASE WHEN again_due IS NULL THEN grp ELSE again_grp END,
    gone_at = CASE WHEN again_due IS NULL THEN min({now} + coalesce(remember, 0), {max}) END,
    scheduled_for = CASE WHEN again_due IS NULL THEN scheduled_for END,
    attempts = CASE WHEN again_due IS NULL THEN attempts ELSE 0 END,
    crashes = CASE WHEN again_due IS NULL THEN crashes + 1 ELSE 0 END,
    claims = CASE WHEN again_due IS NULL THEN claims ELSE 0 END,
    again_due = NULL, again_args = NULL, token = NULL, progress = NULL, stop = NULL,
    reason = 'worker_died', message = 'its worker died'
  WHERE token {mine} AND stop IS NOT NULL AND {plain};
  UPDATE nextdue_task SET
    due = min({now} + (NEW.backoffs ->> min(crashes, json_array_length(NEW.backoffs) - 1)), {max}),
    token = NULL, crashes = crashes + 1, progress = NULL,
    reason = 'worker_died', message = 'its worker died'
  WHERE token {mine};
  INSERT INTO nextdue_freed SELECT DISTINCT name, grp FROM nextdue_settled WHERE grp IS NOT NULL;
  DELETE FROM nextdue_worker WHERE id = NEW.worker;
END

-- :name tick
INSERT INTO nextdue_tick(now, done, settlements, progress, worker, token, kind, slots, ahead, fair, alone, pauses, until, believed,
  expected, renewed, renew_every, keep_rows, keep_ms)
VALUES (:now, :done, :settlements, :progress, :worker, :token, :kind, :slots, :ahead, :fair, :alone, :pauses, :until, :believed,
  :expected, :renewed, :renew_every, :keep_rows, :keep_ms)

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
  {lanes},
  EXISTS (SELECT 1 FROM nextdue_claimed WHERE id = 0),
  (SELECT count(*) FROM nextdue_claimed WHERE odd BETWEEN 4 AND 7),
  EXISTS (SELECT 1 FROM nextdue_settled WHERE grp IS NOT NULL) OR EXISTS (SELECT 1 FROM nextdue_claimed WHERE odd >= 4 OR (taken AND odd > 1)) OR EXISTS (
    SELECT 1 FROM nextdue_settled s CROSS JOIN nextdue_task t ON t.id = s.id WHERE NOT s.forget AND {nearest})
    OR ((SELECT woke FROM nextdue_now) AND EXISTS (
      SELECT 1 FROM nextdue_woken w CROSS JOIN nextdue_task t ON t.id = w.task WHERE t.token IS NULL AND {nearest})),
  (SELECT json_group_array(json_array(id, token)) FROM nextdue_task WHERE stop IS NOT NULL AND +token {held})

-- The running rows of a worker that were asked to stop.
-- :name stops
SELECT json_group_array(json_array(id, token)) FROM nextdue_task WHERE stop IS NOT NULL AND +token {held}

-- Which of the claimed rows are a schedule's, with what is known of it. What was written by hand may be of another type.
-- :name occurrences
SELECT json_group_object(t.id, json_array(
  iif(typeof(g.plan) = 'text', g.plan, ''), CAST(g.fired AS INTEGER), CAST(g.missed AS INTEGER), max(0, (SELECT now FROM nextdue_now) - t.scheduled_for),
  coalesce((
    SELECT r.scheduled_for = t.scheduled_for AND (r.outcome IN ('snoozed', 'released') OR r.reason IS 'in_doubt')
    FROM nextdue_run r WHERE r.task = t.id ORDER BY r.id DESC LIMIT 1), 0)
    OR EXISTS (SELECT 1 FROM nextdue_mark m WHERE m.task = t.id)))
FROM json_each(:ids) j CROSS JOIN nextdue_task t ON t.id = j.value CROSS JOIN nextdue_schedule g ON g.name = t.name AND g.key = t.key

-- :name settled
SELECT json_group_array(json_array(id, token)) FROM nextdue_settled

-- :name held
SELECT json_group_array(json_array(id, token)) FROM nextdue_task WHERE token {held}

-- :name bury
INSERT INTO nextdue_bury(now, worker, backoffs, keep_rows) VALUES (:now, :worker, :backoffs, :keep_rows)

-- :name buried
SELECT json_group_array(id) FROM nextdue_buried

-- :name serve_clear
DELETE FROM nextdue_open

-- :name serve_limits
INSERT OR REPLACE INTO nextdue_limit
SELECT n.key, n.value ->> 0, n.value ->> 2, n.value ->> 3 FROM json_each(:names) n

-- :name serve_forget_rates
DELETE FROM nextdue_special

-- :name serve_rates
INSERT INTO nextdue_special
SELECT n.key, r.key, r.value FROM json_each(:names) n CROSS JOIN json_each(n.value, '$[4]') r WHERE n.value ->> 4 IS NOT NULL

-- What is served: each name with [lease, kind of executor, limit, rate, rates of groups]. Paused queues and names stay closed, and all of
-- a restored file until it is released.
-- :name serve
INSERT INTO nextdue_open
SELECT l.id, l.priority, n.value ->> 0, l.alone, n.value ->> 1,
  CASE WHEN n.value ->> 3 IS NOT NULL OR n.value ->> 4 IS NOT NULL THEN 3 WHEN n.value ->> 2 IS NOT NULL THEN 2 ELSE 0 END
FROM nextdue_lane l CROSS JOIN json_each(:names) n ON n.key = l.name
WHERE (:queues IS NULL OR l.queue IN (SELECT value FROM json_each(:queues)))
  AND NOT EXISTS (SELECT 1 FROM nextdue_meta WHERE name = 'restored')
  AND NOT EXISTS (
    SELECT 1 FROM nextdue_pause p WHERE (p.kind = 'queue' AND p.word = l.queue) OR (p.kind = 'name' AND p.word = l.name))

-- :name lanes
SELECT {lanes}

-- The nearest due of exactly the rows that a tick could claim, by kind of executor; the same of those tried alone;
-- and the shortest lease among those that have expired but can't be believed yet.
-- :name look
WITH nearest(alone, kind, due) AS (
  SELECT o.alone, o.kind, (
    SELECT n.due FROM nextdue_task n WHERE n.lane = o.lane AND n.due IS NOT NULL AND n.token IS NULL ORDER BY n.due LIMIT 1)
  FROM nextdue_open o
  UNION ALL
  SELECT o.alone, o.kind, t.due FROM nextdue_task t CROSS JOIN nextdue_open o ON o.lane = t.lane
  WHERE t.token IS NOT NULL AND (o.lease <= :believed OR t.due > {instant}))
SELECT {instant},
  (SELECT json_group_object(kind, due) FROM (
    SELECT kind, min(due) AS due FROM nearest WHERE NOT alone AND due IS NOT NULL GROUP BY kind)),
  (SELECT min(due) FROM nearest WHERE alone),
  (SELECT min(o.lease) FROM nextdue_task t CROSS JOIN nextdue_open o ON o.lane = t.lane
   WHERE t.token IS NOT NULL AND t.due <= {instant} AND o.lease > :believed),
  {lanes},
  (SELECT json_group_array(json_array(id, token)) FROM nextdue_task WHERE stop IS NOT NULL AND +token {held})

-- No lease may be longer than what was asked, as it is after a backward step of the clock; the living renew theirs. In
-- paused lanes too.
-- :name cut_leases
UPDATE nextdue_task SET due = {instant} + o.lease FROM nextdue_limit o
WHERE o.name = nextdue_task.name AND nextdue_task.token IS NOT NULL
  AND nextdue_task.due > {instant} + o.lease
  AND nextdue_task.token >> 32 NOT IN (SELECT value FROM json_each(:living))

-- Nor may what waits for a period from the end of its last attempt, or within it to be tried again, wait for longer than
-- that: its due is no instant that anybody named. (Else what has a `scheduled_for` is a first one, snoozed or spread.)
-- :define latest CAST(max({instant} + (g.plan ->> 'period_ms') + coalesce(g.plan ->> 'jitter_ms', 0) + 1, coalesce(g.plan ->> 'starting_ms', 0)) AS INTEGER)
-- :name cut_periods
UPDATE nextdue_task SET due = (
  SELECT {latest} FROM nextdue_schedule g WHERE g.name = nextdue_task.name AND g.key = nextdue_task.key)
WHERE id IN (
  SELECT t.id FROM nextdue_schedule g CROSS JOIN nextdue_task t ON t.name = g.name AND t.key = g.key
  WHERE t.token IS NULL AND CASE WHEN json_valid(g.plan) THEN
      g.plan ->> 'period_ms' IS NOT NULL AND g.plan ->> 'anchor_ms' IS NULL AND t.due > {latest} END
    AND (t.scheduled_for IS NULL OR t.attempts + t.crashes > 0 AND (
      SELECT r.outcome FROM nextdue_run r WHERE r.task = t.id ORDER BY r.id DESC LIMIT 1) IN ('failed', 'crashed')))

-- The last time that a worker saw the clock being set: when it was then, and by how many ms.
-- :name note_step
INSERT OR REPLACE INTO nextdue_meta(name, value) VALUES ('clock_step', json_array(coalesce(:now, {clock}), :step))
