-- In all of them ?1 is the time, in microseconds of the clock of this machine, and ?2 the boot that the clock began
-- with. What sqlstore gives them comes behind. A LIMIT that is a parameter alone has SQLite prepare the statement anew
-- each time, in order to plan by its value: hence the + 0. A column of numbers keeps text that another program has put
-- there. The text is 0 to whoever looks, who would see nothing of all queues otherwise: hence the casts.

-- A session whose deadline is 0 is over: nothing renews it, and no entry joins in it. Its entries are removed in
-- steps, a thousand in a transaction, for other sessions wait meanwhile to write their renewals. The mark is written
-- before the first entry goes. So no lease of the session is left when the next in a queue is granted, however late
-- its process goes on. The row and the socket of the session go with its last entry: whoever finds an entry finds
-- that its session is over, and removes more, if the process that began has died since.
--
-- Each step removes the newest entries that are left. What is ahead of a live entry gets less with each step, for a
-- reader and a permit as for an exclusive entry. So no step grants what the last step would not. The oldest entries
-- go last, so that no entry of the session comes to the head of its queue. There, a candidate would be shown as the
-- leader of an election that it has never won, a waiter as the holder, and an entry of another kind would decide
-- which primitives the path is for.

-- part: removed
-- Removes the entries that were set aside, in a queue whose name is - and their own path, and so no path. In that
-- queue the triggers find no semaphore. Behind each permit that goes they would look through all permits that are
-- granted, which takes a minute for 5,000.
--
-- The trigger tells the sessions that have asked for an entry. These two statements tell the sessions that need not
-- ask. The first tells the session of the entry next behind, by the name of the nearest entry that goes: that entry
-- was the nearest ahead, so the session waits by its name. The session looks, and waits for the next entry ahead if
-- this step has left one, which tells it in turn. The second tells the permits that are granted now behind the oldest
-- that goes. Among them are permits that have held before: their sessions wait for nothing by these names. The
-- session that is over hears no more than its end.
INSERT INTO farsync_told SELECT behind.session, gone.id FROM farsync_entries gone JOIN farsync_entries behind ON behind.revision = (
    SELECT min(revision) FROM farsync_entries WHERE queue = substr(gone.queue, 2) AND revision > gone.revision)
  WHERE gone.queue >= '-' AND gone.queue < '.' AND behind.session IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM farsync_entries WHERE queue = gone.queue AND revision > gone.revision AND revision < behind.revision);
INSERT INTO farsync_told
  WITH RECURSIVE freed (queue, first) AS (
    SELECT substr(queue, 2), min(revision) FROM farsync_entries WHERE queue >= '-' AND queue < '.' GROUP BY queue),
  granted (queue, revision, room) AS (
    SELECT queue, 0, CAST(substr(value, instr(value, ' ') + 1) AS INTEGER) FROM farsync_registers WHERE queue IN (SELECT queue FROM freed)
    UNION ALL
    SELECT g.queue, e.revision, g.room - max(e.units, 0) FROM granted g JOIN farsync_entries e ON e.revision = (
      SELECT min(revision) FROM farsync_entries WHERE queue = g.queue AND revision > g.revision)
    WHERE e.kind = 'permit' AND e.units <= g.room)
  SELECT e.session, e.id FROM freed f JOIN granted g ON g.queue = f.queue AND g.revision > f.first
    JOIN farsync_entries e ON e.revision = g.revision WHERE e.session IS NOT NULL;
DELETE FROM farsync_entries WHERE queue >= '-' AND queue < '.';
DELETE FROM farsync_told WHERE session IN (SELECT id FROM farsync_sessions WHERE deadline = 0);
DELETE FROM farsync_sessions WHERE deadline = 0 AND NOT EXISTS (SELECT 1 FROM farsync_entries WHERE session = farsync_sessions.id);

-- name: bury
-- Ends the sessions that have run out, and those of ?3, whose processes have died.
UPDATE farsync_sessions SET deadline = 0
WHERE boot = ?2 AND deadline <> 0 AND (deadline <= ?1 OR NOT linger AND id IN (SELECT value FROM json_each(?3)));
UPDATE farsync_entries SET queue = '-' || queue WHERE revision IN (
  SELECT revision FROM farsync_entries WHERE session IN (SELECT id FROM farsync_sessions WHERE deadline = 0)
  ORDER BY +revision DESC LIMIT 1000);
-- use: removed
SELECT 'more' WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE deadline = 0)

-- name: end
-- Ends the session ?3, whose own process ends it: its leases have ended there. A second row says that it has entries, for rest.
UPDATE farsync_sessions SET deadline = 0 WHERE id = ?3 AND EXISTS (SELECT 1 FROM farsync_entries WHERE session = ?3);
DELETE FROM farsync_sessions WHERE id = ?3 AND deadline <> 0;
SELECT ?3 UNION ALL SELECT id FROM farsync_sessions WHERE id = ?3

