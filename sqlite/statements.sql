-- In all of them ?1 is the time, in microseconds of the clock of this machine, and ?2 the boot that the clock began with. What
-- sqlstore gives them comes behind. A LIMIT that is a parameter alone has SQLite prepare the statement anew each time, in order to
-- plan by its value: hence the + 0.

-- name: bury
-- Ends the sessions that have run out, and those of ?3, whose processes have died.
DELETE FROM farsync_sessions
WHERE boot = ?2 AND (deadline <= ?1 OR NOT linger AND id IN (SELECT value FROM json_each(?3))) RETURNING id

-- name: kept
-- Sessions of another boot, or of another kernel with the same file, are given their TTL once more, by this clock: of those,
-- this clock cannot tell when they end. A session that lives after all writes its own boot again with its next renewal. It
-- is never ended by its socket, which may be of another kernel. Those that have run out end. The session ?3 has just been renewed.
UPDATE farsync_sessions SET boot = ?2, deadline = ?1 + ttl, linger = 1 WHERE boot <> ?2;
DELETE FROM farsync_sessions WHERE boot = ?2 AND deadline <= ?1;
SELECT id, '' FROM farsync_sessions WHERE id = ?3

-- name: open
INSERT INTO farsync_sessions (id, boot, deadline, ttl, linger) VALUES (?3, ?2, ?1 + ?4, ?4, ?5);
-- use: kept

-- name: renew
UPDATE farsync_sessions SET boot = ?2, deadline = ?1 + ttl WHERE id = ?3;
-- use: kept

-- name: end
DELETE FROM farsync_sessions WHERE id = ?3 RETURNING id

-- name: told
DELETE FROM farsync_told RETURNING session, name

-- name: owners
-- Of the sessions that have one of the entries ?4, or one in the queue ?3: those that have run out, and those whose end their
-- sockets tell.
SELECT id, deadline <= ?1 FROM farsync_sessions WHERE boot = ?2 AND (deadline <= ?1 OR NOT linger) AND id IN (
  SELECT session FROM farsync_entries WHERE queue = ?3 OR id IN (SELECT value FROM json_each(?4)))
LIMIT 64

-- name: ahead
-- The register, as an entry without ID; the entry ?4 and what is ahead of it, or the whole queue if that is empty, newest
-- first. No entry if ?4 is not there.
SELECT '', queue, '', 0, 0, version, 0, value, '' FROM farsync_registers WHERE queue = ?3
UNION ALL
SELECT * FROM (
  SELECT id, queue, kind, units, revision, version, since, NULL, coalesce(session, '') FROM farsync_entries
  WHERE queue = ?3 AND revision <= CASE ?4
    WHEN '' THEN 9223372036854775807
    ELSE (SELECT revision FROM farsync_entries WHERE id = ?4) END
  ORDER BY revision DESC LIMIT ?5 + 0)

-- part: granted
-- The permits of the queue ?3 that are granted, the oldest while all units fit, with the units that are left. The first row stands for the size.
WITH RECURSIVE granted (revision, room) AS (
  SELECT 0, CAST(substr(value, instr(value, ' ') + 1) AS INTEGER) FROM farsync_registers WHERE queue = ?3
  UNION ALL
  SELECT e.revision, g.room - e.units FROM granted g JOIN farsync_entries e ON e.revision = (
    SELECT min(revision) FROM farsync_entries WHERE queue = ?3 AND revision > g.revision)
  WHERE e.kind = 'permit' AND e.units <= g.room)

-- name: room
-- As ahead, for a permit of ?6 units. If the oldest entry is one, and not ?4 itself, and no other size than ?7 is declared, unless that is 0,
-- another is shown in place of all that are ahead.
-- use: granted
, oldest (as_one, first, last, own) AS (
  SELECT kind = 'permit' AND (?7 = 0 OR EXISTS (
    SELECT 1 FROM farsync_registers WHERE queue = ?3 AND substr(value, 1, instr(value, ' ') - 1) = CAST(?7 AS TEXT))),
    revision, (SELECT max(revision) FROM farsync_entries WHERE queue = ?3), CASE ?4
    WHEN '' THEN 9223372036854775807
    ELSE (SELECT revision FROM farsync_entries WHERE id = ?4) END
  FROM farsync_entries WHERE queue = ?3 ORDER BY revision LIMIT 1)
SELECT '', queue, '', 0, 0, version, 0, value, '' FROM farsync_registers WHERE queue = ?3
UNION ALL
SELECT id, queue, kind, units, revision, version, since, NULL, coalesce(session, '') FROM farsync_entries WHERE id = ?4
UNION ALL
SELECT 'turn:' || ?4, ?3, 'permit', CASE
  WHEN own IN (SELECT revision FROM granted) THEN 0
  WHEN ?4 = '' AND (SELECT room FROM granted ORDER BY revision DESC LIMIT 1) >= ?6 AND (SELECT max(revision) FROM granted) = last THEN 0
  ELSE 9223372036854775807 END, 0, 0, 0, NULL, ''
FROM oldest WHERE as_one AND first < own
UNION ALL
SELECT * FROM (
  SELECT id, queue, kind, units, revision, version, since, NULL, coalesce(session, '') FROM oldest, farsync_entries
  WHERE NOT as_one AND queue = ?3 AND revision < own
  ORDER BY revision DESC LIMIT ?5 + 0)

