-- Is all that is due being run? Each statement costs a few seeks for a lane, a name or a group, whatever the rows:
-- monitoring asks every minute. Counts end at :most.

-- Lanes with something overdue: waiting, or running under a lease that is over.
-- :name health_late
SELECT f.name, f.queue, f.alone, f.first,
  (SELECT count(*) FROM (SELECT 1 FROM nextdue_task n WHERE n.lane = f.id AND n.due <= :now AND n.token IS NULL LIMIT :most))
    + (SELECT count(*) FROM nextdue_task n WHERE n.token IS NOT NULL AND n.due <= :now AND n.lane = f.id)
FROM (
  SELECT l.id, l.name, l.queue, l.alone, (SELECT min(due) FROM (
    SELECT due FROM (
      SELECT n.due FROM nextdue_task n WHERE n.lane = l.id AND n.due <= :now AND n.token IS NULL ORDER BY n.due LIMIT 1)
    UNION ALL
    SELECT n.due FROM nextdue_task n WHERE n.token IS NOT NULL AND n.due <= :now AND n.lane = l.id)) AS first
  FROM nextdue_lane l) f
WHERE f.first <= :now ORDER BY f.first

-- The dead by name, from the index alone.
-- :name health_dead
SELECT n.name, (SELECT count(*) FROM (
  SELECT 1 FROM nextdue_task t WHERE t.rest IN ('dead', 'held') AND t.rest = 'dead' AND t.name = n.name LIMIT :most))
FROM (SELECT DISTINCT name FROM nextdue_lane) n ORDER BY n.name

-- The held by name: how many wait for a person's decision, and how many are single paused tasks.
-- :name health_held
SELECT n.name, t.reason IS 'paused', count(*)
FROM (SELECT DISTINCT name FROM nextdue_lane) n CROSS JOIN nextdue_task t ON t.id IN (
  SELECT h.id FROM nextdue_task h
  WHERE h.rest IN ('dead', 'held') AND h.rest = 'held' AND h.name = n.name LIMIT :most)
GROUP BY 1, 2 ORDER BY 1

-- Groups that a limit or a rate counts, from one to the next by two seeks, at most :most; of each the longest blocked.
-- :name health_blocked
WITH RECURSIVE groups(name, grp) AS (
  SELECT name, grp FROM (SELECT name, grp FROM nextdue_task WHERE grp IS NOT NULL ORDER BY name, grp LIMIT 1)
  UNION ALL
  SELECT t.name, t.grp FROM groups g CROSS JOIN nextdue_task t ON t.id = coalesce(
    (SELECT n.id FROM nextdue_task n WHERE n.name = g.name AND n.grp > g.grp ORDER BY n.grp LIMIT 1),
    (SELECT n.id FROM nextdue_task n WHERE n.grp IS NOT NULL AND n.name > g.name ORDER BY n.name, n.grp LIMIT 1))
  LIMIT :most
)
SELECT g.name, min(b.wished), sum((
  SELECT count(*) FROM (
    SELECT 1 FROM nextdue_task t
    WHERE t.name = g.name AND t.grp = g.grp AND t.due IS NULL AND t.wished IS NOT NULL AND t.rest = 'blocked' LIMIT :most)))
FROM groups g CROSS JOIN nextdue_task b ON b.id = (
  SELECT t.id FROM nextdue_task t
  WHERE t.name = g.name AND t.grp = g.grp AND t.due IS NULL AND t.wished IS NOT NULL AND t.rest = 'blocked'
  ORDER BY t.wished LIMIT 1)
GROUP BY g.name ORDER BY g.name

-- Those at rest until other tasks are done or an event is sent: of the first :most waits.
-- :name health_waits
SELECT t.name, min(m.begun), count(DISTINCT t.id)
FROM (SELECT task, begun FROM nextdue_mark INDEXED BY nextdue_mark_open WHERE waits IS NOT NULL AND done IS NULL LIMIT :most) m
CROSS JOIN nextdue_task t ON t.id = m.task AND t.rest = 'waits'
GROUP BY t.name ORDER BY t.name

-- When a worker last ended a run, whether one ever lived, and the clock.
-- :name health_facts
SELECT {instant},
  (SELECT ended FROM nextdue_run WHERE worker IS NOT NULL ORDER BY id DESC LIMIT 1),
  EXISTS (SELECT 1 FROM main.sqlite_sequence WHERE name = 'nextdue_worker' AND seq > 0)