-- name: rest
-- As bury, of the session ?3 alone.
UPDATE farsync_entries SET queue = '-' || queue WHERE revision IN (
  SELECT revision FROM farsync_entries WHERE session = ?3 ORDER BY revision DESC LIMIT 1000);
-- use: removed
SELECT id FROM farsync_sessions WHERE id = ?3

-- name: kept
-- Sessions of another boot, or of another kernel with the same file, are given their TTL once more, by this clock: of
-- those, this clock cannot tell when they end. A session that lives after all writes its own boot again with its next
-- renewal. It is never ended by its socket, which may be of another kernel. Sessions that have run out are marked, so
-- that this is short. A second row says that there are such, for bury. The session ?3 has just been renewed.
UPDATE farsync_sessions SET boot = ?2, deadline = ?1 + ttl, linger = 1 WHERE boot <> ?2 AND deadline <> 0;
UPDATE farsync_sessions SET deadline = 0 WHERE boot = ?2 AND deadline <> 0 AND deadline <= ?1;
SELECT id, '' FROM farsync_sessions JOIN (
  SELECT 1 UNION ALL SELECT 2 WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE deadline = 0))
WHERE id = ?3 AND boot = ?2 AND deadline = ?1 + ttl

-- name: open
INSERT INTO farsync_sessions (id, boot, deadline, ttl, linger) VALUES (?3, ?2, ?1 + ?4, ?4, ?5);
-- use: kept

-- name: renew
-- A file that was put back to an earlier state has an earlier deadline than ?4, or has not got as far as the revision ?5. Then the row stays as it is.
UPDATE farsync_sessions SET boot = ?2, deadline = ?1 + ttl WHERE id = ?3 AND deadline <> 0 AND (boot <> ?2 OR deadline >= ?4)
  AND ?5 <= (SELECT seq FROM sqlite_sequence WHERE name = 'farsync_entries');
-- use: kept

-- name: outlast
-- The session ?3 is not ended by its socket any more: bury and owners pass it over.
UPDATE farsync_sessions SET linger = 1 WHERE id = ?3 AND deadline <> 0 RETURNING id

-- name: back
-- Whether the row is there, and not over, after it was not renewed, or the file has not got as far as the revision ?4.
SELECT EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?3 AND deadline <> 0)
  OR ?4 > (SELECT seq FROM sqlite_sequence WHERE name = 'farsync_entries')

-- name: told
DELETE FROM farsync_told RETURNING session, name

-- name: owners
-- Of the sessions that have one of the entries ?4, or one in the queue ?3: those that have run out, and those whose end their
-- sockets tell.
SELECT id, deadline <= ?1 FROM farsync_sessions WHERE (deadline = 0 OR boot = ?2 AND (deadline <= ?1 OR NOT linger)) AND id IN (
  SELECT session FROM farsync_entries WHERE queue = ?3 OR id IN (SELECT value FROM json_each(?4)))
LIMIT 64

-- name: ahead
-- The register, as an entry without ID; the entry ?4 and what is ahead of it, or the whole queue if that is empty, newest
-- first. No entry if ?4 is not there.
SELECT '', queue, '', 0, 0, CAST(version AS INTEGER), 0, value, '' FROM farsync_registers WHERE queue = ?3
UNION ALL
SELECT * FROM (
  SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), NULL, coalesce(session, '') FROM farsync_entries
  WHERE queue = ?3 AND revision <= CASE ?4
    WHEN '' THEN 9223372036854775807
    ELSE (SELECT revision FROM farsync_entries WHERE id = ?4) END
  ORDER BY revision DESC LIMIT ?5 + 0)

-- part: granted
-- The permits of the queue ?3 that are granted, the oldest while all units fit, with the units that are left. The first row stands for the size.
-- A permit of fewer units than 1, which no Store asks for, takes none.
WITH RECURSIVE granted (revision, room) AS (
  SELECT 0, CAST(substr(value, instr(value, ' ') + 1) AS INTEGER) FROM farsync_registers WHERE queue = ?3
  UNION ALL
  SELECT e.revision, g.room - max(e.units, 0) FROM granted g JOIN farsync_entries e ON e.revision = (
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
SELECT '', queue, '', 0, 0, CAST(version AS INTEGER), 0, value, '' FROM farsync_registers WHERE queue = ?3
UNION ALL
SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), NULL, coalesce(session, '') FROM farsync_entries WHERE id = ?4
UNION ALL
SELECT 'turn:' || ?4, ?3, 'permit', CASE
  WHEN own IN (SELECT revision FROM granted) THEN 0
  WHEN ?4 = '' AND (SELECT room FROM granted ORDER BY revision DESC LIMIT 1) >= ?6 AND (SELECT max(revision) FROM granted) = last THEN 0
  ELSE 9223372036854775807 END, 0, 0, 0, NULL, ''
FROM oldest WHERE as_one AND first < own
UNION ALL
SELECT * FROM (
  SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), NULL, coalesce(session, '') FROM oldest, farsync_entries
  WHERE NOT as_one AND queue = ?3 AND revision < own
  ORDER BY revision DESC LIMIT ?5 + 0)

