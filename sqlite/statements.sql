-- name: open
INSERT INTO farsync_sessions (id, boot, deadline, ttl, linger) VALUES (?1, ?2, ?3 + ?4, ?4, ?5)

-- name: renew
UPDATE farsync_sessions SET boot = ?2, deadline = ?3 + ttl WHERE id = ?1

-- name: adopt
-- Sessions of another boot, or of another kernel with the same file, are given their TTL once more, by this clock: of those,
-- this clock cannot tell when they end. A session that lives after all writes its own boot again with its next renewal. It
-- is never ended by its socket, which may be of another kernel.
UPDATE farsync_sessions SET boot = ?1, deadline = ?2 + ttl, linger = 1 WHERE boot <> ?1

-- name: bury
-- Ends the sessions that have run out, and those of ?3, whose processes have died.
DELETE FROM farsync_sessions
WHERE boot = ?1 AND (deadline <= ?2 OR NOT linger AND id IN (SELECT value FROM json_each(?3)))

-- name: end
DELETE FROM farsync_sessions WHERE id = ?1

-- name: told
DELETE FROM farsync_told RETURNING session, name

-- name: owners
-- Of the sessions that have one of the entries ?3, or one in the queue ?4: those that have run out, and those whose end their
-- sockets tell.
SELECT id, deadline <= ?2 FROM farsync_sessions WHERE boot = ?1 AND (deadline <= ?2 OR NOT linger) AND id IN (
  SELECT session FROM farsync_entries WHERE queue = ?4 OR id IN (SELECT value FROM json_each(?3)))
LIMIT 64

-- name: create
INSERT INTO farsync_entries (id, queue, session, kind, units, value, since)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?3)
ON CONFLICT (id) DO NOTHING

-- name: ahead
-- The entry ?2 and what is ahead of it, or the whole queue if that is empty; newest first. Nothing if the entry is not there.
SELECT id, queue, kind, units, revision, version, since, NULL, coalesce(session, '') FROM farsync_entries
WHERE queue = ?1 AND revision <= CASE ?2
  WHEN '' THEN 9223372036854775807
  ELSE (SELECT revision FROM farsync_entries WHERE id = ?2) END
ORDER BY revision DESC LIMIT ?3

-- name: list
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE queue = ?1 ORDER BY revision LIMIT ?2

-- name: find
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries WHERE id = ?1

-- name: owned
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE session = ?1 AND queue IN (SELECT value FROM json_each(?2)) ORDER BY revision

-- name: survey
-- Up to the queue in which the entry with the number ?3 stands, or all: every text is less than a blob.
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE queue > ?2 AND queue >= ?1 AND queue < ?1 || char(0x10ffff) AND queue <= coalesce((
  SELECT queue FROM farsync_entries WHERE queue > ?2 AND queue >= ?1 AND queue < ?1 || char(0x10ffff)
  ORDER BY queue, revision LIMIT 1 OFFSET ?3 - 1), x'')
ORDER BY queue, revision

-- name: replace
UPDATE farsync_entries SET kind = ?3, version = version + 1, value = coalesce(?4, value) WHERE id = ?1 AND version = ?2
RETURNING id, queue, kind, units, revision, version, since, value, coalesce(session, '')

-- name: delete
DELETE FROM farsync_entries WHERE id = ?1

-- name: tell
UPDATE farsync_entries SET words = ?2 WHERE id = ?1

-- name: heard
SELECT words FROM farsync_entries WHERE id = ?1

-- name: register
SELECT value, version FROM farsync_registers WHERE queue = ?1

-- name: write
-- Writes a register that has the version ?3, 0 if there is none, while the entry ?4 exists, if it is not empty.
INSERT INTO farsync_registers (queue, value, version) SELECT ?1, ?2, ?3 + 1
WHERE ?3 = coalesce((SELECT version FROM farsync_registers WHERE queue = ?1), 0)
  AND (?4 = '' OR EXISTS (SELECT 1 FROM farsync_entries WHERE id = ?4))
ON CONFLICT (queue) DO UPDATE SET value = excluded.value, version = excluded.version

-- name: watch
INSERT OR IGNORE INTO farsync_watches (name, session) SELECT value ->> 'name', ?2 FROM json_each(?1)

-- name: sight
-- Of each target of a Watch on behalf of the entry with the revision ?3 in the queue ?2: its ID, whether it has moved, whether
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
  END,
  coalesce(e.revision = (SELECT max(revision) FROM farsync_entries WHERE queue = ?2 AND revision < ?3), 0),
  e.id IS NOT NULL AND s.id IS NULL
FROM json_each(?1) t
LEFT JOIN farsync_entries e ON e.id = t.value ->> 'id'
LEFT JOIN farsync_sessions s ON s.id = e.session
