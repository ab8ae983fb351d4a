-- All SQL of Signal, by name. The tables are in schema.sql; instants are UTC ms.

-- :name installed
SELECT name FROM sqlite_master WHERE name = 'signal_meta'

-- :name version
SELECT version FROM signal_meta

-- sources

-- :name source
SELECT * FROM source WHERE id = :id

-- :name source_by_address
SELECT * FROM source WHERE address = :address

-- :name sources
SELECT * FROM source ORDER BY id

-- All or one, each beside its task.
-- :name listed
SELECT s.*, t.state, t.reason, t.due_ms
FROM source s LEFT JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id
WHERE :id IS NULL OR s.id = :id
ORDER BY t.state IS NOT 'waiting', t.due_ms, s.id
-- Those that somebody names: they can be orphaned.
-- :name named_sources
SELECT * FROM source WHERE origin IN ('builtin', 'toml') ORDER BY id

-- Whose task is over, or was taken away.
-- :name without_task
SELECT s.id FROM source s LEFT JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id
WHERE t.state IS NULL OR t.state NOT IN ('waiting', 'running', 'held') ORDER BY s.id

-- Whose last attempt, or adding, lies in the future.
-- :name ahead
SELECT s.id, t.due_ms FROM source s JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id
WHERE coalesce(s.last_attempt, s.added) > :now AND t.state = 'waiting' ORDER BY s.id

-- :name due
SELECT s.id, s.last_attempt FROM nextdue_tasks t JOIN source s ON s.id = t.key
WHERE t.name = 'collect' AND t.state IN ('waiting', 'running') AND t.queue IN (SELECT value FROM json_each(:queues))
  AND (t.due_ms IS NULL OR t.due_ms <= :now OR t.state = 'running')

-- Those that still wait; due_ms is NULL for one behind another of its host.
-- :name put_off
SELECT s.id, s.last_attempt, t.due_ms FROM json_each(:ids) i
CROSS JOIN source s ON s.id = i.value CROSS JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id
WHERE t.state = 'waiting'

-- :name add_source
INSERT INTO source(id, url, given, address, kind, origin, added)
VALUES (:id, :url, :url, :address, :kind, :origin, :now)

-- :name readdress
UPDATE source SET url = :url, address = :address WHERE number = :number

-- Somebody declared another URL: what was stored of the old one says nothing of it.
-- :name redeclare
UPDATE source SET url = :url, given = :url, address = :address, etag = NULL, last_modified = NULL, digest = NULL,
  hints = '{}', fresh_s = 0, failures = 0, faults = 0, last_error = NULL, last_attempt = NULL, not_before = 0,
  gone_first = NULL, gone_times = 0, moved_to = NULL, moved_first = NULL, moved_times = 0, same_as = NULL
WHERE number = :number

-- A source that nobody names any more, if it has this address, goes on under a new name: with its entries, validators
-- and decisions. Its next task is new: one that a person had paused is marked, to be paused again.
-- :name rename
UPDATE source SET id = :id, url = :url, given = :url, origin = :origin,
  orphaned = CASE WHEN orphaned = 0 AND (SELECT state FROM nextdue_tasks WHERE name = 'collect' AND key = source.id) = 'held'
    THEN 2 ELSE orphaned END
WHERE address = :address AND origin IN ('builtin', 'toml') AND id NOT IN (SELECT value FROM json_each(:named))

-- The names of tasks whose source has another name now.
-- :name without_source
SELECT t.key FROM nextdue_tasks t LEFT JOIN source s ON s.id = t.key
WHERE t.name = 'collect' AND t.state IN ('waiting', 'held', 'dead') AND s.id IS NULL

-- :name orphan
UPDATE source SET orphaned = :orphaned WHERE number = :number

-- the outcome of an attempt

-- :name succeeded
UPDATE source SET
  title = coalesce(:title, title), site = coalesce(:site, site), etag = :etag, last_modified = :last_modified,
  digest = :digest, hints = :hints, fresh_s = :fresh_s, failures = 0, faults = 0, last_error = NULL,
  last_ok = :ended, last_attempt = :ended, not_before = :not_before, gone_first = NULL, gone_times = 0,
  moved_to = :moved_to, moved_first = :moved_first, moved_times = :moved_times, same_as = :same_as
WHERE number = :number