-- name: turned
-- Whether the permit ?4 in the queue ?3 is granted or gone, or the register has another version than ?5; and one of those granted that is a stray, of no
-- session.
-- use: granted
SELECT e.id IS NULL OR ?5 <> coalesce((SELECT CAST(version AS INTEGER) FROM farsync_registers WHERE queue = ?3), 0) OR e.revision IN (SELECT revision FROM granted),
  coalesce((SELECT h.id FROM granted g JOIN farsync_entries h ON h.revision = g.revision
    WHERE NOT EXISTS (SELECT 1 FROM farsync_sessions WHERE id = h.session) LIMIT 1), '')
FROM (VALUES (1)) LEFT JOIN farsync_entries e ON e.id = ?4

-- name: enter
-- As create.
INSERT OR ROLLBACK INTO farsync_entries (revision, id, queue, session, kind, units, value, since)
SELECT max(?12, 1 + (SELECT seq FROM sqlite_sequence WHERE name = 'farsync_entries')), ?4, ?3, ?8, 'permit', ?6, ?9, ?10
WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?8 AND deadline <> 0 AND (boot <> ?2 OR deadline >= ?11))
ON CONFLICT (id) DO NOTHING;
-- use: room

-- name: create
-- A revision is the time of day, ?12, or one more than the last if that is higher: it rises although the file may be put back to an earlier state,
-- where the last is not the last. A row with an earlier deadline than ?11 is of such a state.
INSERT OR ROLLBACK INTO farsync_entries (revision, id, queue, session, kind, units, value, since)
SELECT max(?12, 1 + (SELECT seq FROM sqlite_sequence WHERE name = 'farsync_entries')), ?4, ?3, ?6, ?7, ?8, ?9, ?10
WHERE EXISTS (SELECT 1 FROM farsync_sessions WHERE id = ?6 AND deadline <> 0 AND (boot <> ?2 OR deadline >= ?11))
ON CONFLICT (id) DO NOTHING;
-- use: ahead

-- name: list
-- A session whose row has gone without its entries, as under a program that has switched triggers off, will never end them.
SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), value,
  coalesce((SELECT id FROM farsync_sessions WHERE id = session), '')
FROM farsync_entries
WHERE queue = ?3 ORDER BY revision LIMIT ?4 + 0

-- name: find
SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), value, coalesce(session, '') FROM farsync_entries WHERE id = ?3

-- name: owned
SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), value, coalesce(session, '') FROM farsync_entries
WHERE session = ?3 AND queue IN (SELECT value FROM json_each(?4)) ORDER BY revision

-- name: survey
-- As list. Up to the queue in which the entry with the number ?5 stands, or all: every text is less than a blob.
SELECT id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), value,
  coalesce((SELECT id FROM farsync_sessions WHERE id = session), '')
FROM farsync_entries
WHERE queue > ?4 AND queue >= ?3 AND queue < ?3 || char(0x10ffff) AND queue <= coalesce((
  SELECT queue FROM farsync_entries WHERE queue > ?4 AND queue >= ?3 AND queue < ?3 || char(0x10ffff)
  ORDER BY queue, revision LIMIT 1 OFFSET ?5 - 1), x'')
ORDER BY queue, revision

-- name: replace
UPDATE farsync_entries SET kind = ?5, version = version + 1, value = coalesce(?6, value) WHERE id = ?3 AND version = ?4
RETURNING id, queue, kind, CAST(units AS INTEGER), revision, CAST(version AS INTEGER), CAST(since AS INTEGER), value, coalesce(session, '')

-- name: delete
DELETE FROM farsync_entries WHERE id = ?3 RETURNING id

-- name: tell
UPDATE farsync_entries SET words = ?4 WHERE id = ?3 RETURNING id

-- name: heard
SELECT words FROM farsync_entries WHERE id = ?3

-- name: register
SELECT value, CAST(version AS INTEGER) FROM farsync_registers WHERE queue = ?3

-- name: write
-- Writes a register that has the version ?5, 0 if there is none, while the entry ?6 exists, if it is not empty.
INSERT INTO farsync_registers (queue, value, version) SELECT ?3, ?4, ?5 + 1
WHERE ?5 = coalesce((SELECT CAST(version AS INTEGER) FROM farsync_registers WHERE queue = ?3), 0)
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
      coalesce((SELECT CAST(version AS INTEGER) FROM farsync_registers WHERE queue = t.value ->> 'queue'), 0)
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
