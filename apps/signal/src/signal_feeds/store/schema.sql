-- Signal's own tables, beside those of nextdue in one file. Instants are UTC ms. When a source is asked next is not here:
-- it is the due of its task, name 'collect', key = source.id.

CREATE TABLE signal_meta(version INTEGER NOT NULL);
INSERT INTO signal_meta VALUES (1);

CREATE TABLE source(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  url TEXT NOT NULL,
  given TEXT NOT NULL,                        -- the URL as it was declared; a permanent redirect changes url alone
  address TEXT NOT NULL UNIQUE,               -- the URL as duplicates are compared by (urls.address_of)
  kind TEXT NOT NULL CHECK (kind IN ('http', 'fixture')),
  origin TEXT NOT NULL CHECK (origin IN ('builtin', 'toml', 'added', 'opml')),
  orphaned INTEGER NOT NULL DEFAULT 0,        -- 1: no longer named; 2: the same, and a person had paused it before
  added INTEGER NOT NULL,
  title TEXT,
  site TEXT,
  etag TEXT,                                  -- validators: written only together with the entries of their body
  last_modified TEXT,
  digest TEXT,
  hints TEXT NOT NULL DEFAULT '{}',
  fresh_s INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND 12),
  faults INTEGER NOT NULL DEFAULT 0 CHECK (faults BETWEEN 0 AND 12),
  last_error TEXT,
  last_ok INTEGER,
  last_attempt INTEGER,
  not_before INTEGER NOT NULL DEFAULT 0,
  gone_first INTEGER,
  gone_times INTEGER NOT NULL DEFAULT 0,
  moved_to TEXT,
  moved_first INTEGER,
  moved_times INTEGER NOT NULL DEFAULT 0,
  same_as TEXT
);

-- The question that people ask of the schedule, in seconds: ... FROM sources WHERE next_due <= unixepoch() ORDER BY next_due, id
-- One that waits without a due waits for another of its host, and is due.
CREATE VIEW sources AS
SELECT s.id, (coalesce(t.due_ms, CASE t.state WHEN 'waiting' THEN unixepoch() * 1000 END) + 999) / 1000 AS next_due,
  s.failures, s.last_error, s.last_ok / 1000 AS last_ok
FROM source s LEFT JOIN nextdue_tasks t ON t.name = 'collect' AND t.key = s.id;

CREATE TABLE attempt(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  source INTEGER NOT NULL REFERENCES source(number),
  begun INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  status INTEGER,                             -- of HTTP, where there was an answer
  reason TEXT,                                -- NULL: a success
  fresh INTEGER NOT NULL DEFAULT 0,           -- new entries
  changed INTEGER NOT NULL DEFAULT 0,         -- entries with a new revision
  cut INTEGER NOT NULL DEFAULT 0,             -- entries over the limit
  asked_by TEXT                               -- who asked for it out of turn
);
CREATE INDEX attempt_source ON attempt(source, id);
CREATE INDEX attempt_forced ON attempt(begun) WHERE asked_by IS NOT NULL;

CREATE TABLE wish(                            -- a refresh that was asked for and isn't made yet
  source INTEGER PRIMARY KEY REFERENCES source(number),
  asked INTEGER NOT NULL,
  asked_by TEXT NOT NULL
);

CREATE TABLE offer(                           -- feeds that a page advertises, where a source turned out to be a page
  source INTEGER NOT NULL REFERENCES source(number),
  url TEXT NOT NULL,
  title TEXT NOT NULL,
  type TEXT NOT NULL,
  PRIMARY KEY (source, url)
);

CREATE TABLE entry(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  source INTEGER NOT NULL REFERENCES source(number),
  key TEXT NOT NULL,
  revision INTEGER NOT NULL,                  -- the current one
  first_seen INTEGER NOT NULL,
  UNIQUE (source, key)
);
CREATE INDEX entry_seen ON entry(first_seen);

CREATE TABLE revision(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  entry INTEGER NOT NULL REFERENCES entry(id),
  fingerprint TEXT NOT NULL,
  title TEXT NOT NULL,
  link TEXT,
  author TEXT NOT NULL,
  html TEXT NOT NULL,
  text TEXT NOT NULL,
  published INTEGER,                          -- NULL: unknown; shown is first_seen of the entry then
  seen INTEGER NOT NULL,
  UNIQUE (entry, fingerprint)
);

CREATE TABLE decision(                        -- the last word on one fingerprint of one entry
  entry INTEGER NOT NULL REFERENCES entry(id),
  fingerprint TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('approved', 'rejected')),
  at INTEGER NOT NULL,
  PRIMARY KEY (entry, fingerprint)
);

CREATE VIRTUAL TABLE words USING fts5(title, text, tokenize = "unicode61 remove_diacritics 2");  -- rowid = entry.id
