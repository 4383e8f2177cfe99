-- The history of the database is that of the server, which ends when it is restarted or another is asked, and that of
-- the table, which ends when a backup is restored in its place. Every role may ask for both. Behind it are the settings
-- by which the server, its machine or its replica may lose what was confirmed, or nothing. An UNLOGGED table is empty after
-- a crash of the server, and at a replica that is promoted.
-- name: history
extract(epoch FROM pg_postmaster_start_time()) || ' ' || coalesce(pg_relation_filenode('farsync_entries'), 0),
concat_ws(', ', CASE WHEN current_setting('fsync') = 'off' THEN 'fsync = off' END,
  CASE WHEN current_setting('synchronous_commit') = 'off'
    OR current_setting('synchronous_commit') = 'local' AND current_setting('synchronous_standby_names') <> ''
    THEN 'synchronous_commit = ' || current_setting('synchronous_commit') END,
  (SELECT string_agg(relname || ' is UNLOGGED', ', ' ORDER BY relname) FROM pg_class WHERE relpersistence = 'u' AND oid IN (
    to_regclass('farsync_sessions'), to_regclass('farsync_ended'), to_regclass('farsync_queues'), to_regclass('farsync_entries'),
    to_regclass('farsync_registers'))))
-- name: open
INSERT INTO farsync_sessions (id, deadline, ttl) VALUES ($1, farsync_begin_5($2), $2) RETURNING id,
-- use: history
-- name: renew
SELECT id,
-- use: history
FROM farsync_renew($1, 1000) id
-- name: keep
UPDATE farsync_sessions SET deadline = farsync_now() + ttl WHERE id = $1 RETURNING id,
-- use: history
-- name: end
SELECT * FROM farsync_end($1)
-- name: owners
SELECT id, true FROM (
  SELECT id FROM farsync_sessions WHERE deadline <= farsync_now() UNION ALL SELECT session FROM farsync_ended) ended
WHERE id IN (SELECT session FROM farsync_entries WHERE queue = $1 OR id IN (SELECT jsonb_array_elements_text($2)))
LIMIT 64
-- name: bury
SELECT n::text FROM farsync_bury(1000, true) n WHERE n > 0 AND $1::jsonb IS NOT NULL
-- name: create
SELECT * FROM farsync_create($1, $2, $3, $4, $5, $6, $7, $8)
-- name: join
SELECT * FROM farsync_join($1, $2, $3, $4, $5, $6, $7, $8)
-- name: leave
SELECT * FROM farsync_leave($1)
-- name: await
SELECT * FROM farsync_await($1, $2, $3, $4)
-- name: enter
SELECT * FROM farsync_enter($1, $2, $3, $4, $5, $6, $7, $8)
-- name: room
SELECT * FROM farsync_room($1, $2, $3, $4, $5)
-- name: turned
SELECT * FROM farsync_turned($1, $2, $3)
-- name: ahead
SELECT * FROM farsync_ahead($1, $2, $3)
-- name: list
-- A session whose row has gone without its entries will never end them. Those that farsync_ended has are being removed.
SELECT id, queue, kind, units, revision, version, since, value,
  CASE WHEN EXISTS (SELECT 1 FROM farsync_sessions s WHERE s.id = e.session) OR EXISTS (SELECT 1 FROM farsync_ended o WHERE o.session = e.session)
    THEN e.session ELSE '' END
FROM farsync_entries e WHERE queue = $1 ORDER BY revision LIMIT $2
-- name: find
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries WHERE id = $1
-- name: owned
SELECT id, queue, kind, units, revision, version, since, value, coalesce(session, '') FROM farsync_entries
WHERE session = $1 AND ($2::jsonb IS NULL OR queue IN (SELECT jsonb_array_elements_text($2))) ORDER BY revision
-- name: survey
-- As list.
SELECT id, queue, kind, units, revision, version, since, value,
  CASE WHEN EXISTS (SELECT 1 FROM farsync_sessions s WHERE s.id = e.session) OR EXISTS (SELECT 1 FROM farsync_ended o WHERE o.session = e.session)
    THEN e.session ELSE '' END
