-- The functions that scripts share. A script is made of the lines "-- farsync <namespace>" and "local run = '<run_id>'" with
-- the run ID of the server, of the sections of this file that it names behind "uses", in the order of this file, and of its
-- own section of scripts.lua.

-- lib: base
-- Every script begins here. A namespace whose record is of another run, or that has none, has not been introduced to this
-- server: what holders were told may not be in the data.
local P, call = KEYS[1], redis.call
local now
do
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local record = call('HMGET', P .. 'server', 'run_id', 'quiet')
if record[1] ~= run then return {'unknown'} end
-- How many µs from now on nothing is granted.
local quiet = math.max(0, (record[2] or 0) - now)
-- Numbers of 51 bits are written out: tostring would round them to 14 digits.
local function int(n) return string.format('%.0f', n) end

-- lib: introduction
-- Stands in the place of base in the one script that is sent before the server has been introduced. It grants nothing.
local P, call, quiet = KEYS[1], redis.call, 1
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local record = call('HMGET', P .. 'server', 'run_id', 'ttl')
local function int(n) return string.format('%.0f', n) end

-- lib: alive
local function alive(session)
  local deadline = session and call('ZSCORE', P .. 'sessions', session)
  return deadline and deadline + 0 > now
end

-- lib: kept
-- A session that has run out is kept until all its entries are removed, which happens in parts. They go soon: to wait for
-- one of them is not to wait for ever.
local function kept(session) return session and call('ZSCORE', P .. 'sessions', session) end

-- lib: note
-- Notes that a session waits for a name. A name with a colon is none of an entry, and does not go with one.
local function note(session, name)
  call('SADD', P .. 'w:' .. name, session)
  if string.find(name, ':', 1, true) then call('SADD', P .. 'ws:' .. session, name) end
end

-- lib: wake
-- Tells the sessions that wait for a name that it has moved, and forgets them.
local function wake(name)
  local sessions = call('SMEMBERS', P .. 'w:' .. name)
  for _, session in ipairs(sessions) do
    call('PUBLISH', P .. 'c:' .. session, name)
    if string.find(name, ':', 1, true) then call('SREM', P .. 'ws:' .. session, name) end
  end
  if #sessions > 0 then call('DEL', P .. 'w:' .. name) end
end

-- lib: promote
-- Grants to the permits that wait, oldest first, while the first of them fits and none but granted permits are ahead of it.
-- It tells their sessions, but not that of self, which is being answered. It returns 1 if it has stopped for having granted
-- to 128: the caller sends "promote".
local function promote(path, self)
  if quiet > 0 then
    -- The first waits for the end of the silence, and all others for their turn. So one that has become the first is told.
    local first = not self and call('ZRANGE', P .. 'wu:' .. path, 0, 0)[1]
    local session = first and call('HGET', P .. 'e:' .. first, 'session')
    if session then call('PUBLISH', P .. 'c:' .. session, 'turn:' .. first) end
    return 0
  end
  local size = call('HMGET', P .. 'size:' .. path, 'current', 'held', 'granted')
  if not size[1] then return 0 end
  local room, before, given, count, more = size[1] - (size[2] or 0), (size[3] or 0) + 0, 0, 0, 0
  while true do
    local first = call('ZRANGE', P .. 'wu:' .. path, 0, 0)[1]
    if not first then break end
    local e = call('HMGET', P .. 'e:' .. first, 'units', 'session')
    if e[1] then
      local units = e[1] + 0
      if units > room or call('ZRANK', P .. 'q:' .. path, first) > before + count then break end
      if count == 128 then more = 1 break end
      room, given, count = room - units, given + units, count + 1
      if first ~= self and e[2] then call('PUBLISH', P .. 'c:' .. e[2], 'turn:' .. first) end
    else -- its hash was removed by hand: it is gone
      call('ZREM', P .. 'q:' .. path, first)
      call('ZREM', P .. 'x:' .. path, first)
    end
    call('ZREM', P .. 'wu:' .. path, first)
  end
  if count > 0 then
    call('HINCRBY', P .. 'size:' .. path, 'held', int(given))
    call('HINCRBY', P .. 'size:' .. path, 'granted', count)
  end
  return more
end

