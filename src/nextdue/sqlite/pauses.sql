-- Queues and names at rest, and single tasks. Each verb is one statement in autocommit; what several steps need is an
-- INSERT into a temporary view. nextdue_meta's `pauses` counts the changes: a tick whose lanes were opened by another
-- number claims nothing until it has opened them anew.

-- :name pauses_setup
CREATE TEMP VIEW IF NOT EXISTS nextdue_pausing AS SELECT NULL AS now, NULL AS kind, NULL AS word, NULL AS stop;
CREATE TEMP TRIGGER IF NOT EXISTS nextdue_pausing_do INSTEAD OF INSERT ON nextdue_pausing
WHEN NEW.stop <> EXISTS (SELECT 1 FROM nextdue_pause p WHERE p.kind = NEW.kind AND p.word = NEW.word)
BEGIN
  {count_pause};
  DELETE FROM nextdue_pause WHERE NOT NEW.stop AND kind = NEW.kind AND word = NEW.word;
  INSERT INTO nextdue_pause(kind, word, since) SELECT NEW.kind, NEW.word, coalesce(NEW.now, {clock}) WHERE NEW.stop;
END

-- :name pausing
INSERT INTO nextdue_pausing(now, kind, word, stop) VALUES (:now, :kind, :word, :stop)

-- :name paused
SELECT kind, word, since FROM nextdue_pause ORDER BY kind DESC, word

-- Which tasks a person set aside: a paused row is held for the reason 'paused', and its due waits in `wished`.
-- :name paused_tasks
SELECT id FROM nextdue_task WHERE rest = 'held' AND reason = 'paused' ORDER BY id

-- :name pause_task
UPDATE nextdue_task SET rest = 'held', reason = 'paused', wished = coalesce(due, wished), due = NULL
WHERE id = :id AND token IS NULL AND (due IS NOT NULL OR rest IN ('blocked', 'waits'))

-- :name resume_task
UPDATE nextdue_task SET due = CASE WHEN NOT {waits} THEN max(coalesce(wished, 0), {instant}) END, {resumed}
WHERE id = :id AND rest = 'held' AND reason = 'paused'

-- For a task that isn't there by its id any more, or isn't waiting: what it is instead.
-- :name pause_state
SELECT rest = 'held' AND reason = 'paused' FROM nextdue_task WHERE id = :id

-- Whether anybody has ever put a task of this name, or into this queue.
-- :name pause_known
SELECT EXISTS (SELECT 1 FROM nextdue_lane WHERE CASE :kind WHEN 'queue' THEN queue ELSE name END = :word)
