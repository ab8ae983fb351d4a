-- What only the pages ask for. Lists go on after a name or number, not after a count of rows, so that a later page of
-- a long one costs what the first does.

-- :name page_of_sources
SELECT s.number, s.id, s.url, s.kind, s.origin, s.orphaned, s.title, s.site, s.failures, s.faults, s.last_error,
  s.last_ok, s.last_attempt, s.same_as, t.state, t.due_ms,
  (SELECT a.fresh FROM attempt a WHERE a.source = s.number AND a.reason IS NULL ORDER BY a.id DESC LIMIT 1)
FROM source s LEFT JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id
WHERE s.id > :after AND (NOT :failing OR s.last_error IS NOT NULL)
ORDER BY s.id LIMIT :limit

-- :name page_of_source
SELECT s.number, s.id, s.url, s.kind, s.origin, s.orphaned, s.title, s.site, s.failures, s.faults, s.last_error,
  s.last_ok, s.last_attempt, s.same_as, t.state, t.due_ms,
  (SELECT a.fresh FROM attempt a WHERE a.source = s.number AND a.reason IS NULL ORDER BY a.id DESC LIMIT 1)
FROM source s LEFT JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id
WHERE s.number = :number

-- :name tally
SELECT count(*), coalesce(sum(last_error IS NOT NULL), 0) FROM source

-- :name entries_of_source
SELECT e.id, r.title, coalesce(r.published, e.first_seen),
  (SELECT d.verdict FROM decision d WHERE d.entry = e.id AND d.fingerprint = r.fingerprint)
FROM entry e JOIN revision r ON r.id = e.revision
WHERE e.source = :number AND e.id < :before ORDER BY e.id DESC LIMIT :limit

-- A source that is due and not being asked, the one that has waited longest.
-- :name most_overdue
SELECT s.id, t.due_ms FROM nextdue_tasks t JOIN source s ON s.id = t.key
WHERE t.name = 'collect' AND t.state = 'waiting' AND t.due_ms <= :now ORDER BY t.due_ms, s.id LIMIT 1

-- :name last_attempt
SELECT max(last_attempt) FROM source
