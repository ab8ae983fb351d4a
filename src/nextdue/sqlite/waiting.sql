-- Asked while somebody waits for tasks to end.

-- Those of the tasks :ids (a JSON array) that have ended, or stopped until a person acts, each with the last line of its
-- history, or else the result that outlived it. While it runs, waits, for a task or an event too, or is blocked by a limit a task is none of them.
-- :name ended
SELECT i.value,
  CASE
    WHEN t.id IS NOT NULL THEN t.rest
    WHEN r.outcome IN ('done', 'cancelled', 'dead') THEN r.outcome
    WHEN r.outcome = 'expired' THEN 'dead'
    WHEN r.id IS NULL AND k.task IS NOT NULL THEN 'done'
    ELSE 'gone'
  END,
  CASE WHEN t.rest IN ('dead', 'held') THEN t.reason ELSE coalesce(r.reason, r.outcome) END,
  CASE WHEN t.rest IN ('dead', 'held') THEN t.message ELSE r.message END,
  CASE WHEN r.id IS NULL THEN k.result ELSE r.result END
FROM json_each(:ids) i
LEFT JOIN nextdue_task t ON t.id = i.value
LEFT JOIN nextdue_run r ON r.id = (SELECT max(n.id) FROM nextdue_run n WHERE n.task = i.value)
LEFT JOIN nextdue_result k ON k.task = i.value
WHERE t.id IS NULL OR (t.due IS NULL AND t.rest NOT IN ('blocked', 'waits'))
