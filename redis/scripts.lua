-- The scripts, one a section. KEYS[1] is the prefix of all keys, "farsync:{<namespace>}:". The first word of an answer is
-- what became of the request: ok; unknown, the namespace must be introduced; session, the session is over; gone; conflict;
-- kind; stray.

-- name: open uses base
-- ARGV: session, ttl in µs
call('ZADD', P .. 'sessions', int(now + ARGV[2]), ARGV[1])
if ARGV[2] + 0 > (call('HGET', P .. 'server', 'ttl') or 0) + 0 then call('HSET', P .. 'server', 'ttl', ARGV[2]) end
return {'ok', int(now), int(quiet)}

-- name: renew uses base alive wake promote remove finish bury
-- ARGV: session, ttl in µs. Behind ok: the time, and how many sessions are past their deadline and still to be ended.
if not alive(ARGV[1]) then return {'session'} end
-- A server that is out of memory refuses a script whose first write needs some.
call('ZREM', P .. 'sessions', ARGV[1])
call('ZADD', P .. 'sessions', int(now + ARGV[2]), ARGV[1])
return {'ok', int(now), call('ZCOUNT', P .. 'sessions', '-inf', int(now))}

-- name: bury uses base wake promote remove finish bury
-- Behind ok: how many sessions are still to be ended.
return {'ok', call('ZCOUNT', P .. 'sessions', '-inf', int(now))}

-- name: close uses base wake promote remove finish
-- ARGV: session. The second word is 1 if there is more to remove: the caller sends it again.
if call('ZREM', P .. 'sessions', ARGV[1]) == 1 then call('ZADD', P .. 'sessions', 0, ARGV[1]) end
return {'ok', finish(ARGV[1]) and 0 or 1}

-- name: create uses base alive kept note wake promote remove finish bury row view
-- ARGV: session, id, path, kind, units, value, since in µs of the day
local session, id, path, kind, units = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not alive(session) then return {'session'} end
if call('EXISTS', P .. 'e:' .. id) == 0 then
  local revision = int(math.max((call('GET', P .. 'revision') or 0) + 1, now))
  call('SET', P .. 'revision', revision)
  call('ZADD', P .. 'q:' .. path, revision, id)
  if call('ZCARD', P .. 'q:' .. path) == 1 then
    call('ZADD', P .. 'queues', 0, path)
    wake('vacant:' .. path)
  end
  if kind ~= 'read' then call('ZADD', P .. 'x:' .. path, revision, id) end
  if kind == 'permit' then call('ZADD', P .. 'wu:' .. path, revision, id) end
  call('HSET', P .. 'e:' .. id, 'queue', path, 'session', session, 'kind', kind, 'units', units, 'revision', revision,
    'version', 1, 'value', ARGV[6], 'since', ARGV[7])
  call('SADD', P .. 's:' .. session, id)
end
if kind == 'permit' then promote(path, id) end
return view(session, id, path, kind, units, '1')

-- name: ahead uses base kept note wake promote remove finish bury row view
-- ARGV: session, id or nothing, path, kind, units, 1 if what keeps it waiting is enough
if ARGV[4] == 'permit' then promote(ARGV[3], ARGV[2]) end
return view(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])