-- lib: remove
-- Removes an entry. It returns nil if it was not there, and otherwise the path of the queue if that is to be promoted, or
-- an empty string.
local function remove(id)
  local e = call('HMGET', P .. 'e:' .. id, 'queue', 'session', 'kind', 'units')
  local path, session, kind = e[1], e[2], e[3]
  if not path then return nil end
  call('ZREM', P .. 'q:' .. path, id)
  if session then call('SREM', P .. 's:' .. session, id) end
  call('DEL', P .. 'e:' .. id)
  if call('EXISTS', P .. 'q:' .. path) == 0 then call('ZREM', P .. 'queues', path) end
  wake(id)
  if kind ~= 'read' then call('ZREM', P .. 'x:' .. path, id) end
  if kind == 'permit' and call('ZREM', P .. 'wu:' .. path, id) == 0 then
    call('HINCRBY', P .. 'size:' .. path, 'held', int(-e[4]))
    call('HINCRBY', P .. 'size:' .. path, 'granted', -1)
  end
  return call('EXISTS', P .. 'wu:' .. path) == 1 and path or ''
end

-- lib: finish
-- Removes up to 128 entries of a session that is over, and then the session. It returns whether that was all.
local function finish(session)
  local paths = {}
  for _, id in ipairs(call('SPOP', P .. 's:' .. session, 128)) do
    local path = remove(id)
    if path and path ~= '' then paths[path] = true end
  end
  for path in pairs(paths) do promote(path) end
  if call('EXISTS', P .. 's:' .. session) == 1 then return false end
  for _, name in ipairs(call('SMEMBERS', P .. 'ws:' .. session)) do call('SREM', P .. 'w:' .. name, session) end
  call('DEL', P .. 'ws:' .. session)
  call('ZREM', P .. 'sessions', session)
  return true
end

-- lib: bury
-- Ends sessions that are past their deadline, some at a time. The answer to "renew" tells whether there are more: then its
-- caller sends "bury".
for _, session in ipairs(call('ZRANGEBYSCORE', P .. 'sessions', '-inf', int(now), 'LIMIT', 0, 4)) do
  if not finish(session) then break end
end

-- lib: row
-- An entry as the list of its fields, or nil if it is not there.
local fields = {'queue', 'kind', 'units', 'revision', 'version', 'since', 'value'}
local function row(id)
  local e = call('HMGET', P .. 'e:' .. id, unpack(fields))
  if not e[1] then return nil end
  for i = 1, #fields do e[i] = e[i] or '' end
  e[#e + 1] = id
  return e
end

-- lib: view
-- What is ahead of an entry, or of one that would join now if id is empty. If waiting is '1' it is what keeps the entry
-- waiting, and the session is noted for it; otherwise it is everything.
--
-- Of a permit the server knows whether it is granted, so no list is needed, as long as the oldest entry is a permit.
local function view(session, id, path, kind, units, waiting)
  local q, max, self = P .. 'q:' .. path, '+inf', {}
  local ahead, rows, noted, turn, size = 0, {}, 0, '', {}
  if id ~= '' then
    self = row(id)
    if not self then return {'gone'} end
    max, kind, units = '(' .. self[4], self[2], self[3]
  end
  if kind == 'permit' then
    size = call('HMGET', P .. 'size:' .. path, 'value', 'version', 'current', 'held', 'granted')
  end
  local function choose()
    ahead = id == '' and call('ZCARD', q) or call('ZRANK', q, id)
    if waiting ~= '1' then return call('ZRANGEBYSCORE', q, '-inf', max) end
    if kind ~= 'permit' then
      return call('ZREVRANGEBYSCORE', kind == 'read' and P .. 'x:' .. path or q, max, '-inf', 'LIMIT', 0, 1)
    end
    local first = ahead > 0 and call('ZRANGE', q, 0, 0) or {}
    return first[1] and call('HGET', P .. 'e:' .. first[1], 'kind') ~= 'permit' and first or {}
  end
  local ids = choose()
  for i = 1, #ids do
    rows[i] = row(ids[i])
    if not rows[i] then -- its hash was removed by hand: it is gone
      for _, key in ipairs({'q:', 'x:', 'wu:'}) do call('ZREM', P .. key .. path, ids[i]) end
      return view(session, id, path, kind, units, waiting)
    end
  end
  if waiting == '1' and kind == 'permit' and #ids == 0 then
    if id == '' then
      local fits = size[3] and (size[4] or 0) + units <= size[3] + 0 and ahead == (size[5] or 0) + 0
      turn = fits and 'granted' or 'waits'
    elseif call('ZSCORE', P .. 'wu:' .. path, id) then
      note(session, 'size:' .. path)
      turn, noted = 'waits', 1
    else
      turn = 'granted'
    end
  elseif waiting == '1' and id ~= '' and ids[1] and kept(call('HGET', P .. 'e:' .. ids[1], 'session')) then
    note(session, ids[1])
    noted = 1
  end
  return {'ok', int(quiet), ahead, turn, noted, size[1] or '', size[2] or '0', self, rows}
end
