-- The tables and procedures of farsync, as the mysql client takes them. Running this again changes nothing. MySQL 8.0.29 or later, or
-- MariaDB 10.6 or later. What a later version of farsync has to change comes under another name, so earlier ones keep theirs.
DELIMITER //

-- A session lives as long as its row, unless its deadline is 0 or less: then its entries are being removed, and at -1
-- something keeps those that are left. Times are in microseconds, by this server's clock, and do not depend on time
-- zones.
CREATE TABLE IF NOT EXISTS farsync_sessions (
  id       VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  deadline BIGINT NOT NULL,
  ttl      BIGINT NOT NULL,
  KEY farsync_sessions_deadline (deadline)
) ENGINE = InnoDB //

-- The row of a queue is what those that join it take turns at, and has the last revision.
CREATE TABLE IF NOT EXISTS farsync_queues (
  path VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  last BIGINT NOT NULL
) ENGINE = InnoDB //

-- To delete a session is to delete its entries.
CREATE TABLE IF NOT EXISTS farsync_entries (
  id       VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  queue    VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  session  VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  kind     VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'foreign',
  units    BIGINT NOT NULL DEFAULT 1,
  revision BIGINT NOT NULL,
  version  BIGINT NOT NULL DEFAULT 1,
  since    BIGINT NOT NULL DEFAULT 0,
  value    LONGBLOB,
  words    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  UNIQUE KEY farsync_entries_queue (queue, revision),
  KEY farsync_entries_session (session),
  CONSTRAINT farsync_entries_session FOREIGN KEY (session) REFERENCES farsync_sessions (id) ON DELETE CASCADE
) ENGINE = InnoDB //

CREATE TABLE IF NOT EXISTS farsync_registers (
  queue   VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  value   MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  version BIGINT NOT NULL
) ENGINE = InnoDB //

-- The register, as an entry without ID; the entry and what is ahead of it, or the whole queue if the ID is empty, newest first. One
-- statement sees one state. A text without a bound would take MariaDB a temporary table on the disk for each call. A register is two
-- numbers.
CREATE PROCEDURE IF NOT EXISTS farsync_ahead_2(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT
) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT * FROM (
    SELECT '' AS id, queue, '' AS kind, 0 AS units, 0 AS revision, version, 0 AS since, CAST(value AS CHAR(255)) AS value, '' AS session
    FROM farsync_registers WHERE queue = of_queue
    UNION ALL (
      SELECT id, queue, kind, units, revision, version, since, NULL, COALESCE(session, '') FROM farsync_entries
      WHERE queue = of_queue AND (of_id = '' OR revision <= (SELECT mine.revision FROM farsync_entries mine WHERE mine.id = of_id))
      ORDER BY revision DESC LIMIT most)
  ) shown ORDER BY shown.id <> '', shown.revision DESC;
END //

-- Fails where the server is read-only, with the error by which it stops other users. It does not stop those that have SUPER or READ_ONLY
-- ADMIN: after a switchover these would go on at what has become a replica, beside those at the new primary.
CREATE PROCEDURE IF NOT EXISTS farsync_primary()
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  IF CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF') THEN
    SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only, as a replica is';
  END IF;
END //

-- Fails where a table is not in InnoDB. Aria and MyISAM lock no row, and take no step back, so two could hold; no other engine was tried. MariaDB
-- with enforce_storage_engine makes the tables in another engine without a word, and a person may convert them. Each table is asked for by its
-- name, so MariaDB reads no other table of the database. What is asked for waits for no lock on the table.
CREATE PROCEDURE IF NOT EXISTS farsync_engines()
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  DECLARE others VARCHAR(1024) DEFAULT CONCAT_WS(', ',
    (SELECT CONCAT('farsync_sessions is in ', engine) FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'farsync_sessions' AND engine <> 'InnoDB'),
    (SELECT CONCAT('farsync_queues is in ', engine) FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'farsync_queues' AND engine <> 'InnoDB'),
    (SELECT CONCAT('farsync_entries is in ', engine) FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'farsync_entries' AND engine <> 'InnoDB'),
    (SELECT CONCAT('farsync_registers is in ', engine) FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'farsync_registers' AND engine <> 'InnoDB'));
  IF others <> '' THEN
    SET others = LEFT(CONCAT('farsync needs InnoDB: ', others), 128);
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = others;
  END IF;
END //