FROM farsync_entries e WHERE queue > $2 AND starts_with(queue, $1) AND queue <= coalesce(
  (SELECT queue FROM farsync_entries WHERE queue > $2 AND starts_with(queue, $1)
   ORDER BY queue, revision LIMIT 1 OFFSET greatest($3 - 1, 0)),
  (SELECT max(queue) FROM farsync_entries))
ORDER BY queue, revision
-- name: replace
UPDATE farsync_entries SET kind = $3, version = version + 1, value = coalesce($4, value) WHERE id = $1 AND version = $2
RETURNING id, queue, kind, units, revision, version, since, value, coalesce(session, '')
-- name: delete
DELETE FROM farsync_entries WHERE id = $1 RETURNING id
-- name: tell
UPDATE farsync_entries SET words = $2 WHERE id = $1 RETURNING id
-- name: heard
SELECT words FROM farsync_entries WHERE id = $1
-- name: register
SELECT value, version FROM farsync_registers WHERE queue = $1
-- name: write
SELECT * FROM farsync_write($1, $2, $3, $4)
-- name: sight
SELECT * FROM farsync_sight($1, $2, $3)
-- name: watch
SELECT * FROM farsync_watch($1, $2, $3, $4)
-- name: poll
-- As farsync_sight, without its lock: a change that is under way is seen by a later look. What is not expected for long, a word to a
-- holder or the first entry of a queue, counts as if some had to go before. Before a permit all go that it does not fit beside,
-- but for one: those that hold beside one another are not in its way.
SELECT t ->> 'name',
  CASE t ->> 'what'
    WHEN 'registered' THEN (t ->> 'version')::bigint <> coalesce((SELECT version FROM farsync_registers WHERE queue = t ->> 'queue'), 0)
    WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries WHERE queue = t ->> 'queue')
    WHEN 'told' THEN e.id IS NULL OR e.words <> ''
    WHEN 'granted' THEN e.id IS NULL OR (SELECT fits FROM farsync_fits(e.queue, e.revision, e.units))
    WHEN 'changed' THEN e.id IS NULL OR e.version <> (t ->> 'version')::bigint AND (t ->> 'version')::bigint <> 0
      OR e.kind <> 'write' AND t ->> 'kind' = 'write'
    ELSE e.id IS NULL
  END,
  CASE WHEN t ->> 'what' IN ('told', 'joined', 'registered') THEN 4
    WHEN t ->> 'what' = 'granted' THEN (
      SELECT greatest(least(coalesce(sum(n.units), 0) + e.units - coalesce(farsync_size(e.queue), 1) - 1, 1000000), 0)::bigint
      FROM farsync_entries n WHERE n.queue = e.queue AND n.revision < e.revision)
    ELSE (SELECT count(*) FROM farsync_entries n WHERE n.queue = e.queue AND n.revision < e.revision) END
FROM jsonb_array_elements($1) t LEFT JOIN farsync_entries e ON e.id = t ->> 'id'
-- name: guard
-- The lock keeps the entry until the transaction ends, from those that end sessions too.
SELECT true FROM farsync_entries e JOIN farsync_sessions s ON s.id = e.session
WHERE e.id = $1 AND e.revision = $2 AND s.deadline > farsync_now() FOR SHARE OF e
-- name: level
-- For the transaction alone, also without LOCAL: the next begins with the default. With LOCAL the server warns that there is no block.
SET transaction_isolation = 'read committed'
-- name: bound
SELECT set_config('lock_timeout', $1::bigint::text, true) WHERE current_setting('lock_timeout') = '0'
-- name: turn
SELECT farsync_turn($1)
-- name: taken
SELECT EXISTS (SELECT 1 FROM farsync_entries WHERE queue = $1)
