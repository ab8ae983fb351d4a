-- Asked while somebody waits for tasks to end.

-- Those of the tasks :ids (a JSON array) that have ended, or stopped until a person acts, each with the last line of its
-- history. While it runs, waits or is blocked by a limit a task is none of them.
-- :name ended
SELECT i.value,
  CASE WHEN t.id IS NOT NULL THEN t.rest WHEN r.outcome IN ('done', 'cancelled', 'expired', 'dead') THEN r.outcome ELSE 'gone' END,
  r.outcome,
  CASE WHEN t.rest IN ('dead', 'held') THEN t.reason ELSE r.reason END,
  CASE WHEN t.rest IN ('dead', 'held') THEN t.message ELSE r.message END,
  r.result
FROM json_each(:ids) i
LEFT JOIN nextdue_task t ON t.id = i.value
LEFT JOIN nextdue_run r ON r.id = (SELECT max(n.id) FROM nextdue_run n WHERE n.task = i.value)
WHERE t.id IS NULL OR (t.due IS NULL AND t.rest <> 'blocked')