-- Those that join lock the queue's row first, by a statement of its own: what they see after it is all that can ever be ahead. Revisions
-- are handed out under that lock, so their order is that of commits. They go on with the time: a queue whose row was lost does
-- not count from the beginning. Where the clock has been set back as well, they go on from the last entry that is there.
--
-- The session's row is locked last, for a renewal waits for that lock. Nothing is waited for while it is locked. So the tables that are read after it
-- were read before it as well, lest LOCK TABLES keeps one of them. And the foreign key is not checked when the entry is
-- inserted, which waits where another's transaction has locked one of the gaps: MariaDB checks the key, and locks the session, before
-- the last of three indexes, MySQL before the first. What the key is for is looked at afterwards. An entry of a session that is over is
-- removed again. Others see neither, before the COMMIT, and what ends the session finds no entry, since it has come before the look, or it
-- waits for the COMMIT.
CREATE PROCEDURE IF NOT EXISTS farsync_create_4(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT,
  of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, of_units BIGINT,
  of_value LONGBLOB, of_since BIGINT
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_revision, newest, lives, known, registers BIGINT;
  DECLARE checks BIGINT DEFAULT @@SESSION.foreign_key_checks;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; SET SESSION foreign_key_checks = checks; RESIGNAL; END;
  CALL farsync_primary();
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO farsync_queues (path, last) VALUES (of_queue, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
    ON DUPLICATE KEY UPDATE last = GREATEST(last + 1, VALUES(last));
  SELECT last INTO of_revision FROM farsync_queues WHERE path = of_queue;
  SELECT (SELECT COUNT(*) FROM farsync_entries WHERE id = of_id), (SELECT MAX(revision) FROM farsync_entries WHERE queue = of_queue),
    (SELECT COUNT(*) FROM farsync_registers WHERE queue = of_queue) INTO known, newest, registers;
  IF newest >= of_revision THEN
    SET of_revision = newest + 1;
    UPDATE farsync_queues SET last = of_revision WHERE path = of_queue;
  END IF;
  IF known = 0 THEN
    SET SESSION foreign_key_checks = 0;
    INSERT INTO farsync_entries (id, queue, session, kind, units, revision, value, since)
      VALUES (of_id, of_queue, of_session, of_kind, of_units, of_revision, of_value, of_since);
    SET SESSION foreign_key_checks = checks;
    SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_session AND deadline > 0 LOCK IN SHARE MODE;
    IF lives = 0 THEN
      DELETE FROM farsync_entries WHERE id = of_id;
    END IF;
  END IF;
  CALL farsync_ahead_2(of_queue, of_id, most);
  COMMIT;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_create_3(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT,
  of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, of_units BIGINT,
  of_value LONGBLOB, of_since BIGINT
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_revision, newest, lives, known BIGINT;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  CALL farsync_primary();
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO farsync_queues (path, last) VALUES (of_queue, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
    ON DUPLICATE KEY UPDATE last = GREATEST(last + 1, VALUES(last));
  SELECT last INTO of_revision FROM farsync_queues WHERE path = of_queue;
  SELECT (SELECT COUNT(*) FROM farsync_entries WHERE id = of_id), (SELECT MAX(revision) FROM farsync_entries WHERE queue = of_queue)
    INTO known, newest;
  IF newest >= of_revision THEN
    SET of_revision = newest + 1;
    UPDATE farsync_queues SET last = of_revision WHERE path = of_queue;
  END IF;
  IF known = 0 THEN
    BEGIN
      DECLARE CONTINUE HANDLER FOR 1216, 1452 BEGIN END; -- there is no such session
      INSERT INTO farsync_entries (id, queue, session, kind, units, revision, value, since)
        VALUES (of_id, of_queue, of_session, of_kind, of_units, of_revision, of_value, of_since);
    END;
    SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_session AND deadline > 0 LOCK IN SHARE MODE;
    IF lives = 0 THEN
      DELETE FROM farsync_entries WHERE id = of_id;
    END IF;
  END IF;
  CALL farsync_ahead_2(of_queue, of_id, most);
  COMMIT;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_create_2(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT,
  of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, of_units BIGINT,
  of_value LONGBLOB, of_since BIGINT
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_revision, lives, known BIGINT;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO farsync_queues (path, last) VALUES (of_queue, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
    ON DUPLICATE KEY UPDATE last = GREATEST(last + 1, VALUES(last));
  SELECT last INTO of_revision FROM farsync_queues WHERE path = of_queue;
  SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_session AND deadline > 0 LOCK IN SHARE MODE;
  SELECT COUNT(*) INTO known FROM farsync_entries WHERE id = of_id;
  IF lives > 0 AND known = 0 THEN
    INSERT INTO farsync_entries (id, queue, session, kind, units, revision, value, since)
      VALUES (of_id, of_queue, of_session, of_kind, of_units, of_revision, of_value, of_since);
  END IF;
  CALL farsync_ahead_2(of_queue, of_id, most);
  COMMIT;
END //

-- These names are those of programs that know no other, and of earlier Stores. Where an earlier Migrate has made them they are as it has.
CREATE PROCEDURE IF NOT EXISTS farsync_ahead(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT
) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  CALL farsync_ahead_2(of_queue, of_id, most);
END //
CREATE PROCEDURE IF NOT EXISTS farsync_create(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT,
  of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, of_units BIGINT,
  of_value LONGBLOB, of_since BIGINT
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_create_2(of_queue, of_id, most, of_session, of_kind, of_units, of_value, of_since);
END //

-- A session whose row has gone without its entries, as under a program that has switched foreign keys off, will never end them. It is
-- shown as none.
CREATE PROCEDURE IF NOT EXISTS farsync_list_2(of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT e.id, queue, kind, units, revision, version, since, value, COALESCE(s.id, '')
  FROM farsync_entries e LEFT JOIN farsync_sessions s ON s.id = e.session
  WHERE queue = of_queue ORDER BY revision LIMIT most;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_list(of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT id, queue, kind, units, revision, version, since, value, COALESCE(session, '') FROM farsync_entries
  WHERE queue = of_queue ORDER BY revision LIMIT most;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_find(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT id, queue, kind, units, revision, version, since, value, COALESCE(session, '') FROM farsync_entries WHERE id = of_id;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_owned_2(of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, queues JSON)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT id, queue, kind, units, revision, version, since, value, COALESCE(session, '') FROM farsync_entries
  WHERE session = of_session AND (queues IS NULL OR queue IN (
    SELECT CONVERT(asked.path USING ascii) COLLATE ascii_bin FROM JSON_TABLE(queues, '$[*]' COLUMNS (path VARCHAR(1024) PATH '$')) asked))
  ORDER BY revision;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_owned(of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, queues JSON)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT id, queue, kind, units, revision, version, since, value, COALESCE(session, '') FROM farsync_entries
  WHERE session = of_session AND queue IN (
    SELECT CONVERT(asked.path USING ascii) COLLATE ascii_bin FROM JSON_TABLE(queues, '$[*]' COLUMNS (path VARCHAR(1024) PATH '$')) asked)
  ORDER BY revision;
END //

-- Whole queues, up to the one in which the entry with this number stands. Sessions are shown as farsync_list_2 shows them.
CREATE PROCEDURE IF NOT EXISTS farsync_survey_2(
  prefix VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, behind VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, least BIGINT
) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  DECLARE skipped BIGINT DEFAULT GREATEST(least - 1, 0);
  SELECT e.id, queue, kind, units, revision, version, since, value, COALESCE(s.id, '')
  FROM farsync_entries e LEFT JOIN farsync_sessions s ON s.id = e.session
  WHERE queue > behind AND LEFT(queue, LENGTH(prefix)) = prefix AND queue <= COALESCE(
    (SELECT queue FROM farsync_entries WHERE queue > behind AND LEFT(queue, LENGTH(prefix)) = prefix
     ORDER BY queue, revision LIMIT skipped, 1),
    (SELECT MAX(queue) FROM farsync_entries))
  ORDER BY queue, revision;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_survey(
  prefix VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, behind VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, least BIGINT
) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  DECLARE skipped BIGINT DEFAULT GREATEST(least - 1, 0);
  SELECT id, queue, kind, units, revision, version, since, value, COALESCE(session, '') FROM farsync_entries
  WHERE queue > behind AND LEFT(queue, LENGTH(prefix)) = prefix AND queue <= COALESCE(
    (SELECT queue FROM farsync_entries WHERE queue > behind AND LEFT(queue, LENGTH(prefix)) = prefix
     ORDER BY queue, revision LIMIT skipped, 1),
    (SELECT MAX(queue) FROM farsync_entries))
  ORDER BY queue, revision;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_replace(
  of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_version BIGINT, to_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
  to_value LONGBLOB
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  UPDATE farsync_entries SET kind = to_kind, version = of_version + 1, value = COALESCE(to_value, value)
    WHERE id = of_id AND version = of_version;
  IF ROW_COUNT() > 0 THEN
    CALL farsync_find(of_id);
  END IF;
  COMMIT;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_delete(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DELETE FROM farsync_entries WHERE id = of_id;
  IF ROW_COUNT() > 0 THEN
    SELECT of_id;
  END IF;
END //

-- The same words again change nothing, and are found all the same.
CREATE PROCEDURE IF NOT EXISTS farsync_tell(
  of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, told MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  UPDATE farsync_entries SET words = told WHERE id = of_id;
  SELECT id FROM farsync_entries WHERE id = of_id;
  COMMIT;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_heard(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT COALESCE(words, '') FROM farsync_entries WHERE id = of_id;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_register(of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT value, version FROM farsync_registers WHERE queue = of_queue;
END //

-- Registers are written in their queues' turn. The lock on the head keeps it until the register is committed.
CREATE PROCEDURE IF NOT EXISTS farsync_write(
  of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, to_value MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  of_version BIGINT, of_head VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE stands BIGINT DEFAULT 1;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO farsync_queues (path, last) VALUES (of_queue, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
    ON DUPLICATE KEY UPDATE last = GREATEST(last + 1, VALUES(last));
  IF of_head <> '' THEN
    SELECT COUNT(*) INTO stands FROM farsync_entries WHERE id = of_head LOCK IN SHARE MODE;
  END IF;
  IF stands > 0 AND of_version = COALESCE((SELECT version FROM farsync_registers WHERE queue = of_queue), 0) THEN
    INSERT INTO farsync_registers (queue, value, version) VALUES (of_queue, to_value, of_version + 1)
      ON DUPLICATE KEY UPDATE value = VALUES(value), version = VALUES(version);
    SELECT of_version + 1;
  END IF;
  COMMIT;
END //

-- Of each target of a Watch: its ID, whether it has moved, that the session hears of it without having asked, for it polls, and whether it
-- is a stray, of no session: none is named, or the row of the one that is has gone without it, as TRUNCATE and a restore of some tables leave it.
-- It is the same for every entry that waits.
CREATE PROCEDURE IF NOT EXISTS farsync_sight_2(
  targets JSON, of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_revision BIGINT
) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT COALESCE(e.id, ''),
    CASE t.what
      WHEN 'registered' THEN t.version <> COALESCE(
        (SELECT r.version FROM farsync_registers r WHERE r.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin), 0)
      WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries j WHERE j.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin)
      WHEN 'told' THEN e.id IS NULL OR LENGTH(COALESCE(e.words, '')) > 0
      WHEN 'changed' THEN e.id IS NULL OR e.version <> t.version AND t.version <> 0 OR e.kind <> 'write' AND t.kind = 'write'
      ELSE e.id IS NULL
    END, 1, e.id IS NOT NULL AND s.id IS NULL
  FROM JSON_TABLE(targets, '$[*]' COLUMNS (
    what VARCHAR(16) PATH '$.what', id VARCHAR(255) PATH '$.id', queue VARCHAR(1024) PATH '$.queue', kind VARCHAR(16) PATH '$.kind',
    version BIGINT PATH '$.version')) t
  LEFT JOIN farsync_entries e ON e.id = CONVERT(t.id USING ascii) COLLATE ascii_bin
  LEFT JOIN farsync_sessions s ON s.id = e.session;
END //
-- As Stores of earlier versions call it.
CREATE PROCEDURE IF NOT EXISTS farsync_sight(
  targets JSON, of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, of_revision BIGINT
) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT COALESCE(e.id, ''),
    CASE t.what
      WHEN 'registered' THEN t.version <> COALESCE(
        (SELECT r.version FROM farsync_registers r WHERE r.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin), 0)
      WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries j WHERE j.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin)
      WHEN 'told' THEN e.id IS NULL OR LENGTH(COALESCE(e.words, '')) > 0
      WHEN 'changed' THEN e.id IS NULL OR e.version <> t.version AND t.version <> 0 OR e.kind <> 'write' AND t.kind = 'write'
      ELSE e.id IS NULL
    END, 1, e.id IS NOT NULL AND e.session IS NULL
  FROM JSON_TABLE(targets, '$[*]' COLUMNS (
    what VARCHAR(16) PATH '$.what', id VARCHAR(255) PATH '$.id', queue VARCHAR(1024) PATH '$.queue', kind VARCHAR(16) PATH '$.kind',
    version BIGINT PATH '$.version')) t
  LEFT JOIN farsync_entries e ON e.id = CONVERT(t.id USING ascii) COLLATE ascii_bin;
END //

-- As farsync_sight_2, of all that a session waits for: names, whether they have moved, and how many entries have to go before. What is not
-- expected for long, a word to a holder, the first entry of a queue, or another size of a semaphore, counts as if some had to. Of the entries of
-- one queue those ahead of the first alone are counted: the session's next look is for that. The others have more.
CREATE PROCEDURE IF NOT EXISTS farsync_poll_2(targets JSON)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT s.name, s.moved,
    CASE WHEN s.what IN ('told', 'joined', 'registered') THEN 4
      WHEN s.revision > s.first THEN 2147483647
      ELSE (SELECT COUNT(*) FROM farsync_entries n WHERE n.queue = s.queue AND n.revision < s.revision) END
  FROM (
    SELECT t.name, t.what, e.queue, e.revision,
      MIN(CASE WHEN t.what NOT IN ('told', 'joined', 'registered') THEN e.revision END) OVER (PARTITION BY e.queue) AS first,
      CASE t.what
        WHEN 'registered' THEN t.version <> COALESCE(
          (SELECT r.version FROM farsync_registers r WHERE r.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin), 0)
        WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries j WHERE j.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin)
        WHEN 'told' THEN e.id IS NULL OR LENGTH(COALESCE(e.words, '')) > 0
        WHEN 'changed' THEN e.id IS NULL OR e.version <> t.version AND t.version <> 0 OR e.kind <> 'write' AND t.kind = 'write'
        ELSE e.id IS NULL
      END AS moved
    FROM JSON_TABLE(targets, '$[*]' COLUMNS (
      name VARCHAR(1025) PATH '$.name', what VARCHAR(16) PATH '$.what', id VARCHAR(255) PATH '$.id', queue VARCHAR(1024) PATH '$.queue',
      kind VARCHAR(16) PATH '$.kind', version BIGINT PATH '$.version')) t
    LEFT JOIN farsync_entries e ON e.id = CONVERT(t.id USING ascii) COLLATE ascii_bin) s;
END //
-- As Stores of earlier versions call it.
CREATE PROCEDURE IF NOT EXISTS farsync_poll(targets JSON)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT t.name,
    CASE t.what
      WHEN 'registered' THEN t.version <> COALESCE(
        (SELECT r.version FROM farsync_registers r WHERE r.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin), 0)
      WHEN 'joined' THEN EXISTS (SELECT 1 FROM farsync_entries j WHERE j.queue = CONVERT(t.queue USING ascii) COLLATE ascii_bin)
      WHEN 'told' THEN e.id IS NULL OR LENGTH(COALESCE(e.words, '')) > 0
      WHEN 'changed' THEN e.id IS NULL OR e.version <> t.version AND t.version <> 0 OR e.kind <> 'write' AND t.kind = 'write'
      ELSE e.id IS NULL
    END,
    CASE WHEN t.what IN ('told', 'joined') THEN 4
      ELSE (SELECT COUNT(*) FROM farsync_entries n WHERE n.queue = e.queue AND n.revision < e.revision) END
  FROM JSON_TABLE(targets, '$[*]' COLUMNS (
    name VARCHAR(1025) PATH '$.name', what VARCHAR(16) PATH '$.what', id VARCHAR(255) PATH '$.id', queue VARCHAR(1024) PATH '$.queue',
    kind VARCHAR(16) PATH '$.kind', version BIGINT PATH '$.version')) t
  LEFT JOIN farsync_entries e ON e.id = CONVERT(t.id USING ascii) COLLATE ascii_bin;
END //

CREATE PROCEDURE IF NOT EXISTS farsync_open(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  INSERT INTO farsync_sessions (id, deadline, ttl)
    VALUES (of_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + of_ttl, of_ttl);
  SELECT of_id;
END //

-- Of the sessions that have one of the entries, or one in the queue, those that have run out.
CREATE PROCEDURE IF NOT EXISTS farsync_owners(of_queue VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin, entries JSON)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  SELECT id, 1 FROM farsync_sessions WHERE deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND (
    id IN (SELECT session FROM farsync_entries WHERE queue = of_queue)
    OR id IN (SELECT e.session FROM JSON_TABLE(entries, '$[*]' COLUMNS (id VARCHAR(255) PATH '$')) asked
      JOIN farsync_entries e ON e.id = CONVERT(asked.id USING ascii) COLLATE ascii_bin))
  LIMIT 64;
END //

-- Ends a session if it has run out: removes as many of its entries as the limit allows, and the session's row once no
-- entry is left. After the first call the session cannot be renewed. A session that is being renewed, or creates an
-- entry, is not waited for, nor is an entry that is locked: a guard keeps it, or the transaction of a person removes
-- it, and a later call does. A statement of its own looks whether such entries are left, for a SELECT within a DELETE
-- would lock them.
--
-- The session is busy if it has run out and its row is locked: another call is ending it, and what it has left says
-- nothing. After a deadlock with a join the session is busy as well: all of its entries are there still.
--
-- A read that locks and finds all that it needs in an index locks that index alone, and a DELETE waits for it. So the
-- entry is locked in each of its indexes before. The index of sessions has the IDs of a session in their order, so the
-- read ends at its limit, and locks no entry that stays.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_one_3(
  of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, most BIGINT, OUT removed BIGINT, OUT is_busy BIGINT
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE is_over, is_kept, is_done BIGINT DEFAULT 0;
  DECLARE free CURSOR FOR SELECT e.id FROM farsync_entries e FORCE INDEX (farsync_entries_session)
    JOIN farsync_entries again FORCE INDEX (farsync_entries_queue) ON again.queue = e.queue AND again.revision = e.revision
    WHERE e.session = of_session ORDER BY e.id LIMIT most FOR UPDATE SKIP LOCKED;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  DECLARE EXIT HANDLER FOR 1205 BEGIN ROLLBACK; SET removed = 0; END; -- an entry was locked after all
  DECLARE EXIT HANDLER FOR 1213 BEGIN ROLLBACK; SET removed = 0, is_busy = 1; END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET removed = 0, is_busy = 0;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT COUNT(*) INTO is_over FROM farsync_sessions
    WHERE id = of_session AND deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE SKIP LOCKED;
  IF is_over > 0 THEN
    OPEN free;
    each_entry: LOOP
      FETCH free INTO of_id;
      IF is_done THEN LEAVE each_entry; END IF;
      DELETE FROM farsync_entries WHERE id = of_id;
      SET removed = removed + 1;
    END LOOP;
    CLOSE free;
    SELECT EXISTS (SELECT 1 FROM farsync_entries WHERE session = of_session) INTO is_kept;
    IF is_kept = 0 THEN
      DELETE FROM farsync_sessions WHERE id = of_session;
    ELSE
      UPDATE farsync_sessions SET deadline = IF(removed < most, -1, 0) WHERE id = of_session;
    END IF;
  ELSE
    SELECT COUNT(*) INTO is_busy FROM farsync_sessions
      WHERE id = of_session AND deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
  END IF;
  COMMIT;
END //
-- As earlier procedures call it.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_one_2(of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE is_over, is_kept, is_done BIGINT DEFAULT 0;
  DECLARE free CURSOR FOR SELECT id FROM farsync_entries WHERE session = of_session ORDER BY id FOR UPDATE SKIP LOCKED;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT COUNT(*) INTO is_over FROM farsync_sessions
    WHERE id = of_session AND deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE SKIP LOCKED;
  IF is_over > 0 THEN
    UPDATE farsync_sessions SET deadline = 0 WHERE id = of_session;
    OPEN free;
    each_entry: LOOP
      FETCH free INTO of_id;
      IF is_done THEN LEAVE each_entry; END IF;
      DELETE FROM farsync_entries WHERE id = of_id;
    END LOOP;
    CLOSE free;
    SELECT EXISTS (SELECT 1 FROM farsync_entries WHERE session = of_session) INTO is_kept;
    IF is_kept = 0 THEN
      DELETE FROM farsync_sessions WHERE id = of_session;
    END IF;
  END IF;
  COMMIT;
END //
-- As earlier procedures call it.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_one(of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE is_over, is_done BIGINT DEFAULT 0;
  DECLARE free CURSOR FOR SELECT id FROM farsync_entries WHERE session = of_session ORDER BY id FOR UPDATE SKIP LOCKED;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT COUNT(*) INTO is_over FROM farsync_sessions
    WHERE id = of_session AND deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE SKIP LOCKED;
  IF is_over > 0 THEN
    UPDATE farsync_sessions SET deadline = 0 WHERE id = of_session;
    OPEN free;
    each_entry: LOOP
      FETCH free INTO of_id;
      IF is_done THEN LEAVE each_entry; END IF;
      DELETE FROM farsync_entries WHERE id = of_id;
    END LOOP;
    CLOSE free;
    DELETE FROM farsync_sessions WHERE id = of_session AND NOT EXISTS (SELECT 1 FROM farsync_entries WHERE session = of_session);
  END IF;
  COMMIT;
END //

-- Ends 64 of the sessions that have run out, and removes as many entries as the limit allows. Sessions come first that
-- no call has looked at, then sessions of which a call has left some entries at its limit, and last the sessions whose
-- entries something keeps. There may be more at the limit, or if 64 sessions were looked at and one of them has
-- moved: an entry of it was removed, or it cannot be renewed any more. What is locked is left for later, and does not
-- count, so a caller that asks until there is no more comes to an end.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_some_3(most BIGINT, OUT more BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE was, removed, is_busy, stands, seen, moved, is_done BIGINT DEFAULT 0;
  DECLARE expired CURSOR FOR SELECT id, deadline FROM farsync_sessions
    WHERE deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY deadline DESC LIMIT 64;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  OPEN expired;
  each_session: LOOP
    FETCH expired INTO of_session, was;
    IF is_done OR most <= 0 THEN LEAVE each_session; END IF;
    CALL farsync_bury_one_3(of_session, most, removed, is_busy);
    SELECT COUNT(*) INTO stands FROM farsync_sessions WHERE id = of_session AND (deadline = was OR deadline <= 0 AND was <= 0);
    SET most = most - removed, seen = seen + 1, moved = moved + (removed > 0 OR stands = 0);
  END LOOP;
  CLOSE expired;
  SET more = (most <= 0 OR seen = 64 AND moved > 0);
END //
-- As earlier procedures call it.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_some_2(OUT more BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE was, stands, seen, moved, is_done BIGINT DEFAULT 0;
  DECLARE expired CURSOR FOR SELECT id, deadline FROM farsync_sessions
    WHERE deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY deadline DESC LIMIT 64;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  OPEN expired;
  each_session: LOOP
    FETCH expired INTO of_session, was;
    IF is_done THEN LEAVE each_session; END IF;
    CALL farsync_bury_one_2(of_session);
    SELECT COUNT(*) INTO stands FROM farsync_sessions WHERE id = of_session AND deadline = was;
    SET seen = seen + 1, moved = moved + (stands = 0);
  END LOOP;
  CLOSE expired;
  SET more = (seen = 64 AND moved > 0);
END //
-- As earlier procedures call it.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_some(OUT more BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE was, stands, seen, moved, is_done BIGINT DEFAULT 0;
  DECLARE expired CURSOR FOR SELECT id, deadline FROM farsync_sessions
    WHERE deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY deadline DESC LIMIT 64;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  OPEN expired;
  each_session: LOOP
    FETCH expired INTO of_session, was;
    IF is_done THEN LEAVE each_session; END IF;
    CALL farsync_bury_one(of_session);
    SELECT COUNT(*) INTO stands FROM farsync_sessions WHERE id = of_session AND deadline = was;
    SET seen = seen + 1, moved = moved + (stands = 0);
  END LOOP;
  CLOSE expired;
  SET more = (seen = 64 AND moved > 0);
END //

-- Ends sessions that have run out, and first the sessions of a JSON array that have. It removes 1,000 entries at most,
-- so that it is short for whoever waits for it. It shows a row 'more' if there may be more to end, and a row 'busy' if
-- another call is ending a session of the array.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_4(sessions JSON)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE room BIGINT DEFAULT 1000;
  DECLARE removed, is_busy, busy, is_done BIGINT DEFAULT 0;
  DECLARE more BIGINT DEFAULT 1;
  DECLARE asked CURSOR FOR SELECT CONVERT(list.id USING ascii) COLLATE ascii_bin
    FROM JSON_TABLE(sessions, '$[*]' COLUMNS (id VARCHAR(255) PATH '$')) list;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  OPEN asked;
  each_session: LOOP
    FETCH asked INTO of_session;
    IF is_done OR room <= 0 THEN LEAVE each_session; END IF;
    CALL farsync_bury_one_3(of_session, room, removed, is_busy);
    SET room = room - removed, busy = busy + is_busy;
  END LOOP;
  CLOSE asked;
  IF room > 0 THEN
    CALL farsync_bury_some_3(room, more);
  END IF;
  SELECT 'more' FROM DUAL WHERE more > 0 UNION ALL SELECT 'busy' FROM DUAL WHERE busy > 0;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_3(dead JSON)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE more BIGINT DEFAULT 0;
  CALL farsync_bury_some_2(more);
  IF more > 0 THEN
    SELECT 'more';
  END IF;
END //
-- As earlier Stores call it.
CREATE PROCEDURE IF NOT EXISTS farsync_bury_2(dead JSON)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE more BIGINT DEFAULT 0;
  CALL farsync_bury_some(more);
  IF more > 0 THEN
    SELECT 'more';
  END IF;
END //
-- As earlier Stores and other programs call it. It has no more than one step.
CREATE PROCEDURE IF NOT EXISTS farsync_bury(dead JSON)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE of_session VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE is_done BIGINT DEFAULT 0;
  DECLARE expired CURSOR FOR SELECT id FROM farsync_sessions
    WHERE deadline <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY deadline DESC LIMIT 64;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  OPEN expired;
  each_session: LOOP
    FETCH expired INTO of_session;
    IF is_done THEN LEAVE each_session; END IF;
    CALL farsync_bury_one(of_session);
  END LOOP;
  CLOSE expired;
END //

-- Shows a session so many times, with the history of the database and with the settings by which the server or its machine may lose what was
-- confirmed. A binary log that is not synced is one of these: what it lacks after a crash InnoDB takes back.
--
-- The history of the database ends when the server is restarted or another is asked. The end of a UUID has random bits of the server's run, and the
-- address of a network card. No two servers of a replication have the same number. Nothing else tells of both on every server.
CREATE PROCEDURE IF NOT EXISTS farsync_shown(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, times BIGINT)
SQL SECURITY INVOKER READS SQL DATA
BEGIN
  DECLARE of_history VARCHAR(64) DEFAULT CONCAT(@@GLOBAL.server_id, '-', SUBSTRING(UUID(), 20));
  DECLARE of_settings VARCHAR(255) DEFAULT CONCAT_WS(', ',
    IF(@@GLOBAL.innodb_flush_log_at_trx_commit IN (1, 3), NULL,
      CONCAT('innodb_flush_log_at_trx_commit = ', @@GLOBAL.innodb_flush_log_at_trx_commit)),
    IF(@@GLOBAL.log_bin AND @@GLOBAL.sync_binlog <> 1, CONCAT('sync_binlog = ', @@GLOBAL.sync_binlog), NULL));
  SELECT of_id, of_history, of_settings FROM DUAL WHERE times > 0 UNION ALL
    SELECT of_id, of_history, of_settings FROM DUAL WHERE times > 1;
END //

-- The time is read under the lock of the row. UTC_TIMESTAMP is when its statement began, which may have been kept since: FLUSH TABLES WITH READ
-- LOCK and LOCK TABLES keep several renewals of a session, and let them go in any order. Where the statement begins with the row locked, times
-- are in the order of commits, so the last deadline counts from after every request that was answered before. To keep the later of two
-- deadlines would do for that, too, but where the clock is set back, the session of a process that dies then would stay for as long.
--
-- The end of others is tried on the way. That it fails does not make the renewal fail. A second row says that there may be more to end.
CREATE PROCEDURE IF NOT EXISTS farsync_renew_6(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE lives, more BIGINT DEFAULT 0;
  CALL farsync_primary();
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_id AND deadline > 0 FOR UPDATE;
    IF lives > 0 THEN
      UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl WHERE id = of_id;
    END IF;
    COMMIT;
  END;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    CALL farsync_bury_some_3(1000, more);
  END;
  CALL farsync_shown(of_id, lives + (lives > 0 AND more > 0));
END //
-- What a Store calls: it does not go on where a table is in another engine.
CREATE PROCEDURE IF NOT EXISTS farsync_renew_7(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_engines();
  CALL farsync_renew_6(of_id);
END //
-- As earlier Stores and other programs call it.
CREATE PROCEDURE IF NOT EXISTS farsync_renew_5(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE lives, more BIGINT DEFAULT 0;
  DECLARE of_history VARCHAR(64) DEFAULT CONCAT(@@GLOBAL.server_id, '-', SUBSTRING(UUID(), 20));
  CALL farsync_primary();
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_id AND deadline > 0 FOR UPDATE;
    IF lives > 0 THEN
      UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl WHERE id = of_id;
    END IF;
    COMMIT;
  END;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    CALL farsync_bury_some_3(1000, more);
  END;
  SELECT of_id, of_history FROM DUAL WHERE lives > 0 UNION ALL SELECT of_id, of_history FROM DUAL WHERE lives > 0 AND more > 0;
END //
-- As earlier Stores and other programs call it.
CREATE PROCEDURE IF NOT EXISTS farsync_renew_4(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE lives, more BIGINT DEFAULT 0;
  DECLARE of_history VARCHAR(64) DEFAULT CONCAT(@@GLOBAL.server_id, '-', SUBSTRING(UUID(), 20));
  CALL farsync_primary();
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_id AND deadline > 0 FOR UPDATE;
    IF lives > 0 THEN
      UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl WHERE id = of_id;
    END IF;
    COMMIT;
  END;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    CALL farsync_bury_some_2(more);
  END;
  SELECT of_id, of_history FROM DUAL WHERE lives > 0 UNION ALL SELECT of_id, of_history FROM DUAL WHERE lives > 0 AND more > 0;
END //
-- As earlier Stores and other programs call it.
CREATE PROCEDURE IF NOT EXISTS farsync_renew_3(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE lives, more BIGINT DEFAULT 0;
  CALL farsync_primary();
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_id AND deadline > 0 FOR UPDATE;
    IF lives > 0 THEN
      UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl WHERE id = of_id;
    END IF;
    COMMIT;
  END;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    CALL farsync_bury_some_2(more);
  END;
  SELECT of_id FROM DUAL WHERE lives > 0 UNION ALL SELECT of_id FROM DUAL WHERE lives > 0 AND more > 0;
END //
-- As earlier Stores and other programs call it.
CREATE PROCEDURE IF NOT EXISTS farsync_renew_2(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE lives, more BIGINT DEFAULT 0;
  UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl
    WHERE id = of_id AND deadline > 0;
  SELECT COUNT(*) INTO lives FROM farsync_sessions WHERE id = of_id AND deadline > 0;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    CALL farsync_bury_some(more);
  END;
  SELECT of_id FROM DUAL WHERE lives > 0 UNION ALL SELECT of_id FROM DUAL WHERE lives > 0 AND more > 0;
END //
CREATE PROCEDURE IF NOT EXISTS farsync_renew(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl
    WHERE id = of_id AND deadline > 0;
  SELECT id FROM farsync_sessions WHERE id = of_id AND deadline > 0;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    CALL farsync_bury('[]');
  END;
END //

-- Its own entries are waited for, a guard's too.
CREATE PROCEDURE IF NOT EXISTS farsync_end(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DELETE FROM farsync_sessions WHERE id = of_id;
  SELECT of_id;
END //

-- As Stores of earlier versions call it.
CREATE PROCEDURE IF NOT EXISTS farsync_open_2(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_open(of_id, of_ttl);
END //
CREATE PROCEDURE IF NOT EXISTS farsync_open_3(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_open(of_id, of_ttl);
END //
CREATE PROCEDURE IF NOT EXISTS farsync_open_4(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_primary();
  CALL farsync_open(of_id, of_ttl);
END //

CREATE PROCEDURE IF NOT EXISTS farsync_open_5(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_primary();
  INSERT INTO farsync_sessions (id, deadline, ttl)
    VALUES (of_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + of_ttl, of_ttl);
  SELECT of_id, CONCAT(@@GLOBAL.server_id, '-', SUBSTRING(UUID(), 20));
END //

CREATE PROCEDURE IF NOT EXISTS farsync_open_6(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_primary();
  INSERT INTO farsync_sessions (id, deadline, ttl)
    VALUES (of_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + of_ttl, of_ttl);
  SELECT of_id, CONCAT(@@GLOBAL.server_id, '-', SUBSTRING(UUID(), 20));
END //

CREATE PROCEDURE IF NOT EXISTS farsync_open_7(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_primary();
  INSERT INTO farsync_sessions (id, deadline, ttl)
    VALUES (of_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + of_ttl, of_ttl);
  CALL farsync_shown(of_id, 1);
END //

CREATE PROCEDURE IF NOT EXISTS farsync_open_8(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_open_7(of_id, of_ttl);
END //

-- A Store calls this when it opens, by the name, which has the version of all that is here: where it is not found the tables are not
-- there, or of an earlier version. So it comes last.
CREATE PROCEDURE IF NOT EXISTS farsync_open_9(of_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, of_ttl BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  CALL farsync_engines();
  CALL farsync_open_7(of_id, of_ttl);
END //