-- name: turned
-- Whether the permit ?4 in the queue ?3 is granted or gone, or the register has another version than ?5; and one of those granted that is a stray, of no
-- session.
-- use: granted
SELECT e.id IS NULL OR ?5 <> coalesce((SELECT version FROM farsync_registers WHERE queue = ?3), 0) OR e.revision IN (SELECT revision FROM granted),
  coalesce((SELECT h.id FROM granted g JOIN farsync_entries h ON h.revision = g.revision
    WHERE NOT EXISTS (SELECT 1 FROM farsync_sessions WHERE id = h.session) LIMIT 1), '')
FROM (VALUES (1)) LEFT JOIN farsync_entries e ON e.id = ?4

-- name: enter
INSERT OR ROLLBACK INTO farsync_entries (id, queue, session, kind, units, value, since)
SELECT ?4, ?3, ?8, 'permit', ?6, ?9, ?10 WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?8)
ON CONFLICT (id) DO NOTHING;
-- use: room

-- name: create
INSERT OR ROLLBACK INTO farsync_entries (id, queue, session, kind, units, value, since)
SELECT ?4, ?3, ?6, ?7, ?8, ?9, ?10 WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?6)
ON CONFLICT (id) DO NOTHING;
-- use: ahead

-- name: list
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE queue = ?3 ORDER BY revision LIMIT ?4 + 0

-- name: find
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries WHERE id = ?3

-- name: owned
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE session = ?3 AND queue IN (SELECT value FROM json_each(?4)) ORDER BY revision

-- name: survey
-- Up to the queue in which the entry with the number ?5 stands, or all: every text is less than a blob.
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE queue > ?4 AND queue >= ?3 AND queue < ?3 || char(0x10ffff) AND queue <= coalesce((
  SELECT queue FROM farsync_entries WHERE queue > ?4 AND queue >= ?3 AND queue < ?3 || char(0x10ffff)
  ORDER BY queue, revision LIMIT 1 OFFSET ?5 - 1), x'')
ORDER BY queue, revision

-- name: replace
UPDATE farsync_entries SET kind = ?5, version = version + 1, value = coalesce(?6, value) WHERE id = ?3 AND version = ?4
RETURNING id, queue, kind, units, revision, version, since, value, coalesce(session, '')

-- name: delete
DELETE FROM farsync_entries WHERE id = ?3 RETURNING id

-- name: tell
UPDATE farsync_entries SET words = ?4 WHERE id = ?3 RETURNING id

-- name: heard
SELECT words FROM farsync_entries WHERE id = ?3

-- name: register
SELECT value, version FROM farsync_registers WHERE queue = ?3

-- name: write
-- Writes a register that has the version ?5, 0 if there is none, while the entry ?6 exists, if it is not empty.
INSERT INTO farsync_registers (queue, value, version) SELECT ?3, ?4, ?5 + 1
WHERE ?5 = coalesce((SELECT version FROM farsync_registers WHERE queue = ?3), 0)
  AND (?6 = '' OR EXISTS (SELECT 1 FROM farsync_entries WHERE id = ?6))
ON CONFLICT (queue) DO UPDATE SET value = excluded.value, version = excluded.version
RETURNING version

-- name: sight
-- Of each target of a Watch on behalf of the entry with the revision ?5 in the queue ?4: its ID, whether it has moved, whether
-- it is next ahead of that entry, and whether it is a stray, of no session. What is next ahead is next until it goes, for
-- nothing is inserted in between.
SELECT coalesce(e.id, ''),
  CASE t.value ->> 'what'
    WHEN 'registered' THEN t.value ->> 'version' <>
      coalesce((SELECT version FROM farsync_registers WHERE queue = t.value ->> 'queue'), 0)
    WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries WHERE queue = t.value ->> 'queue')
    WHEN 'told' THEN e.id IS NULL OR e.words <> ''
    WHEN 'changed' THEN e.id IS NULL OR e.version <> t.value ->> 'version' AND t.value ->> 'version' <> 0
      OR e.kind <> 'write' AND t.value ->> 'kind' = 'write'
    ELSE e.id IS NULL
  END AS moved,
  coalesce(e.revision = (SELECT max(revision) FROM farsync_entries WHERE queue = ?4 AND revision < ?5)
    AND EXISTS (SELECT 1 FROM farsync_entries WHERE queue = ?4 AND revision = ?5), 0),
  e.id IS NOT NULL AND s.id IS NULL
FROM json_each(?3) t
LEFT JOIN farsync_entries e ON e.id = t.value ->> 'id'
LEFT JOIN farsync_sessions s ON s.id = e.session

-- name: watch
-- To ask for what has moved already would leave a row that nothing removes before the session ends.
INSERT OR IGNORE INTO farsync_watches (name, session) SELECT value ->> 'name', ?6 FROM json_each(?3)
WHERE NOT EXISTS (SELECT 1 FROM (
-- use: sight
) WHERE moved);
-- use: sight

-- name: guard
SELECT EXISTS (SELECT 1 FROM farsync_entries e JOIN farsync_sessions s ON s.id = e.session
  WHERE e.id = ?3 AND e.revision = ?4 AND s.boot = ?2 AND s.deadline > ?1)
