-- A herd: what is overdue after a long downtime or a restore, and would start all at once. The one rule that spreads it.
-- What is to expire within the window is left to start at once.
-- :define max 253402300799999
-- :define late t.due <= :until AND t.token IS NULL AND coalesce(t.expires > :now + :window, 1)

-- The lanes that a worker has opened; those whose tasks start at the release of a restored file.
-- :name herd_open
SELECT json_group_array(lane) FROM nextdue_open

-- :name herd_restored
SELECT json_group_array(l.id) FROM nextdue_lane l
WHERE NOT EXISTS (
  SELECT 1 FROM nextdue_pause p WHERE (p.kind = 'queue' AND p.word = l.queue) OR (p.kind = 'name' AND p.word = l.name))

-- :name herd_size
SELECT count(*) FROM json_each(:lanes) l CROSS JOIN nextdue_task t ON t.lane = l.value AND {late}

-- The next piece of it, the most overdue first, at equal distances. It isn't overdue any more then, so that this is
-- repeated until nothing is left; and again after a crash.
-- :name herd_piece
UPDATE nextdue_task SET scheduled_for = coalesce(scheduled_for, nextdue_task.due),
  due = min(:now + 1 + (:done + r.place) * :window / :size, {max})
FROM (
  SELECT id, row_number() OVER (ORDER BY due, id) - 1 AS place FROM (
    SELECT o.id, o.due FROM json_each(:lanes) l CROSS JOIN nextdue_task o ON o.id IN (
      SELECT t.id FROM nextdue_task t WHERE t.lane = l.value AND {late} ORDER BY t.due, t.id LIMIT :piece)
    ORDER BY o.due, o.id LIMIT :piece)) r
WHERE nextdue_task.id = r.id