-- :name failed
UPDATE source SET
  failures = CASE WHEN :local THEN failures ELSE min(failures + 1, 12) END,
  faults = CASE WHEN :local THEN min(faults + 1, 12) ELSE faults END,
  last_error = :reason, last_attempt = :ended, not_before = :not_before,
  gone_first = CASE WHEN :reason = 'http_gone' THEN min(coalesce(gone_first, :ended), :ended) ELSE gone_first END,
  gone_times = gone_times + (:reason = 'http_gone')
WHERE number = :number

-- What a 304 spoke of isn't here: the next request is an unconditional one.
-- :name forget_validators
UPDATE source SET etag = NULL, last_modified = NULL, digest = NULL WHERE number = :number

-- :name add_attempt
INSERT INTO attempt(source, begun, ended, status, reason, fresh, changed, cut, asked_by)
VALUES (:number, :begun, :ended, :status, :reason, :fresh, :changed, :cut, :asked_by)

-- Those that the quotas count stay.
-- :name purge_attempts
DELETE FROM attempt WHERE source = :number AND (asked_by IS NULL OR begun <= :counted)
  AND id <= (SELECT id FROM attempt WHERE source = :number ORDER BY id DESC LIMIT 1 OFFSET :keep)

-- :name attempts
SELECT * FROM attempt WHERE source = :number ORDER BY id DESC LIMIT :limit

-- :name drop_offers
DELETE FROM offer WHERE source = :number

-- :name add_offer
INSERT OR IGNORE INTO offer(source, url, title, type) VALUES (:number, :url, :title, :type)

-- :name offers
SELECT url, title, type FROM offer WHERE source = :number ORDER BY rowid

-- entries

-- :name known
SELECT e.key, r.fingerprint, e.first_seen
FROM json_each(:keys) k CROSS JOIN entry e ON e.source = :number AND e.key = k.value JOIN revision r ON r.id = e.revision

-- :name entries
SELECT e.key, e.id FROM json_each(:keys) k CROSS JOIN entry e ON e.source = :number AND e.key = k.value

-- :name add_entry
INSERT INTO entry(source, key, revision, first_seen) VALUES (:number, :key, 0, :now)

-- The same text again is the same revision, wherever it stood in between.
-- :name add_revision
INSERT INTO revision(entry, fingerprint, title, link, author, html, text, published, seen)
VALUES (:entry, :fingerprint, :title, :link, :author, :html, :text, :published_ms, :now)
ON CONFLICT(entry, fingerprint) DO UPDATE SET seen = excluded.seen

-- :name turn
UPDATE entry SET revision = (SELECT id FROM revision WHERE entry = :entry AND fingerprint = :fingerprint) WHERE id = :entry

-- :name add_words
INSERT INTO words(rowid, title, text) VALUES (:entry, :title, :text)

-- :name drop_words
DELETE FROM words WHERE rowid = :entry

-- wishes

-- :name wish
INSERT INTO wish(source, asked, asked_by) VALUES (:number, :now, :who)
ON CONFLICT(source) DO UPDATE SET asked = excluded.asked, asked_by = excluded.asked_by

-- :name wished
SELECT asked, asked_by FROM wish WHERE source = :number

-- :name wishes_of_others
SELECT count(*) FROM wish WHERE source <> :number

-- :name granted
DELETE FROM wish WHERE source = :number

-- When the requests out of turn of the last so and so long were made: of this source, of all. Until: not those of a
-- clock that was ahead.
-- :name forced_of
SELECT begun FROM attempt WHERE source = :number AND asked_by IS NOT NULL AND begun > :since AND begun <= :until ORDER BY begun

-- :name forced
SELECT begun FROM attempt WHERE asked_by IS NOT NULL AND begun > :since AND begun <= :until ORDER BY begun

-- the editor

-- :name entry
SELECT e.id, e.revision, e.key, e.first_seen, s.id, s.number, s.title
FROM entry e JOIN source s ON s.number = e.source WHERE e.id = :entry

-- All that an entry ever said, with the verdict on each.
-- :name revisions
SELECT r.id, r.fingerprint, r.title, r.link, r.author, r.html, r.text, r.published, r.seen, d.verdict, d.at
FROM revision r LEFT JOIN decision d ON d.entry = r.entry AND d.fingerprint = r.fingerprint
WHERE r.entry = :entry ORDER BY r.seen, r.id

