-- name: open
INSERT INTO farsync_sessions (id, boot, deadline, ttl, linger) VALUES (?1, ?2, ?3 + ?4, ?4, ?5)

-- name: renew
UPDATE farsync_sessions SET boot = ?2, deadline = ?3 + ttl WHERE id = ?1

-- name: adopt
-- A session of another boot is granted its whole TTL anew, by the clock of this one.
UPDATE farsync_sessions SET boot = ?1, deadline = ?2 + ttl, linger = 1 WHERE boot <> ?1

-- name: expired
SELECT id FROM farsync_sessions WHERE boot = ?1 AND deadline <= ?2

-- name: owners
-- Of some sessions: whether each is over, and whether its end can be seen by its socket.
SELECT o.value, s.id IS NULL OR s.boot = ?2 AND s.deadline <= ?3, coalesce(s.boot = ?2 AND NOT s.linger, 0)
FROM json_each(?1) o LEFT JOIN farsync_sessions s ON s.id = o.value

-- name: end
DELETE FROM farsync_sessions WHERE id = ?1

-- name: clear
DELETE FROM farsync_entries WHERE session = ?1
RETURNING id, queue, kind, units, revision, version, since, NULL, session, words

-- name: forget
DELETE FROM farsync_watches WHERE session = ?1

-- name: create
INSERT INTO farsync_entries (id, queue, session, kind, units, value, since)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?3)
ON CONFLICT (id) DO NOTHING

-- name: find
SELECT id, queue, kind, units, revision, version, since, value, session, words FROM farsync_entries WHERE id = ?1

-- name: look
SELECT id, queue, kind, units, revision, version, since, NULL, session, words FROM farsync_entries WHERE id = ?1

-- name: ahead
SELECT id, queue, kind, units, revision, version, since, NULL, session, words FROM farsync_entries
WHERE queue = ?1 AND revision < ?2 ORDER BY revision DESC LIMIT ?3

-- name: behind
SELECT id, queue, kind, units, revision, version, since, NULL, session, words FROM farsync_entries
WHERE queue = ?1 AND revision > ?2 ORDER BY revision LIMIT 1

-- name: list
SELECT id, queue, kind, units, revision, version, since, value, session, words FROM farsync_entries
WHERE queue = ?1 ORDER BY revision LIMIT ?2

-- name: owned
SELECT id, queue, kind, units, revision, version, since, value, session, words FROM farsync_entries
WHERE session = ?1 AND queue IN (SELECT value FROM json_each(?2)) ORDER BY revision

-- name: survey
-- Up to the queue in which the entry with the number ?3 stands, or all: every text is less than a blob.
SELECT id, queue, kind, units, revision, version, since, value, session, words FROM farsync_entries
WHERE queue > ?2 AND queue >= ?1 AND queue < ?1 || char(0x10ffff) AND queue <= coalesce((
  SELECT queue FROM farsync_entries WHERE queue > ?2 AND queue >= ?1 AND queue < ?1 || char(0x10ffff)
  ORDER BY queue, revision LIMIT 1 OFFSET ?3 - 1), x'')
ORDER BY queue, revision

-- name: replace
UPDATE farsync_entries SET kind = ?3, version = version + 1, value = coalesce(?4, value) WHERE id = ?1 AND version = ?2
RETURNING id, queue, kind, units, revision, version, since, value, session, words

-- name: delete
DELETE FROM farsync_entries WHERE id = ?1
RETURNING id, queue, kind, units, revision, version, since, NULL, session, words

-- name: tell
UPDATE farsync_entries SET words = ?2 WHERE id = ?1
RETURNING id, queue, kind, units, revision, version, since, NULL, session, words

-- name: register
SELECT value, version FROM farsync_registers WHERE queue = ?1

-- name: write
INSERT INTO farsync_registers (queue, value, version) VALUES (?1, ?2, ?3)
ON CONFLICT (queue) DO UPDATE SET value = ?2, version = ?3

-- name: watch
INSERT OR IGNORE INTO farsync_watches (name, session) SELECT value, ?2 FROM json_each(?1)

-- name: watched
DELETE FROM farsync_watches WHERE name = ?1 RETURNING session
