-- The tables and functions of farsync. Running this again changes nothing, and brings an earlier version up to date.
-- PostgreSQL 14 or later. All is made in the first schema of the search path.

-- Tables that are in use further down the search path would be hidden by others that are made here, and locks be held in both.
DO $$
DECLARE
  used text := (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('farsync_sessions'));
BEGIN
  IF used <> current_schema() THEN
    RAISE EXCEPTION 'farsync has tables in the schema %, which those in the schema % would hide', quote_ident(used), quote_ident(current_schema())
      USING HINT = 'have search_path begin with the schema that is to have the tables, and leave out any other that has some';
  END IF;
END $$;

-- A session lives as long as its row. Times are in microseconds of this server's clock.
CREATE TABLE IF NOT EXISTS farsync_sessions (
  id       text COLLATE "C" PRIMARY KEY,
  deadline bigint NOT NULL,
  ttl      bigint NOT NULL
) WITH (fillfactor = 50);

-- Sessions that are over, of which an entry is left: a transaction with a guard keeps it.
CREATE TABLE IF NOT EXISTS farsync_ended (session text COLLATE "C" PRIMARY KEY);

-- The row of a queue is what those that join it take turns at, and has the last revision.
CREATE TABLE IF NOT EXISTS farsync_queues (
  path text COLLATE "C" PRIMARY KEY,
  last bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS farsync_entries (
  id       text COLLATE "C" PRIMARY KEY,
  queue    text COLLATE "C" NOT NULL,
  session  text COLLATE "C",
  kind     text NOT NULL DEFAULT 'foreign',
  units    bigint NOT NULL DEFAULT 1,
  revision bigint NOT NULL,
  version  bigint NOT NULL DEFAULT 1,
  since    bigint NOT NULL DEFAULT 0,
  value    bytea,
  words    text NOT NULL DEFAULT '',
  UNIQUE (queue, revision)
);

CREATE TABLE IF NOT EXISTS farsync_registers (
  queue   text COLLATE "C" PRIMARY KEY,
  value   text NOT NULL,
  version bigint NOT NULL
);

-- Which session asks to be told of which name, once. A name is the ID of an entry, = and a queue for its register, or + and a
-- queue for the first entry in it.
CREATE TABLE IF NOT EXISTS farsync_watches (
  name    text COLLATE "C",
  session text COLLATE "C",
  PRIMARY KEY (name, session)
);

-- Indexes and triggers are made under locks on their tables. Here they are taken all or none: while one is waited for, which takes as long
-- as a transaction of others, those of other tables keep sessions from being renewed. Nor is whoever waits for this meanwhile told of a
-- deadlock, which takes longer to be seen.
DO $$
DECLARE
  usual text := current_setting('lock_timeout');
BEGIN
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '50', true);
      LOCK TABLE farsync_sessions, farsync_registers, farsync_entries, farsync_watches IN SHARE ROW EXCLUSIVE MODE;
      PERFORM set_config('lock_timeout', usual, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(0.2 + 0.3 * random());
    END;
  END LOOP;
END $$;

CREATE INDEX IF NOT EXISTS farsync_entries_session ON farsync_entries (session);
CREATE INDEX IF NOT EXISTS farsync_watches_session ON farsync_watches (session);

-- now() is the time at which the transaction began.
CREATE OR REPLACE FUNCTION farsync_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- A notification is at most 8,000 bytes long. In place of a longer name it has none, which wakes all that wait. A channel's name is at most
-- 63 bytes long: no session with a longer ID can listen, and nobody else may fail for one.
CREATE OR REPLACE FUNCTION farsync_tell(session text, name text) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_notify('farsync_' || coalesce(session, ''), CASE WHEN octet_length(name) < 8000 THEN name ELSE '' END)
  WHERE octet_length(session) <= 55 IS NOT FALSE
$$;

-- An entry whose ID ends in a dot may have a key, an advisory lock that a connection of its session keeps, from before the entry can be
-- seen until it is deleted. The key is a wake-up and nothing more: a waiter that gets it looks at the table.
CREATE OR REPLACE FUNCTION farsync_has_key(id text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT right(id, 1) = '.'
$$;
CREATE OR REPLACE FUNCTION farsync_key(id text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended(id, 7236548104) -- of our own making
$$;

-- Which permits of a queue are granted is decided here: the oldest, while all their units fit. Where there is no size, or none that is a size,
-- what is alone ahead is granted and nothing else.
CREATE OR REPLACE FUNCTION farsync_size(of_queue text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT least(split_part(value, ' ', 2)::numeric, 9223372036854775807)::bigint FROM farsync_registers
  WHERE queue = of_queue AND value ~ '^[1-9][0-9]{0,18} [1-9][0-9]{0,18}$'
$$;

-- Whether units that stand at a revision of a queue fit beside all that is ahead. It reads no further than to where the units end, and shows
-- what it has read. If they do not fit, leaving has those of which some may just be being deleted, where the units would fit without them. A permit
-- of fewer units than 1, which no Store asks for, takes none.
CREATE OR REPLACE FUNCTION farsync_fits(
  of_queue text, at_revision bigint, of_units bigint, OUT fits boolean, OUT ahead text[], OUT leaving text[]
) LANGUAGE plpgsql STABLE AS $$
DECLARE
  room bigint; -- null where all that is ahead leaves too little
  spare bigint; -- the same, but for what may be leaving
  other record;
BEGIN
  fits := true;
  ahead := '{}';
  leaving := '{}';
  FOR other IN SELECT e.id, e.kind, greatest(e.units, 0) AS units, e.xmax <> 0 AS leaves FROM farsync_entries e
    WHERE e.queue = of_queue AND e.revision < at_revision ORDER BY e.revision
  LOOP
    IF fits THEN
      fits := false; -- something is ahead
      room := farsync_size(of_queue);
      spare := room;
    END IF;
    ahead := ahead || other.id;
    room := CASE WHEN other.kind = 'permit' AND other.units <= room THEN room - other.units END;
    IF other.leaves THEN
      leaving := leaving || other.id;
    ELSE
      spare := CASE WHEN other.kind = 'permit' AND other.units <= spare THEN spare - other.units END;
    END IF;
    IF (of_units <= spare) IS NOT TRUE AND (of_units <= room) IS NOT TRUE THEN
      leaving := '{}';
      RETURN;
    END IF;
  END LOOP;
  fits := fits OR (of_units <= room) IS TRUE;
END
$$;

-- Tells the sessions of the permits that fit since units of an entry at a revision of their queue have gone; or of all behind it that fit,
-- if it does not say how many they were.
--
-- Of two that delete at the same time neither sees that the other's entry has gone. But one of them has locked it before the other looks
-- here, and counts it as gone: a row that something has locked, as xmax shows, is locked here too, unless that would have to wait. So has what a
-- waiter that has come since, and that this does not see, finds when it looks: see farsync_turned. What is counted as gone is told as well: it
-- stays if what deletes it fails, and none else would tell it that it fits.
CREATE OR REPLACE FUNCTION farsync_let_in(of_queue text, at_revision bigint, of_units bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  room bigint := farsync_size(of_queue); -- null where there is no more
  before bigint := room; -- what room there was while the units were taken
  passed boolean := false;
  head boolean := true;
  stays boolean;
  fits boolean;
  other record;
BEGIN
  FOR other IN SELECT e.id, e.session, e.revision, e.xmax <> 0 AS leaves,
      CASE e.kind WHEN 'permit' THEN greatest(e.units, 0) ELSE 9223372036854775807 END AS units
    FROM farsync_entries e WHERE e.queue = of_queue ORDER BY e.revision
  LOOP
    IF other.revision > at_revision AND NOT passed THEN
      passed := true;
      before := CASE WHEN of_units <= before THEN before - greatest(of_units, 0) END;
    END IF;
    stays := true;
    IF other.leaves THEN
      PERFORM 1 FROM farsync_entries e WHERE e.id = other.id FOR KEY SHARE SKIP LOCKED;
      stays := FOUND;
    END IF;
    fits := head OR (other.units <= room) IS TRUE;
    EXIT WHEN stays AND NOT fits;
    IF passed AND fits AND (other.units <= before) IS NOT TRUE THEN
      PERFORM farsync_tell(other.session, other.id);
    END IF;
    before := CASE WHEN other.units <= before THEN before - other.units END;
    CONTINUE WHEN NOT stays;
    room := CASE WHEN other.units <= room THEN room - other.units END;
    head := false;
  END LOOP;
END
$$;

-- Something has moved that the entry next behind a revision may wait for. It need not ask to be told: a waiter for a mutex, whose only blocker is the
-- entry next ahead, writes nothing in order to wait, nor does a permit. Where an entry of another kind is next behind, and is just being deleted by
-- what may have looked before, permits behind it are looked for. Of a queue without a register it is known that it has none to let in.
CREATE OR REPLACE FUNCTION farsync_behind(moved text, of_queue text, at_revision bigint, of_units bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  next record;
BEGIN
  SELECT session, kind, xmax <> 0 AS leaves INTO next FROM farsync_entries
    WHERE queue = of_queue AND revision > at_revision ORDER BY revision LIMIT 1;
  IF next.kind = 'permit' THEN
    PERFORM farsync_let_in(of_queue, at_revision, of_units);
    RETURN;
  ELSIF next.session IS NOT NULL THEN
    PERFORM farsync_tell(next.session, moved);
  END IF;
  IF next.leaves THEN
    PERFORM farsync_let_in(of_queue, at_revision, NULL) FROM farsync_registers WHERE queue = of_queue;
  END IF;
END
$$;

-- A name has moved. Those that have asked are told, and whoever is behind. There are no queue and no revision where nothing is. Each statement here
-- sees what was committed before it began. What is locked is being deleted, with a session that is over.
CREATE OR REPLACE FUNCTION farsync_moved(moved text, of_queue text, at_revision bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  other text;
BEGIN
  IF EXISTS (SELECT 1 FROM farsync_watches WHERE name = moved) THEN
    FOR other IN
      DELETE FROM farsync_watches w USING (
        SELECT name, session FROM farsync_watches WHERE name = moved FOR UPDATE SKIP LOCKED
      ) asked WHERE w.name = asked.name AND w.session = asked.session RETURNING w.session
    LOOP
      PERFORM farsync_tell(other, moved);
    END LOOP;
  END IF;
  IF of_queue IS NOT NULL THEN
    PERFORM farsync_behind(moved, of_queue, at_revision, NULL);
  END IF;
END
$$;

-- Two that join take turns, or each would see nothing ahead. Revisions are handed out in turn, so their order is that
-- of commits. They go on with the time: a queue whose row was lost does not count from the beginning. The turn is had
-- with the row of the queue. Those that wait for a row are all woken by each change of it, in no order, so before it
-- they stand in line for an advisory lock, which wakes them one by one, in the order in which they came.

-- The number of that lock has the table with the row in it: numbers belong to the database, and another schema has a
-- table of its own. What is under way while this is brought up to date may have the number of an earlier version, which
-- was that of the path alone. It has the row.
CREATE OR REPLACE FUNCTION farsync_line(of_queue text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(of_queue, 7236548105 # ('farsync_queues'::regclass::oid::bigint << 32)) -- of our own making
$$;

-- Waits in line, and not for ever: every role of the database may take any number, and keep it. Where the row is free
-- nobody has the turn, whoever has the number, and the row is had at once. What finds the row locked goes on in line
-- for two seconds, and then waits for the row: the server tells of a deadlock there, of transactions that lock paths in
-- other orders, and not in short waits. Whoever has a bound, which holds for each wait, stands in line once, or not at
-- all if the bound is shorter than that. An assignment calls it with less than PERFORM does.
CREATE OR REPLACE FUNCTION farsync_wait_in_line(of_queue text, bound text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET lock_timeout = '250ms' AS $$
BEGIN
  FOR waits IN 1 .. CASE WHEN bound = '0' THEN 8 WHEN bound::interval < '250ms' THEN 0 ELSE 1 END LOOP
    BEGIN
      RETURN pg_advisory_xact_lock(farsync_line(of_queue)) IS NULL;
    EXCEPTION WHEN lock_not_available THEN -- so it is in no log
    END;
    PERFORM 1 FROM farsync_queues WHERE path = of_queue FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND OR NOT EXISTS (SELECT 1 FROM farsync_queues WHERE path = of_queue) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;

CREATE OR REPLACE FUNCTION farsync_turn(of_queue text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  called boolean;
  is_last bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock(farsync_line(of_queue)) THEN -- not before those that wait
    called := farsync_wait_in_line(of_queue, current_setting('lock_timeout'));
  END IF;
  INSERT INTO farsync_queues AS q (path, last) VALUES (of_queue, farsync_now())
  ON CONFLICT (path) DO UPDATE SET last = greatest(q.last + 1, excluded.last) RETURNING last INTO is_last;
  RETURN is_last;
END
$$;

-- Triggers serve whatever changes the tables. farsync_join and farsync_leave, of which each acquisition has one, do themselves what the
-- triggers would, with fewer statements: what another process of the server has just done is cold in this one. Then the setting
-- farsync.joined or farsync.left has the ID of the entry, for as long as the statement that the trigger would follow.
-- An earlier farsync_leave, which may be under way, sets another, so its triggers run.

-- The revision of an entry is that of the turn which its transaction has, or takes here.
CREATE OR REPLACE FUNCTION farsync_entries_joining() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (new.revision = (SELECT last FROM farsync_queues WHERE path = new.queue)) IS NOT TRUE THEN
    new.revision := farsync_turn(new.queue);
  END IF;
  RETURN new;
END
$$;
CREATE OR REPLACE TRIGGER farsync_entries_joining BEFORE INSERT ON farsync_entries
  FOR EACH ROW WHEN (current_setting('farsync.joined', true) IS DISTINCT FROM new.id) EXECUTE FUNCTION farsync_entries_joining();

CREATE OR REPLACE FUNCTION farsync_entries_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF tg_op = 'INSERT' THEN
    PERFORM farsync_moved('+' || new.queue, NULL, NULL);
  ELSIF old.words <> new.words AND old.version = new.version THEN
    PERFORM farsync_moved(old.id, NULL, NULL);
  ELSE
    PERFORM farsync_moved(old.id, old.queue, old.revision);
  END IF;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER farsync_entries_moved AFTER INSERT OR UPDATE ON farsync_entries
  FOR EACH ROW WHEN (current_setting('farsync.joined', true) IS DISTINCT FROM new.id) EXECUTE FUNCTION farsync_entries_moved();

-- A session whose entry has gone is next behind nothing any more, and has to ask for what it waits for. Of many that go at once each queue
-- is read once, and of those that stand one behind the other only what is behind the last is told: to look behind each would be to
-- pass all the others each time.
CREATE OR REPLACE FUNCTION farsync_entries_gone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_gone farsync_entries;
BEGIN
  IF (SELECT count(*) FROM gone) = 1 THEN
    SELECT * INTO is_gone FROM gone;
    PERFORM farsync_moved(is_gone.id, NULL, NULL);
    PERFORM farsync_behind(is_gone.id, is_gone.queue, is_gone.revision, CASE is_gone.kind WHEN 'permit' THEN is_gone.units END);
    IF EXISTS (SELECT 1 FROM farsync_entries WHERE queue = is_gone.queue AND revision < is_gone.revision) THEN
      PERFORM farsync_tell(is_gone.session, is_gone.id);
    END IF;
    RETURN NULL;
  END IF;
  PERFORM farsync_moved(asked.name, NULL, NULL) FROM (
    SELECT DISTINCT name FROM farsync_watches WHERE name IN (SELECT id FROM gone)
  ) asked;
  PERFORM farsync_tell(behind.session, behind.ahead) FROM (
    SELECT session, kind, stands, lag(id) OVER line AS ahead, lag(stands) OVER line AS ahead_stands FROM (
      SELECT id, queue, revision, session, kind, false AS stands FROM gone
      UNION ALL SELECT id, queue, revision, session, kind, true FROM farsync_entries WHERE queue IN (SELECT queue FROM gone)
    ) entries WINDOW line AS (PARTITION BY queue ORDER BY revision)
  ) behind WHERE behind.stands AND NOT behind.ahead_stands AND behind.kind <> 'permit';
  PERFORM farsync_let_in(g.queue, g.revision, g.units) FROM (
    SELECT queue, min(revision) AS revision, CASE WHEN bool_and(kind = 'permit') THEN least(sum(greatest(units, 0)), 9223372036854775807)::bigint END AS units
    FROM gone GROUP BY queue) g
    WHERE EXISTS (SELECT 1 FROM farsync_entries e WHERE e.queue = g.queue AND e.kind = 'permit');
  PERFORM farsync_tell(s.id, g.id) FROM gone g JOIN farsync_sessions s ON s.id = g.session;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER farsync_entries_gone AFTER DELETE ON farsync_entries
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT WHEN (coalesce(current_setting('farsync.left', true), '') = '')
  EXECUTE FUNCTION farsync_entries_gone();

CREATE OR REPLACE FUNCTION farsync_registers_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM farsync_moved('=' || new.queue, NULL, NULL);
  PERFORM farsync_tell(session, '=' || new.queue) FROM (
    SELECT DISTINCT session FROM farsync_entries WHERE queue = new.queue AND kind = 'permit' AND session IS NOT NULL) waiting;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER farsync_registers_moved AFTER INSERT OR UPDATE ON farsync_registers
  FOR EACH ROW EXECUTE FUNCTION farsync_registers_moved();

-- Removes what is left of a session that is over beside its entries, once those have gone.
CREATE OR REPLACE FUNCTION farsync_forget(over text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  DELETE FROM farsync_watches w USING (
    SELECT name, session FROM farsync_watches WHERE session = over FOR UPDATE SKIP LOCKED
  ) asked WHERE w.name = asked.name AND w.session = asked.session;
  DELETE FROM farsync_ended WHERE session = over AND NOT EXISTS (SELECT 1 FROM farsync_entries WHERE session = over);
END
$$;

-- Removes what sessions that are over have left, most entries of it, or all if that is null, and returns how many they were. An entry
-- that is locked is left for later, and never waited for. (The array has the rows found once, whatever the plan.)
CREATE OR REPLACE FUNCTION farsync_sweep(most bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  over text;
  removed bigint;
  swept bigint := 0;
BEGIN
  FOR over IN SELECT session FROM farsync_ended FOR UPDATE SKIP LOCKED LOOP
    DELETE FROM farsync_entries WHERE id = ANY (ARRAY(
      SELECT id FROM farsync_entries WHERE session = over LIMIT most - swept FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    swept := swept + removed;
    PERFORM farsync_forget(over);
    EXIT WHEN swept >= most;
  END LOOP;
  RETURN swept;
END
$$;

-- However many entries a session has, no statement that ends it takes long for that: whoever ends more than a thousand asks farsync_bury
-- for the rest.
CREATE OR REPLACE FUNCTION farsync_sessions_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO farsync_ended SELECT id FROM gone;
  IF FOUND THEN
    PERFORM farsync_sweep(1000);
  END IF;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER farsync_sessions_over AFTER DELETE ON farsync_sessions
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION farsync_sessions_over();

-- A trigger runs with the search path of whatever changes the table, which is an operator's, or empty, as that of pg_restore. So it sets the one
-- of now, by the names that it has now. It is that of Stores, or what both call would be planned anew each time.
DO $$
DECLARE
  path text := (
    SELECT string_agg(quote_ident(s), ', ' ORDER BY n) FROM unnest(current_schemas(false)) WITH ORDINALITY AS of (s, n) WHERE s !~ '^pg_temp_');
  of_trigger text;
BEGIN
  FOREACH of_trigger IN ARRAY ARRAY['farsync_entries_joining', 'farsync_entries_moved', 'farsync_entries_gone', 'farsync_registers_moved',
    'farsync_sessions_over']
  LOOP
    EXECUTE format('ALTER FUNCTION %I.%I() SET search_path = %s', current_schema(), of_trigger, path);
  END LOOP;
END $$;

-- Ends the sessions that have run out, and returns of how many entries, of which more may be left: it is called again until there were
-- none. A session that is being renewed, or creates an entry, is not waited for. Where it has to, it waits for others that end some just then,
-- which they do in short steps, so that nobody takes what they have not come to for entries of sessions that live. Those that wait are one at a
-- time: what each has swept is locked, and it would wait for the others'. Every renewal calls this, and mostly there is nothing to end: then it
-- deletes nothing, which would have the trigger run, and reads the clock once, not for each session.
CREATE OR REPLACE FUNCTION farsync_bury(most bigint, waits boolean) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  as_of bigint;
  swept bigint := 0;
BEGIN
  IF waits THEN
    PERFORM farsync_turn(''); -- which is the path of no lock
  END IF;
  as_of := farsync_now();
  IF EXISTS (SELECT 1 FROM farsync_sessions WHERE deadline <= as_of) THEN
    DELETE FROM farsync_sessions WHERE id = ANY (ARRAY(
      SELECT id FROM farsync_sessions WHERE deadline <= as_of FOR UPDATE SKIP LOCKED));
  END IF;
  IF waits OR EXISTS (SELECT 1 FROM farsync_ended) THEN
    swept := farsync_sweep(most);
  END IF;
  IF swept = 0 AND waits THEN
    PERFORM 1 FROM farsync_ended FOR UPDATE;
    swept := farsync_sweep(most);
  END IF;
  RETURN swept;
END
$$;

-- Shows the session if it lives, and once more if farsync_bury is to be called again.
CREATE OR REPLACE FUNCTION farsync_renew(of_session text, most bigint) RETURNS SETOF text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN QUERY UPDATE farsync_sessions SET deadline = farsync_now() + ttl WHERE id = of_session RETURNING id;
  IF FOUND AND farsync_bury(most, false) > 0 THEN
    RETURN NEXT of_session;
  END IF;
END
$$;

-- These are for programs that know no other, and for Stores of an earlier version, which call them once.
CREATE OR REPLACE FUNCTION farsync_bury() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM farsync_bury(NULL, true);
END
$$;
CREATE OR REPLACE FUNCTION farsync_bury(most bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT farsync_bury(most, true)
$$;
CREATE OR REPLACE FUNCTION farsync_renew(session text) RETURNS SETOF text LANGUAGE sql VOLATILE AS $$
  SELECT farsync_renew(session, NULL) LIMIT 1
$$;
CREATE OR REPLACE FUNCTION farsync_sweep() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM farsync_sweep(NULL);
END
$$;

-- Its own entries are waited for, a guard's too. Of what other sessions have left it takes no more than a step.
CREATE OR REPLACE FUNCTION farsync_end(over text) RETURNS SETOF text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM 1 FROM farsync_entries WHERE session = over ORDER BY id FOR UPDATE;
  RETURN QUERY DELETE FROM farsync_sessions WHERE id = over RETURNING id;
  DELETE FROM farsync_entries WHERE session = over;
  PERFORM farsync_forget(over);
END
$$;

-- The register, as an entry without ID; the entry and what is ahead of it, or the whole queue if the ID is empty, newest first. One
-- statement sees one state.
CREATE OR REPLACE FUNCTION farsync_ahead(of_queue text, of_id text, most bigint) RETURNS TABLE (
  id text, queue text, kind text, units bigint, revision bigint, version bigint, since bigint, value bytea, session text
) LANGUAGE sql STABLE AS $$
  SELECT * FROM (
    SELECT '' AS id, r.queue, '', 0::bigint, 0::bigint AS revision, r.version, 0::bigint, convert_to(r.value, 'UTF8'), ''
    FROM farsync_registers r WHERE r.queue = of_queue
    UNION ALL (
      SELECT e.id, e.queue, e.kind, e.units, e.revision, e.version, e.since, NULL, coalesce(e.session, '') FROM farsync_entries e
      WHERE e.queue = of_queue AND e.revision <= CASE of_id
        WHEN '' THEN 9223372036854775807 ELSE (SELECT s.revision FROM farsync_entries s WHERE s.id = of_id) END
      ORDER BY e.revision DESC LIMIT most)
  ) shown ORDER BY shown.id <> '', shown.revision DESC
$$;

-- What each acquisition calls is planned once a connection, and never to read a whole table: after a vacuum, of few rows in many pages, the
-- planner takes an index for expensive, and until the next one the table fills with what was deleted.

-- A session that is over gets no entry. It is locked once the turn is had: to wait for a turn can take as long as a transaction of others, and
-- meanwhile a process that has died could not be buried.
CREATE OR REPLACE FUNCTION farsync_create(
  of_queue text, of_id text, most bigint, of_session text, of_kind text, of_units bigint, of_value bytea, of_since bigint
) RETURNS TABLE (
  id text, queue text, kind text, units bigint, revision bigint, version bigint, since bigint, value bytea, session text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  turn bigint := farsync_turn(of_queue);
BEGIN
  INSERT INTO farsync_entries AS e (id, queue, session, kind, units, value, since, revision)
    SELECT of_id, of_queue, s.id, of_kind, of_units, of_value, of_since, turn FROM farsync_sessions s WHERE s.id = of_session
    FOR KEY SHARE OF s
  ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT * FROM farsync_ahead(of_queue, of_id, most);
END
$$;

-- As farsync_ahead, for a permit; for one that would join now if the ID is empty. In place of all that is ahead it shows one permit that is none, of no
-- units if of_id is granted, and otherwise of more than fit. It has those two for one state. Where the oldest entry is no permit, or the size
-- is given and another is declared, it shows what is there.
CREATE OR REPLACE FUNCTION farsync_room(of_queue text, of_id text, most bigint, of_units bigint, of_size bigint) RETURNS TABLE (
  id text, queue text, kind text, units bigint, revision bigint, version bigint, since bigint, value bytea, session text
) LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  own bigint := 9223372036854775807;
  oldest text;
  granted boolean;
BEGIN
  IF of_id <> '' THEN
    SELECT e.revision INTO own FROM farsync_entries e WHERE e.id = of_id;
  END IF;
  SELECT e.kind INTO oldest FROM farsync_entries e WHERE e.queue = of_queue AND e.revision < own ORDER BY e.revision LIMIT 1;
  IF oldest IS DISTINCT FROM 'permit' OR of_size <> 0 AND NOT EXISTS (
    SELECT 1 FROM farsync_registers r WHERE r.queue = of_queue AND split_part(r.value, ' ', 1) = of_size::text)
  THEN
    RETURN QUERY SELECT * FROM farsync_ahead(of_queue, of_id, most);
    RETURN;
  END IF;
  SELECT f.fits INTO granted FROM farsync_fits(of_queue, own, of_units) f;
  RETURN QUERY SELECT * FROM farsync_ahead(of_queue, of_id, CASE of_id WHEN '' THEN 0 ELSE 1 END)
    UNION ALL SELECT 'turn:' || of_id, of_queue, 'permit', CASE WHEN granted THEN 0 ELSE 9223372036854775807 END, 0, 0, 0, NULL, '';
END
$$;

-- As farsync_create, for a permit: shows what farsync_room does.
CREATE OR REPLACE FUNCTION farsync_enter(
  of_queue text, of_id text, most bigint, of_units bigint, of_size bigint, of_session text, of_value bytea, of_since bigint
) RETURNS TABLE (
  id text, queue text, kind text, units bigint, revision bigint, version bigint, since bigint, value bytea, session text
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM 1 FROM farsync_create(of_queue, of_id, 1, of_session, 'permit', of_units, of_value, of_since);
  RETURN QUERY SELECT * FROM farsync_room(of_queue, of_id, most, of_units, of_size);
END
$$;

-- Whether a permit that listens is granted, is gone, or the register of its queue has another version; and an entry
-- ahead that is a stray, of no session. If nothing has moved, whoever deletes what is ahead, and looks for whom that
-- lets in, sees the permit: it locks its entry first, and locks none earlier than it is read here. What it has locked
-- before is waited for, in the order in which farsync_end locks. But such a transaction may itself wait for a guard,
-- for as long as that lasts, and a Store has few connections: after a tenth of a second moved is true, and the waiter
-- looks and asks again.
CREATE OR REPLACE FUNCTION farsync_turned(of_queue text, of_id text, of_version bigint, OUT moved boolean, OUT stray text)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '100ms' AS $$
DECLARE
  own record;
  may record;
BEGIN
  stray := '';
  SELECT e.revision, e.units INTO own FROM farsync_entries e WHERE e.id = of_id;
  moved := own.revision IS NULL OR of_version <> coalesce((SELECT r.version FROM farsync_registers r WHERE r.queue = of_queue), 0);
  IF moved THEN
    RETURN;
  END IF;
  SELECT * INTO may FROM farsync_fits(of_queue, own.revision, own.units);
  IF NOT may.fits AND may.leaving <> '{}' THEN
    BEGIN
      PERFORM 1 FROM farsync_entries e WHERE e.id = ANY (may.leaving) ORDER BY e.id FOR KEY SHARE;
    EXCEPTION WHEN lock_not_available THEN -- so it is in no log
      moved := true;
      RETURN;
    END;
    SELECT * INTO may FROM farsync_fits(of_queue, own.revision, own.units);
  END IF;
  moved := may.fits;
  IF NOT moved THEN
    stray := coalesce((SELECT e.id FROM farsync_entries e WHERE e.id = ANY (may.ahead)
      AND NOT EXISTS (SELECT 1 FROM farsync_sessions s WHERE s.id = e.session)
      AND NOT EXISTS (SELECT 1 FROM farsync_ended o WHERE o.session = e.session) LIMIT 1), '');
  END IF;
END
$$;

-- As farsync_create, on a connection that keeps the key of the entry, which is no permit. No other has the key, unless an earlier attempt has.
-- An assignment calls a function with less than PERFORM does, which makes a statement of it.
CREATE OR REPLACE FUNCTION farsync_join(
  of_queue text, of_id text, most bigint, of_session text, of_kind text, of_units bigint, of_value bytea, of_since bigint
) RETURNS TABLE (
  id text, queue text, kind text, units bigint, revision bigint, version bigint, since bigint, value bytea, session text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  called boolean;
  setting text;
  turn bigint;
  joined boolean;
BEGIN
  called := pg_try_advisory_lock(farsync_key(of_id));
  IF NOT pg_try_advisory_xact_lock(farsync_line(of_queue)) THEN -- as in farsync_turn
    called := farsync_wait_in_line(of_queue, current_setting('lock_timeout'));
  END IF;
  UPDATE farsync_queues SET last = greatest(last + 1, farsync_now()) WHERE path = of_queue RETURNING last INTO turn;
  IF NOT FOUND THEN
    turn := farsync_turn(of_queue);
  END IF;
  setting := set_config('farsync.joined', of_id, true);
  INSERT INTO farsync_entries AS e (id, queue, session, kind, units, value, since, revision)
    SELECT of_id, of_queue, s.id, of_kind, of_units, of_value, of_since, turn FROM farsync_sessions s WHERE s.id = of_session
    FOR KEY SHARE OF s
  ON CONFLICT (id) DO NOTHING;
  joined := FOUND;
  setting := set_config('farsync.joined', '', true);
  IF NOT joined THEN
    RETURN QUERY SELECT * FROM farsync_ahead(of_queue, of_id, most);
    RETURN;
  END IF;
  IF EXISTS (SELECT 1 FROM farsync_watches WHERE name = '+' || of_queue) THEN
    PERFORM farsync_moved('+' || of_queue, NULL, NULL);
  END IF;
  RETURN QUERY SELECT e.id, e.queue, e.kind, e.units, e.revision, e.version, e.since, NULL::bytea, coalesce(e.session, '')
    FROM farsync_entries e WHERE e.queue = of_queue AND e.revision <= turn ORDER BY e.revision DESC LIMIT most;
END
$$;

-- Deletes an entry on the connection that keeps its key, and tells whom farsync_entries_gone would, but for the entry next behind if that has a
-- key: this key wakes it, and every connection that listens costs the server at each notification. The transaction has the key once more than the
-- connection, so the key is free after the commit: what it woke earlier would have to wait again, for the commit.
CREATE OR REPLACE FUNCTION farsync_leave(of_id text) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  called boolean;
  setting text;
  gone record;
  left_behind record;
BEGIN
  setting := set_config('farsync.left', of_id, true);
  DELETE FROM farsync_entries e WHERE e.id = of_id RETURNING e.queue, e.revision, e.session INTO gone;
  setting := set_config('farsync.left', '', true);
  IF gone.revision IS NOT NULL THEN
    SELECT EXISTS (SELECT 1 FROM farsync_watches WHERE name = of_id) AS asked,
      EXISTS (SELECT 1 FROM farsync_entries e WHERE e.queue = gone.queue AND e.revision < gone.revision) AS ahead,
      behind.id, behind.session, behind.kind, behind.leaves INTO left_behind
    FROM (VALUES (1)) here LEFT JOIN LATERAL (
      SELECT e.id, e.session, e.kind, e.xmax <> 0 AS leaves FROM farsync_entries e WHERE e.queue = gone.queue AND e.revision > gone.revision ORDER BY e.revision LIMIT 1
    ) behind ON true;
    IF left_behind.asked THEN
      PERFORM farsync_moved(of_id, NULL, NULL);
    END IF;
    IF left_behind.kind = 'permit' THEN
      PERFORM farsync_let_in(gone.queue, gone.revision, NULL);
    ELSIF left_behind.session IS NOT NULL AND NOT farsync_has_key(left_behind.id) THEN
      PERFORM farsync_tell(left_behind.session, of_id);
    END IF;
    IF left_behind.leaves AND left_behind.kind <> 'permit' THEN
      PERFORM farsync_let_in(gone.queue, gone.revision, NULL) FROM farsync_registers r WHERE r.queue = gone.queue; -- as in farsync_behind
    END IF;
    IF left_behind.ahead THEN
      PERFORM farsync_tell(gone.session, of_id);
    END IF;
    RETURN NEXT of_id;
  END IF;
  called := pg_try_advisory_xact_lock(farsync_key(of_id));
  called := pg_advisory_unlock(farsync_key(of_id));
END
$$;

-- Waits for the key of an entry ahead, and then for a change of it that is under way, and shows what farsync_ahead does, but for the register. What
-- waits keeps vacuum from cleaning up what is deleted meanwhile, so it does not wait for long.
CREATE OR REPLACE FUNCTION farsync_await(of_queue text, of_id text, most bigint, behind text) RETURNS TABLE (
  id text, queue text, kind text, units bigint, revision bigint, version bigint, since bigint, value bytea, session text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  called boolean;
  setting text;
BEGIN
  IF (SELECT count(*) FROM farsync_entries e WHERE e.id IN (of_id, behind)) = 2 THEN
    BEGIN
      setting := set_config('lock_timeout', '900', true);
      called := pg_advisory_xact_lock_shared(farsync_key(behind)) IS NULL;
      PERFORM 1 FROM farsync_entries e WHERE e.id = behind FOR KEY SHARE;
    EXCEPTION WHEN lock_not_available THEN -- so it is in no log
    END;
  END IF;
  RETURN QUERY SELECT e.id, e.queue, e.kind, e.units, e.revision, e.version, e.since, NULL::bytea, coalesce(e.session, '')
    FROM farsync_entries e WHERE e.queue = of_queue AND e.revision <= (SELECT s.revision FROM farsync_entries s WHERE s.id = of_id)
    ORDER BY e.revision DESC LIMIT most;
END
$$;

-- Of each target of a Watch on behalf of the entry with a revision in a queue: its ID, whether it has moved, whether it
-- is next ahead of that entry and tells it without having been asked, and whether it is a stray, of no session. The
-- lock waits for a change of the entry that is under way. A later change waits for this, and then sees who is behind.
-- What is next ahead is next until it goes, for nothing is inserted in between. While a change is under way for longer
-- than a tenth of a second, as one is that waits for a guard, all counts as moved: see farsync_turned.
CREATE OR REPLACE FUNCTION farsync_sight(targets jsonb, of_queue text, of_revision bigint) RETURNS TABLE (
  id text, moved boolean, next boolean, stray boolean
) LANGUAGE plpgsql VOLATILE SET lock_timeout = '100ms' AS $$
DECLARE
  under_way boolean := false;
BEGIN
  BEGIN
    PERFORM 1 FROM farsync_entries e WHERE e.id IN (SELECT t ->> 'id' FROM jsonb_array_elements(targets) t) ORDER BY e.id FOR SHARE;
  EXCEPTION WHEN lock_not_available THEN -- so it is in no log
    under_way := true;
  END;
  RETURN QUERY SELECT coalesce(e.id, ''),
    under_way OR CASE t ->> 'what'
      WHEN 'registered' THEN (t ->> 'version')::bigint <>
        coalesce((SELECT r.version FROM farsync_registers r WHERE r.queue = t ->> 'queue'), 0)
      WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries j WHERE j.queue = t ->> 'queue')
      WHEN 'told' THEN e.id IS NULL OR e.words <> ''
      WHEN 'changed' THEN e.id IS NULL OR e.version <> (t ->> 'version')::bigint AND (t ->> 'version')::bigint <> 0
        OR e.kind <> 'write' AND t ->> 'kind' = 'write'
      ELSE e.id IS NULL
    END,
    coalesce(e.revision = (SELECT max(n.revision) FROM farsync_entries n WHERE n.queue = of_queue AND n.revision < of_revision)
      AND EXISTS (SELECT 1 FROM farsync_entries n WHERE n.queue = of_queue AND n.revision = of_revision
        AND n.kind <> 'permit' AND NOT (farsync_has_key(n.id) AND farsync_has_key(e.id))), false),
    e.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM farsync_sessions s WHERE s.id = e.session)
      AND NOT EXISTS (SELECT 1 FROM farsync_ended o WHERE o.session = e.session)
  FROM jsonb_array_elements(targets) t LEFT JOIN farsync_entries e ON e.id = t ->> 'id';
END
$$;

-- Asks for the targets, unless one has moved, and shows what farsync_sight does. A register, and the first entry of a queue, change
-- in their queue's turn. It looks once: of two looks the first might find a change under way, which then is taken back, and the second
-- that nothing has moved, so that nobody is told who takes that for an answer.
CREATE OR REPLACE FUNCTION farsync_watch(targets jsonb, of_queue text, of_revision bigint, by_session text) RETURNS TABLE (
  id text, moved boolean, next boolean, stray boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  asked text;
  any_moved boolean := false;
BEGIN
  FOR asked IN SELECT DISTINCT t ->> 'queue' FROM jsonb_array_elements(targets) t WHERE t ->> 'what' IN ('registered', 'joined') ORDER BY 1 LOOP
    PERFORM farsync_turn(asked);
  END LOOP;
  FOR id, moved, next, stray IN SELECT * FROM farsync_sight(targets, of_queue, of_revision) LOOP
    any_moved := any_moved OR moved;
    RETURN NEXT;
  END LOOP;
  IF NOT any_moved THEN
    INSERT INTO farsync_watches SELECT DISTINCT t ->> 'name', by_session FROM jsonb_array_elements(targets) t ON CONFLICT DO NOTHING;
  END IF;
END
$$;

-- The head stays until the commit: whoever is behind it has not read the register when it goes.
CREATE OR REPLACE FUNCTION farsync_write(
  of_queue text, to_value text, of_version bigint, of_head text
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM 1 FROM farsync_entries WHERE id = of_head FOR KEY SHARE;
  PERFORM farsync_turn(of_queue);
  RETURN QUERY INSERT INTO farsync_registers AS r (queue, value, version) SELECT of_queue, to_value, of_version + 1
    WHERE of_version = coalesce((SELECT version FROM farsync_registers WHERE queue = of_queue), 0)
      AND (of_head = '' OR EXISTS (SELECT 1 FROM farsync_entries WHERE id = of_head))
    ON CONFLICT (queue) DO UPDATE SET value = excluded.value, version = excluded.version RETURNING r.version;
END
$$;

-- The deadline of a session that begins. A Store calls farsync_begin_5 when it opens, by the name, which has the version of all that is
-- here: where it is not found the tables are not there, or of another version. Stores of earlier versions call the others, and
-- find what they need. A transaction that keeps its first snapshot does not see who has come to wait since, and would tell none.
CREATE OR REPLACE FUNCTION farsync_begin_5(ttl bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'farsync needs the isolation level read committed, and has %', current_setting('transaction_isolation')
      USING HINT = 'set default_transaction_isolation for the role or in the connection string';
  END IF;
  RETURN farsync_now() + ttl;
END
$$;
CREATE OR REPLACE FUNCTION farsync_begin_4(ttl bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT farsync_begin_5(ttl)
$$;
CREATE OR REPLACE FUNCTION farsync_begin_3(ttl bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT farsync_begin_5(ttl)
$$;
CREATE OR REPLACE FUNCTION farsync_begin_2(ttl bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT farsync_begin_5(ttl)
$$;
CREATE OR REPLACE FUNCTION farsync_begin_1(ttl bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT farsync_begin_5(ttl)
$$;
