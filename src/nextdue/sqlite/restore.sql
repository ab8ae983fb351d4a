-- What makes a backup the file again: the steps run in one transaction on the copy, before anybody else sees it.
-- nextdue_meta's `restored` says, until it is released, since when it is a restored backup: meanwhile no worker opens a
-- lane of it, whatever is paused, resumed or put.
-- `stores` are the ids of the store before each restore, as [id, last task]: keys derived from them stay the same.
-- Whether the tasks of lane l start at the release: pauses that a person made stay.
-- :define starts NOT EXISTS (SELECT 1 FROM nextdue_pause p WHERE (p.kind = 'queue' AND p.word = l.queue) OR (p.kind = 'name' AND p.word = l.name))

-- What ran then was cut off: it will run again, perhaps a second time. What was to be cancelled is cancelled.
-- :name restore_runs
INSERT INTO nextdue_run(task, name, key, claim, scheduled_for, ended, outcome, reason, message, worker)
SELECT id, name, key, claims, scheduled_for, :now, CASE WHEN stop IS NULL THEN 'released' ELSE 'cancelled' END,
  'restored', 'it ran when the backup was made', token >> 32
FROM nextdue_task WHERE token IS NOT NULL

-- :name restore_cancelled
UPDATE nextdue_task SET token = NULL, stop = NULL, progress = NULL, due = NULL, rest = 'cancelled',
  gone_at = :now + coalesce(remember, 0)
WHERE token IS NOT NULL AND stop IS NOT NULL

-- :name restore_forgotten
DELETE FROM nextdue_task WHERE rest = 'cancelled' AND key IS NULL

-- :name restore_running
UPDATE nextdue_task SET token = NULL, progress = NULL, due = min(coalesce(scheduled_for, :now), :now)
WHERE token IS NOT NULL

-- Set aside by a limit, for a neighbour that runs no more; whoever claims them sets them aside again.
-- :name restore_blocked
UPDATE nextdue_task SET rest = NULL, due = coalesce(wished, :now), wished = NULL WHERE rest = 'blocked'

-- :name restore_workers
DELETE FROM nextdue_worker

-- :name restore_stores
INSERT INTO nextdue_meta(name, value)
SELECT 'stores', json_array(json_array(value, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'nextdue_task'), 0)))
FROM nextdue_meta WHERE name = 'store'
ON CONFLICT(name) DO UPDATE SET value = json_insert(value, '$[#]', json_extract(excluded.value, '$[0]'))

-- :name restore_store
UPDATE nextdue_meta SET value = :store WHERE name = 'store'

-- :name restore_held
INSERT OR REPLACE INTO nextdue_meta(name, value) VALUES ('restored', :now)

-- :name restore_count
{count_pause}

-- Looking at a held file.

-- :name held_file
SELECT value FROM nextdue_meta WHERE name = 'restored'

-- :name held_overdue
SELECT l.name, l.queue, count(*), min(t.due), sum(t.due < :now - 3600000)
FROM nextdue_lane l CROSS JOIN nextdue_task t ON t.lane = l.id AND t.due <= :now
WHERE {starts}
GROUP BY l.name, l.queue ORDER BY min(t.due)

-- :name held_later
SELECT count(*), min(t.due)
FROM nextdue_lane l CROSS JOIN nextdue_task t ON t.lane = l.id AND t.due > :now
WHERE {starts}

-- What a restore cut off, newest first.
-- :name held_again
SELECT task, name FROM nextdue_run r WHERE reason = 'restored' AND outcome = 'released' AND ended = :since ORDER BY id

-- Releasing it.

-- :name release_setup
CREATE TEMP VIEW IF NOT EXISTS nextdue_release AS SELECT NULL AS one;
CREATE TEMP TRIGGER IF NOT EXISTS nextdue_release_do INSTEAD OF INSERT ON nextdue_release
BEGIN
  DELETE FROM nextdue_meta WHERE name = 'restored';
  {count_pause};
END

-- :name release
INSERT INTO nextdue_release(one) VALUES (1)