-- By entry.id, so that a page of it needn't read them all.
-- :name waiting
SELECT e.id, s.id, s.number, s.title, r.fingerprint, r.title, r.link, coalesce(r.published, e.first_seen), r.seen,
  EXISTS (SELECT 1 FROM decision p WHERE p.entry = e.id)
FROM entry e JOIN revision r ON r.id = e.revision JOIN source s ON s.number = e.source
WHERE e.id > :after AND NOT EXISTS (SELECT 1 FROM decision d WHERE d.entry = e.id AND d.fingerprint = r.fingerprint)
  AND (NOT :changed OR EXISTS (SELECT 1 FROM decision p WHERE p.entry = e.id))
ORDER BY e.id LIMIT :limit

-- All of them but those whose current text is decided, of which there is one decision each.
-- :name count_waiting
SELECT CASE WHEN :changed THEN (SELECT count(DISTINCT entry) FROM decision) ELSE (SELECT count(*) FROM entry) END
  - (SELECT count(*) FROM decision d JOIN revision r ON r.entry = d.entry AND r.fingerprint = d.fingerprint
    JOIN entry e ON e.id = d.entry AND e.revision = r.id)

-- The same verdict again leaves its time, so that the published feed stays as it is.
-- :name decide
INSERT INTO decision(entry, fingerprint, verdict, at) VALUES (:entry, :fingerprint, :verdict, :now)
ON CONFLICT(entry, fingerprint) DO UPDATE SET
  at = CASE WHEN verdict = excluded.verdict THEN at ELSE excluded.at END, verdict = excluded.verdict

-- What is published: the current revision if it is approved. With :keep, where that one waits for a decision, the
-- decided one before it, if that is approved.
-- What is sorted is narrow: the texts are read of those alone that are in the end on the page.
-- :name approved
WITH top(entry, revision, updated) AS MATERIALIZED (
  SELECT e.id, r.id, max(d.at, r.seen) AS updated
  FROM decision d JOIN revision r ON r.entry = d.entry AND r.fingerprint = d.fingerprint JOIN entry e ON e.id = d.entry
  WHERE d.verdict = 'approved' AND (e.revision = r.id OR (:keep
    AND NOT EXISTS (SELECT 1 FROM revision c JOIN decision p ON p.entry = c.entry AND p.fingerprint = c.fingerprint
      WHERE c.id = e.revision)
    AND NOT EXISTS (SELECT 1 FROM revision c JOIN decision p ON p.entry = c.entry AND p.fingerprint = c.fingerprint
      WHERE c.entry = e.id AND (c.seen, c.id) > (r.seen, r.id))))
  ORDER BY updated DESC, e.id DESC LIMIT :limit OFFSET :offset
)
SELECT e.id, e.key, s.id, s.number, s.title, s.given, s.site, r.title, r.link, r.author, r.html, r.text,
  coalesce(r.published, e.first_seen), t.updated
FROM top t CROSS JOIN revision r ON r.id = t.revision JOIN entry e ON e.id = t.entry JOIN source s ON s.number = e.source
ORDER BY t.updated DESC, t.entry DESC

-- When the first source came: what tells this folder's feed from all others.
-- :name founded
SELECT coalesce(min(added), 0) FROM source

-- OPML

-- :name names
SELECT id FROM source

-- :name entitle
UPDATE source SET title = :title WHERE number = :number

-- search

-- By nothing but the rank, so that FTS5 sorts and snippets are made of what is shown alone.
-- What was found is marked in those alone that are shown: marking is dear.
-- :name search
WITH top(id, rank) AS MATERIALIZED (
  SELECT rowid, rank FROM words WHERE words MATCH :query ORDER BY rank, rowid DESC LIMIT :limit
)
SELECT e.id, s.id, s.number, s.title, r.title, r.link, coalesce(r.published, e.first_seen),
  (SELECT d.verdict FROM decision d WHERE d.entry = e.id AND d.fingerprint = r.fingerprint),
  highlight(words, 0, char(2), char(3)), snippet(words, 1, char(2), char(3), '…', 24)
FROM top t CROSS JOIN words ON words.rowid = t.id JOIN entry e ON e.id = t.id JOIN revision r ON r.id = e.revision
  JOIN source s ON s.number = e.source
WHERE words MATCH :query ORDER BY t.rank, t.id DESC
