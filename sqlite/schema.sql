-- A session lives as long as its row. deadline is in microseconds of the clock that began with boot.
CREATE TABLE IF NOT EXISTS farsync_sessions (
  id       TEXT PRIMARY KEY,
  boot     TEXT NOT NULL,
  deadline INTEGER NOT NULL,
  ttl      INTEGER NOT NULL,
  linger   INTEGER NOT NULL
) WITHOUT ROWID;

-- AUTOINCREMENT never uses a number twice. There is one writer at a time, so the order of revisions is that of commits.
CREATE TABLE IF NOT EXISTS farsync_entries (
  revision INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  queue    TEXT NOT NULL,
  session  TEXT,
  kind     TEXT NOT NULL DEFAULT 'foreign',
  units    INTEGER NOT NULL DEFAULT 1,
  version  INTEGER NOT NULL DEFAULT 1,
  since    INTEGER NOT NULL DEFAULT 0,
  value    BLOB,
  words    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS farsync_entries_queue ON farsync_entries (queue, revision);
CREATE INDEX IF NOT EXISTS farsync_entries_session ON farsync_entries (session);

-- A file that was deleted and made anew counts on from the time, so that its revisions are higher than those before.
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'farsync_entries', unixepoch() * 1000000
  WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'farsync_entries');

CREATE TABLE IF NOT EXISTS farsync_registers (
  queue   TEXT PRIMARY KEY,
  value   TEXT NOT NULL,
  version INTEGER NOT NULL
) WITHOUT ROWID;

-- Which session is to be told of which name, once. A name is the ID of an entry, = and a queue for its register, or + and
-- a queue for its next entry.
CREATE TABLE IF NOT EXISTS farsync_watches (
  name    TEXT NOT NULL,
  session TEXT NOT NULL,
  PRIMARY KEY (name, session)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS farsync_watches_session ON farsync_watches (session);
