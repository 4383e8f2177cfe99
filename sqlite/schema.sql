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

-- Which file this is: the numbers of it and of its log, and the boot. A copy has those of its origin. Settled says that no session is left that is in
-- a file which was in this one's place; since is when this one was first seen there.
CREATE TABLE IF NOT EXISTS farsync_file (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  name    TEXT NOT NULL,
  since   INTEGER NOT NULL,
  settled INTEGER NOT NULL
);

-- A file that was deleted and made anew counts on from the time, so that its revisions are higher than those before.
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'farsync_entries', unixepoch() * 1000000
  WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'farsync_entries');

CREATE TABLE IF NOT EXISTS farsync_registers (
  queue   TEXT PRIMARY KEY,
  value   TEXT NOT NULL,
  version INTEGER NOT NULL
) WITHOUT ROWID;

-- Which session asks to be told of which name, once. A name is the ID of an entry, = and a queue for its register, or + and
-- a queue for the first entry in it.
CREATE TABLE IF NOT EXISTS farsync_watches (
  name    TEXT NOT NULL,
  session TEXT NOT NULL,
  PRIMARY KEY (name, session)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS farsync_watches_session ON farsync_watches (session);

-- What is sent to sessions once the transaction is committed: that a name has moved, or, without a name, that the session is over.
-- The triggers below write it, so a change by hand counts like any other. What such a change leaves here goes out with the
-- next transaction of a Store.
CREATE TABLE IF NOT EXISTS farsync_told (
  session TEXT NOT NULL,
  name    TEXT NOT NULL
);

-- To insert into farsync_moves is to say that a name has moved. Those that have asked are told. So is the session of the entry next
-- behind, which need not ask: a waiter for a mutex, whose only blocker is the entry next ahead, writes nothing in order to
-- wait. If there was another entry in between when it looked, that one has gone since, and has told it. There are no queue
-- and no revision where nothing is behind.
--
-- A statement that may have to be undone by itself keeps a copy of each page that it changes, in memory that the library has from the system
-- and gives back each time. One whose triggers say OR IGNORE, and that says OR ROLLBACK, keeps none. There is nothing to ignore.
CREATE VIEW IF NOT EXISTS farsync_moves AS SELECT '' AS name, '' AS queue, 0 AS revision;
CREATE TRIGGER IF NOT EXISTS farsync_moves_told INSTEAD OF INSERT ON farsync_moves BEGIN
  INSERT OR IGNORE INTO farsync_told SELECT session, name FROM farsync_watches WHERE name = new.name;
  DELETE FROM farsync_watches WHERE name = new.name;
  INSERT OR IGNORE INTO farsync_told SELECT s.id, new.name FROM farsync_sessions s WHERE s.id = (
    SELECT session FROM farsync_entries WHERE queue = new.queue AND revision > new.revision ORDER BY revision LIMIT 1);
END;

CREATE TRIGGER IF NOT EXISTS farsync_entries_joined AFTER INSERT ON farsync_entries BEGIN
  INSERT OR IGNORE INTO farsync_moves VALUES ('+' || new.queue, NULL, NULL);
END;
CREATE TRIGGER IF NOT EXISTS farsync_entries_gone AFTER DELETE ON farsync_entries BEGIN
  INSERT OR IGNORE INTO farsync_moves VALUES (old.id, old.queue, old.revision);
  -- A session whose entry has gone is next behind nothing any more, and has to ask for what it waits for.
  INSERT OR IGNORE INTO farsync_told SELECT old.session, old.id FROM farsync_sessions WHERE id = old.session
    AND EXISTS (SELECT 1 FROM farsync_entries WHERE queue = old.queue AND revision < old.revision);
END;
CREATE TRIGGER IF NOT EXISTS farsync_entries_changed AFTER UPDATE OF kind, version, value ON farsync_entries BEGIN
  INSERT OR IGNORE INTO farsync_moves VALUES (new.id, new.queue, new.revision);
END;
CREATE TRIGGER IF NOT EXISTS farsync_entries_words AFTER UPDATE OF words ON farsync_entries BEGIN
  INSERT OR IGNORE INTO farsync_moves VALUES (new.id, NULL, NULL);
END;
CREATE TRIGGER IF NOT EXISTS farsync_registers_made AFTER INSERT ON farsync_registers BEGIN
  INSERT OR IGNORE INTO farsync_moves VALUES ('=' || new.queue, NULL, NULL);
END;
CREATE TRIGGER IF NOT EXISTS farsync_registers_written AFTER UPDATE ON farsync_registers BEGIN
  INSERT OR IGNORE INTO farsync_moves VALUES ('=' || new.queue, NULL, NULL);
END;

-- The permits that are granted are the oldest, while all their units fit. What has gone tells those that fit now and did not before, who have
-- asked nothing; a size that is set tells all. No more of the queue is read than fits.
CREATE TRIGGER IF NOT EXISTS farsync_units_freed AFTER DELETE ON farsync_entries
WHEN EXISTS (SELECT 1 FROM farsync_registers WHERE queue = old.queue) BEGIN
  INSERT OR IGNORE INTO farsync_told SELECT e.session, e.id FROM (
    WITH RECURSIVE granted (revision, room) AS (
      SELECT 0, CAST(substr(value, instr(value, ' ') + 1) AS INTEGER) FROM farsync_registers WHERE queue = old.queue
      UNION ALL
      SELECT e.revision, g.room - e.units FROM granted g JOIN farsync_entries e ON e.revision = (
        SELECT min(revision) FROM farsync_entries WHERE queue = old.queue AND revision > g.revision)
      WHERE e.kind = 'permit' AND e.units <= g.room)
    SELECT revision, room FROM granted WHERE revision > old.revision AND (room < old.units OR old.kind <> 'permit')
  ) let_in JOIN farsync_entries e ON e.revision = let_in.revision WHERE e.session IS NOT NULL;
END;
CREATE TRIGGER IF NOT EXISTS farsync_size_made AFTER INSERT ON farsync_registers BEGIN
  INSERT OR IGNORE INTO farsync_told SELECT DISTINCT session, '=' || new.queue FROM farsync_entries
    WHERE queue = new.queue AND kind = 'permit' AND session IS NOT NULL;
END;
CREATE TRIGGER IF NOT EXISTS farsync_size_set AFTER UPDATE ON farsync_registers BEGIN
  INSERT OR IGNORE INTO farsync_told SELECT DISTINCT session, '=' || new.queue FROM farsync_entries
    WHERE queue = new.queue AND kind = 'permit' AND session IS NOT NULL;
END;

-- The end of a session is that of its entries.
CREATE TRIGGER IF NOT EXISTS farsync_sessions_over AFTER DELETE ON farsync_sessions BEGIN
  DELETE FROM farsync_entries WHERE session = old.id;
  DELETE FROM farsync_watches WHERE session = old.id;
  INSERT OR IGNORE INTO farsync_told VALUES (old.id, '');
END;