-- name: list uses base wake promote remove finish bury row
-- ARGV: path, revision behind which it begins, limit
local rows = {}
for i, id in ipairs(call('ZRANGEBYSCORE', P .. 'q:' .. ARGV[1], '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])) do
  -- Its hash may have been removed by hand. The caller goes on behind its revision.
  rows[i] = row(id) or {ARGV[1], '', '', int(call('ZSCORE', P .. 'q:' .. ARGV[1], id)), '', '', '', id}
end
return {'ok', rows}

-- name: find uses base row
-- ARGV: id
local e = row(ARGV[1])
if not e then return {'gone'} end
return {'ok', {e}}

-- name: replace uses base wake row
-- ARGV: id, version, kind, 1 if there is a value, value
local e = row(ARGV[1])
if not e then return {'gone'} end
if e[5] ~= ARGV[2] then return {'conflict'} end
local key = P .. 'e:' .. ARGV[1]
if e[2] ~= ARGV[3] then
  if e[2] ~= 'write' or ARGV[3] ~= 'read' then return {'kind'} end
  call('ZREM', P .. 'x:' .. e[1], ARGV[1])
  call('HSET', key, 'kind', 'read')
end
if ARGV[4] == '1' then call('HSET', key, 'value', ARGV[5]) end
call('HINCRBY', key, 'version', 1)
wake(ARGV[1])
return {'ok', {row(ARGV[1])}}

-- name: delete uses base wake promote remove
-- ARGV: id. Behind ok: 1 if it was there, and the path if the caller is to send "promote".
local path = remove(ARGV[1])
if not path then return {'ok', 0, ''} end
if path ~= '' and promote(path) == 1 then return {'ok', 1, path} end
return {'ok', 1, ''}

-- name: promote uses base promote
-- ARGV: path. Behind ok: 1 if there is more.
return {'ok', promote(ARGV[1])}

-- name: watch uses base alive kept note wake promote remove finish bury
-- ARGV: session, and for each target: what, entry or path, version or 0, kind. The second word is 1 if one of them has moved;
-- otherwise the session is noted for all.
if not alive(ARGV[1]) then return {'session'} end
local names = {}
for i = 2, #ARGV, 4 do
  local what, of, version, kind = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if what == 'registered' then
    if (call('HGET', P .. 'size:' .. of, 'version') or '0') ~= version then return {'ok', 1} end
    names[#names + 1] = 'size:' .. of
  elseif what == 'joined' then
    if call('EXISTS', P .. 'q:' .. of) == 1 then return {'ok', 1} end
    names[#names + 1] = 'vacant:' .. of
  else
    local e = call('HMGET', P .. 'e:' .. of, 'queue', 'session', 'version', 'kind', 'asked')
    if not e[1] then return {'ok', 1} end
    if what == 'turn' then
      if not call('ZSCORE', P .. 'wu:' .. e[1], of) then return {'ok', 1} end
    elseif not kept(e[2]) then
      return {'stray', of}
    elseif what == 'told' and e[5] then
      return {'ok', 1}
    elseif what == 'changed' and (version == '0' and e[4] ~= kind or version ~= '0' and e[3] ~= version) then
      return {'ok', 1}
    end
    names[#names + 1] = of
  end
end
for _, name in ipairs(names) do note(ARGV[1], name) end
return {'ok', 0}

-- name: register uses base
-- ARGV: path
local r = call('HMGET', P .. 'size:' .. ARGV[1], 'value', 'version')
return {'ok', r[1] or '', r[2] or '0'}

-- name: set uses base alive wake promote remove finish bury
-- ARGV: path, value, version, entry that must be there or nothing. A value of two numbers is the declared and the current
-- size of a semaphore. Behind ok: the version, and the path if the caller is to send "promote".
local key = P .. 'size:' .. ARGV[1]
if (call('HGET', key, 'version') or '0') ~= ARGV[3] then return {'conflict'} end
if ARGV[4] ~= '' and call('EXISTS', P .. 'e:' .. ARGV[4]) == 0 then return {'conflict'} end
local current = string.match(ARGV[2], '^%d+ (%d+)$')
call('HSET', key, 'value', ARGV[2])
if current then call('HSET', key, 'current', current) else call('HDEL', key, 'current') end
local version = call('HINCRBY', key, 'version', 1)
wake('size:' .. ARGV[1])
return {'ok', version, promote(ARGV[1]) == 1 and ARGV[1] or ''}

-- name: owned uses base alive row
-- ARGV: session
if not alive(ARGV[1]) then return {'session'} end
local rows = {}
for _, id in ipairs(call('SMEMBERS', P .. 's:' .. ARGV[1])) do rows[#rows + 1] = row(id) end
return {'ok', rows}

-- name: tell uses base
-- ARGV: id, words
local session = call('HMGET', P .. 'e:' .. ARGV[1], 'queue', 'session')
if not session[1] then return {'gone'} end
call('HSET', P .. 'e:' .. ARGV[1], 'asked', ARGV[2])
if session[2] then call('PUBLISH', P .. 'c:' .. session[2], 'ask:' .. ARGV[1]) end
return {'ok'}

-- name: heard uses base
-- ARGV: id
local e = call('HMGET', P .. 'e:' .. ARGV[1], 'queue', 'asked')
if not e[1] then return {'gone'} end
return {'ok', e[2] or ''}

-- name: survey uses base wake promote remove finish bury row
-- ARGV: prefix, where it begins as ZRANGEBYLEX has it, limit
local rows, from = {}, ARGV[2]
while #rows < ARGV[3] + 0 do
  local path = call('ZRANGEBYLEX', P .. 'queues', from, '+', 'LIMIT', 0, 1)[1]
  if not path or string.sub(path, 1, #ARGV[1]) ~= ARGV[1] then break end
  for _, id in ipairs(call('ZRANGE', P .. 'q:' .. path, 0, -1)) do rows[#rows + 1] = row(id) end
  from = '(' .. path
end
return {'ok', rows}

-- name: introduce uses introduction wake promote remove finish
-- Sent by EVAL, all others by EVALSHA. ARGV: ttl in µs, 1 if nothing can be held in a namespace that has no record. The
-- second word is 1 if there is more to do: the caller sends it again. The third is for how many µs nothing is granted, or -1
-- if the server has been introduced.
if record[1] == run then return {'ok', 0, '-1'} end
for _, session in ipairs(call('ZRANGE', P .. 'sessions', 0, 3)) do
  if not finish(session) then break end
end
if call('EXISTS', P .. 'sessions') == 1 then return {'ok', 1, '0'} end
local ttl = math.max(ARGV[1], record[2] or 0)
local silence = (record[1] or ARGV[2] ~= '1') and ttl or 0
call('HSET', P .. 'server', 'run_id', run, 'quiet', int(now + silence), 'ttl', int(ttl))
return {'ok', 0, int(silence)}
