-- The one script of farsync. In front of this text stand the lines "-- farsync <namespace>" and "local run = '<run_id>'".
--
-- KEYS[1] is the prefix of all keys, "farsync:{<namespace>}:". It is itself no key: while a cluster moves the slot, the
-- server that has it refuses whatever names a key that is not there, so no script ever sees half of a namespace.
-- ARGV[1] is what is asked for, one of the operations below, and behind it stand its arguments. Functions are made anew in every
-- call, so each operation stands right behind the last that it uses, and what is asked for most comes first.
--
-- An answer is a list of strings: a word, n, more, value, version, silence, and then the fields of entries, nine for each. Silence is for how
-- many µs more nothing is granted. The word is what became of the request: ok; unknown, the namespace must be introduced; session, the session is over; gone;
-- conflict; kind; stray; foreign, in the place of the queue is a key of another type, which is named; text, a key that is named has a text that
-- is no number, which follows; large, the semaphore has more units than can be counted; command, the user may not use the command that is named. If
-- more is 1, work is left: the client sends "work" until it is 0.
local P, call, op = KEYS[1], redis.call, ARGV[1]

-- A user who may not use one of the commands, with a key or a channel of the namespace, is refused before anything is done.
if op == 'open' or op == 'introduce' then
  for _, command in ipairs({
    {'INFO'}, {'TIME'}, {'GET', P}, {'SET', P, ''}, {'APPEND', P, ''}, {'OBJECT', 'ENCODING', P}, {'EXISTS', P}, {'DEL', P}, {'HGET', P, ''}, {'HMGET', P, ''}, {'HSET', P, '', ''},
    {'HDEL', P, ''}, {'HINCRBY', P, '', 1}, {'SADD', P, ''}, {'SREM', P, ''}, {'SPOP', P}, {'SMEMBERS', P}, {'SCARD', P},
    {'ZADD', P, 0, ''}, {'ZREM', P, ''}, {'ZCARD', P}, {'ZCOUNT', P, 0, 0}, {'ZSCORE', P, ''}, {'ZRANK', P, ''}, {'ZRANGE', P, 0, 0},
    {'ZRANGEBYSCORE', P, 0, 0}, {'ZREVRANGEBYSCORE', P, 0, 0}, {'ZRANGEBYLEX', P, '-', '+'}, {'ZUNIONSTORE', P, 1, P},
    {'SPUBLISH', P .. 'c:', ''},
  }) do
    if not redis.acl_check_cmd(unpack(command)) then return {'command', '0', '0', command[1]} end
  end
end

-- A command for a key that another program may have put something else in the place of, with nil for an answer if it has. What stood there is
-- gone with it, so nothing is left of it that could be removed. A script that broke off at such a key would leave a part undone: a session that
-- is over would take other entries out of its set and leave them in their queues, where each would be a stray for ever, and whoever renews a
-- session, or asks for any other path, would be given the error. Another error breaks the script off.
local function upon(...)
  local is = redis.pcall(...)
  if type(is) == 'table' and is.err then
    if not string.find(is.err, '^WRONGTYPE') then error(is) end
    return nil
  end
  return is
end

-- Answers that another program has put a key of another type in the place of a key of the namespace itself. Nothing was
-- carried out. The client asks again, and goes on once the key is deleted.
local function inPlace(key) return {'foreign', '0', '0', P .. key} end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local record = upon('HMGET', P .. 'server', 'run_id', 'quiet', 'ttl', 'mark')
if not record then return inPlace('server') end
-- The data of a server that was a replica in between may be another's, and lack what was granted here, and the server still knows the scripts.
-- But what it received as a whole it has encoded anew: a text that was appended to is 'raw', and 'embstr' when it was received.
local function mark() return call('OBJECT', 'ENCODING', P .. 'mark') or '' end
-- Numbers are doubles, of which each is but one integer up to here. A sum of two such may be rounded; their difference is not.
local countable = 2 ^ 53 - 1
-- The longest TTL that there is, in µs.
local day = 24 * 60 * 60 * 1000000

-- A number of farsync's own, or nothing where another program has put something there that is none.
local function whole(text)
  local n = tonumber(text)
  return n and n >= 0 and n <= countable and n % 1 == 0 and n
end

-- A record that lacks one of its numbers is none.
local begins, seen = whole(record[2]), whole(record[3])
local introduced = record[1] == run and (record[4] or '') == mark() and begins and seen
-- How many µs from now on nothing is granted. No silence is longer than the longest TTL: where more is left, the clock was set back since.
local left, longest = (begins or 0) - now, math.min(seen or 0, day)
local quiet = math.max(0, math.min(left, longest))
-- page bounds what one script removes and grants, so that none keeps the server for long.
local page = 128
local answer = {'ok', '0', '0', '', '0', string.format('%.0f', quiet)}
-- An operation that needs the sessions is not begun while another program's key stands in their place. Those that are asked for most read the
-- sessions before they write anything, and find out thereby.
local needs = {open = true, introduce = true, work = true, close = true}
if needs[op] and not upon('ZCARD', P .. 'sessions') then return inPlace('sessions') end

-- Numbers of 51 bits are written out: tostring would round them to 14 digits.
local function int(n) return string.format('%.0f', n) end

-- The units of an entry, or of what is granted. Text that another program has put there is none: a script that broke
-- off there would keep all other paths from being looked at.
local function number(text)
  local n = tonumber(text)
  return n and n > 0 and n or 0
end

-- The fields of an entry. There are none where another program has put something else in the place of the hash.
local function fields(id, ...)
  local e = redis.pcall('HMGET', P .. 'e:' .. id, ...)
  return e.err and {} or e
end

-- The one operation that is sent by EVAL, and to a server to which the namespace has not been introduced. ARGV: ttl in µs, 1 if
-- nothing can be held in a namespace that has no record, the hash of the script, by which people call it, and of the introduction that the
-- client has met last the term and the run. It ends all sessions, and has nothing granted for the longest TTL that was seen. n is for how
-- many µs, and version is the term.
--
-- Introductions are counted. Where the client has met a later one than this server, or another of the same number, it has missed what
-- was granted since: a master that hung while another was promoted is still the last in its own data.
if op == 'introduce' then
  local term, met = whole(call('HGET', P .. 'server', 'term')) or 0, (ARGV[5] or 0) + 0
  local missed = met > term or met > 0 and met == term and ARGV[6] ~= run
  answer[5] = int(term)
  if introduced and not missed then return answer end
  longest = math.max(ARGV[2], longest)
  local last = call('ZRANGE', P .. 'sessions', -1, -1, 'WITHSCORES')[2]
  if last and not (begins and seen) then -- the record alone was deleted, or overwritten: a session may be believed in until the last deadline
    longest = math.max(longest, math.min(last - now, day))
  end
  call('ZUNIONSTORE', P .. 'sessions', 1, P .. 'sessions', 'WEIGHTS', 0)
  local silence = (record[1] or last or ARGV[3] ~= '1') and longest or 0
  answer[2], answer[5] = int(silence), int(math.max(term, met) + 1)
  call('SET', P .. 'mark', '')
  call('APPEND', P .. 'mark', '-')
  call('HSET', P .. 'server', 'run_id', run, 'quiet', int(now + silence), 'ttl', int(longest), 'script', ARGV[4], 'term', answer[5], 'mark', mark())
  return answer
end

-- A namespace whose record is of another run, or that has none, has not been introduced to this server, or not since the server took its data
-- from another: what holders were told may not be in the data.
if not introduced then return {'unknown'} end

-- A message is a hint: a waiter looks by itself now and then. A script that broke off here, for a user whose channels were taken away, would
-- leave a part undone.
local function tell(session, name) redis.pcall('SPUBLISH', P .. 'c:' .. session, name) end

local function wake(name)
  local noted = upon('SMEMBERS', P .. 'w:' .. name) or {}
  for _, member in ipairs(noted) do
    local session, waiter = string.match(member, '^(%S+) ?(%S*)$')
    if session then
      tell(session, waiter ~= '' and waiter or name)
      if waiter == '' then upon('SREM', P .. 'ws:' .. session, name) end
    end
  end
  if #noted > 0 then call('DEL', P .. 'w:' .. name) end
end

-- Writes the score of a member of a sorted set, and returns nil where another program's key stands in the place of the set.
local function put(key, member, score)
  upon('ZREM', key, member) -- a server that is out of memory refuses a script whose first write needs some
  return upon('ZADD', key, score, member)
end

local function drop(path, id)
  for _, key in ipairs({'q:', 'x:', 'wu:'}) do upon('ZREM', P .. key .. path, id) end
  wake(id)
end

-- A member of the set of writers that is no entry, and stands ahead of all entries. If it is the nearest member ahead
-- of a reader, only readers are ahead of that reader. If it is missing, another program has deleted the set, and the
-- set proves nothing.
local bottom = ':'

-- Returns the entries of all sessions that stand at a path, or those alone that may be readers. The sessions are read once in a request, which
-- may mend many queues.
local owned, whose = nil, nil
local function standing(path, readers)
  if not owned or whose and not readers then
    owned, whose = {}, readers
    for _, session in ipairs(upon('ZRANGE', P .. 'sessions', 0, -1) or {}) do
      for _, id in ipairs(upon('SMEMBERS', P .. 's:' .. session) or {}) do
        if not readers or string.find(id, '^read%-') or string.find(id, '^write%-') then
          local queue = fields(id, 'queue')[1]
          if queue then
            owned[queue] = owned[queue] or {}
            table.insert(owned[queue], id)
          end
        end
      end
    end
  end
  return owned[path] or {}
end

-- Puts back into a queue the entries whose hashes say that they stand there. What leaves a queue loses its hash in the same script, so another
-- program has taken out an entry that has one, and the entry holds or waits there still: nobody may be granted what was behind it. The set of
-- writers has all of them but readers. Where the whole queue is missing, readers are sought in all sessions, and so is everybody if the set is
-- missing, too. What the set has beside these goes: a set that outlives its queue would have each join look here.
local function mend(path)
  local q, x = P .. 'q:' .. path, P .. 'x:' .. path
  local sought = call('EXISTS', q) == 0
  upon('ZREM', q, bottom) -- as in put
  local beside = upon('ZRANGE', x, 0, -1, 'WITHSCORES') or {}
  local proven = beside[1] == bottom
  for i = 1, #beside, 2 do
    local e = beside[i] ~= bottom and fields(beside[i], 'queue', 'kind')
    if e and e[1] == path then
      upon('ZADD', q, 'NX', beside[i + 1], beside[i])
      if e[2] ~= 'write' and proven then sought = false end -- no reader stands in a queue of another family
    elseif e then
      upon('ZREM', x, beside[i])
    end
  end
  if not sought then return end
  for _, id in ipairs(standing(path, proven)) do
    local e = fields(id, 'queue', 'revision')
    local revision = whole(e[2])
    if e[1] == path and revision then upon('ZADD', q, 'NX', int(revision), id) end
  end
end

-- Counts anew what is granted in a semaphore, without entries whose hash was removed by hand. The hash of a granted
-- permit names the count that has its units. So the units are taken from that count alone, wherever the entry stands
-- when it is removed.
local function recount(path)
  local size = P .. 'size:' .. path
  if not upon('HGET', size, 'current') then return end
  call('HDEL', size, 'held', 'granted') -- as in put
  if call('EXISTS', P .. 'x:' .. path) == 1 or upon('ZSCORE', P .. 'queues', path) then mend(path) end
  local held, granted, count = 0, 0, int(now)
  for _, other in ipairs(upon('ZRANGE', P .. 'q:' .. path, 0, -1) or {}) do
    local e = fields(other, 'queue', 'units', 'granted')
    if not e[1] then
      drop(path, other)
    elseif e[3] then
      held, granted = held + number(e[2]), granted + 1
      call('HSET', P .. 'e:' .. other, 'granted', count)
    end
  end
  -- Units that another program has written may be more than can be counted: then all are in use.
  call('HSET', size, 'held', int(math.min(held, countable)), 'granted', granted, 'count', count)
end

-- Removes what a queue has beside it when the last entry, id, has left.
local function clear(path, id)
  upon('ZREM', P .. 'queues', path)
  upon('ZREM', P .. 'x:' .. path, bottom, id)
end

-- Removes from a queue an entry whose hash was removed by hand, or lacks its units. Nothing says any more what it held. What is left of the
-- hash goes, too, or it would put the entry back.
local function forget(path, id)
  drop(path, id)
  if upon('HGET', P .. 'e:' .. id, 'queue') then call('DEL', P .. 'e:' .. id) end
  recount(path)
  if call('EXISTS', P .. 'q:' .. path) == 0 then clear(path, id) end
end

-- Puts a permit into the set of the permits that wait.
local function await(path, id)
  local wu, revision = P .. 'wu:' .. path, upon('ZSCORE', P .. 'q:' .. path, id)
  if revision then put(wu, id, revision) else upon('ZREM', wu, id) end
end

-- Grants to the permits that wait, oldest first, while the first of them fits and none but granted permits are ahead of
-- it. It tells their sessions, but not that of self, which has just joined and is being answered: any other may have
-- made a look before, whose answer comes behind this one. What is beyond a page is noted as work.
--
-- The hash of a permit says that it is granted, and nothing else does. The set of waiting permits only shows the first
-- of them, and the account shows how many units are left. The script makes both again from the hashes and the queue. So
-- nobody is granted because another program deletes a key. A waiter who is missing in the set is put back here if it is
-- the next, and otherwise when it looks. Until then no later waiter passes it: ahead of a later waiter stand more
-- entries than were granted.
local function promote(path, self)
  local q, wu, size = P .. 'q:' .. path, P .. 'wu:' .. path, P .. 'size:' .. path
  local function read() return upon('HMGET', size, 'current', 'held', 'granted', 'count') end
  local account = read()
  if not account or not account[1] or number(account[1]) > countable or quiet > 0 then return end
  if not (whole(account[2]) and whole(account[3]) and account[4]) then -- the size was declared just now, or once more
    recount(path)
    account = read()
  end
  local held, before, given, count = whole(account[2]), whole(account[3]), 0, 0
  local room = number(account[1]) - held
  local damaged
  for step = 1, page + 1 do
    local first = upon('ZRANGE', wu, 0, 0)
    if not first then break end
    local id, rank = first[1], nil
    if id then
      rank = upon('ZRANK', q, id)
      if rank == nil then break end
    end
    local listed = id
    if not id or rank and rank > before + count then
      id, rank = (upon('ZRANGE', q, before + count, before + count) or {})[1], before + count
      if not id then break end
    end
    local e = fields(id, 'units', 'session', 'granted', 'kind')
    if rank and not e[1] then -- with the permits that are granted here: they are counted by their hashes
      damaged = id
      break
    end
    local units, waits = number(e[1]), rank and not e[3]
    if id ~= listed and (not waits or e[4] ~= 'permit') then break end
    if waits and units > room then
      if id ~= listed then await(path, id) end
      break
    end
    if step > page then
      if upon('SADD', P .. 'todo', path) then answer[3] = '1' end -- else whoever looks or leaves next goes on
      break
    end
    call('ZREM', wu, id) -- also an entry that is granted, or stands in no queue
    if waits then
      room, given, count = room - units, given + units, count + 1
      call('HSET', P .. 'e:' .. id, 'granted', account[4])
      if e[2] and id ~= self then tell(e[2], id) end
    end
    if id == self then break end -- nobody is behind it
  end
  if count > 0 then
    call('HSET', size, 'held', int(held + given), 'granted', int(before + count))
  end
  if damaged then
    forget(path, damaged)
    return promote(path, self)
  end
end

-- Removes an entry. It returns nil if it was not there, and otherwise the path of the queue if that is to be promoted, or
-- an empty string.
local function remove(id)
  local e = fields(id, 'queue', 'session', 'kind', 'units', 'waits', 'granted')
  local path, session, kind = e[1], e[2], e[3]
  if not path then return nil end
  -- First, for a server that refuses this to the user ends the script: the entry is still there then, and its units are held.
  if kind == 'permit' then upon('ZREM', P .. 'wu:' .. path, id) end
  local size, granted = P .. 'size:' .. path, nil
  if kind == 'permit' then
    local account = upon('HMGET', size, 'held', 'granted', 'count') or {}
    local held = whole(account[1])
    granted = whole(account[2])
    if e[6] and e[6] == account[3] and held and granted then
      granted = granted - 1
      call('HSET', size, 'held', int(held - number(e[4])), 'granted', int(granted))
    end
  end
  local stood = upon('ZREM', P .. 'q:' .. path, id)
  if e[5] and session then upon('SREM', P .. 'w:' .. e[5], session .. ' ' .. id) end
  if session then upon('SREM', P .. 's:' .. session, id) end
  call('DEL', P .. 'e:' .. id)
  local left = upon('ZCARD', P .. 'q:' .. path)
  if left == 0 and stood == 0 then -- the queue was deleted
    mend(path)
    left = upon('ZCARD', P .. 'q:' .. path)
  end
  if left == 0 then clear(path, id) elseif kind ~= 'read' then upon('ZREM', P .. 'x:' .. path, id) end
  wake(id)
  -- Where more stand than were granted, somebody waits, whether the set of waiting permits says so or not.
  local waits
  if kind == 'permit' then waits = left ~= granted else waits = call('EXISTS', P .. 'wu:' .. path) == 1 end
  return waits and path or ''
end

-- Removes an entry, grants to the permits that waited for its units, and returns whether it was there.
local function leave(id)
  local path = remove(id)
  if path and path ~= '' then promote(path) end
  return path ~= nil
end

-- ARGV: entry. n is 1 if it was there.
if op == 'delete' then
  answer[2] = leave(ARGV[2]) and '1' or '0'
  return answer
end

-- Removes a page of the entries of a session that is over, then a page of its notes, and then the session. It returns whether that was
-- all. What waits in the session is told then: without its notes it would hear nothing any more.
local function finish(session)
  local paths = {}
  -- Of a set that another program has overwritten nothing is left to be done, and the session must not stand in the way of all others.
  local function some(key)
    local popped = upon('SPOP', key, page)
    if not popped then call('DEL', key) end
    return ipairs(popped or {})
  end
  for _, id in some(P .. 's:' .. session) do
    local path = remove(id)
    if path and path ~= '' then paths[path] = true end
  end
  for path in pairs(paths) do promote(path) end
  if call('EXISTS', P .. 's:' .. session) == 1 then return false end
  for _, name in some(P .. 'ws:' .. session) do upon('SREM', P .. 'w:' .. name, session) end
  if call('EXISTS', P .. 'ws:' .. session) == 1 then return false end
  call('ZREM', P .. 'sessions', session)
  tell(session, '')
  return true
end

-- Ends sessions that are past their deadline, a few at a time. It returns false where another program's key stands in their place.
local function bury()
  local past = upon('ZRANGEBYSCORE', P .. 'sessions', '-inf', int(now), 'LIMIT', 0, 4)
  for _, session in ipairs(past or {}) do
    if not finish(session) then break end
  end
  return past ~= nil
end

-- The work that is left after the sessions were deleted: to search all queues. No path begins with it.
local search = '*'

-- Reads for how long a session that is missing may be believed in, from its entries: the record may have been deleted, too, and made again by a
-- client with a shorter TTL. A silence becomes as long: nobody knows since when the session is missing.
local function believe(session)
  local most = longest
  for _, id in ipairs(upon('SMEMBERS', P .. 's:' .. session) or {}) do
    local ttl = whole(fields(id, 'ttl')[1]) or 0
    most = math.max(most, math.min(ttl, day))
    if ttl > 0 then break end -- the entries of a session have one TTL
  end
  if most == longest then return end
  longest = most
  call('HSET', P .. 'server', 'ttl', int(longest))
  if quiet > 0 then
    left, quiet, answer[6] = longest, longest, int(longest)
    call('HSET', P .. 'server', 'quiet', int(now + longest))
  end
end

-- Returns the deadline of a session, false if the session is over, or nil where another program's key stands in the place of the sessions. A
-- session that is over has no set of entries any more. A session with such a set is missing because another program has deleted the sessions.
-- Its entries still stand in their queues, so no other client holds what the session holds, and the session goes on. It gets the longest
-- TTL that was seen, within which its process renews it or gives it up. Other sessions are missing, too: all queues are
-- searched for them. In the silence it is over: the introduction would have ended it.
local function deadline(session, sought)
  local ends = upon('ZSCORE', P .. 'sessions', session)
  if ends or ends == nil or call('EXISTS', P .. 's:' .. session) == 0 then return ends end
  call('ZREM', P .. 'sessions', session) -- as in put
  believe(session)
  ends = quiet > 0 and 0 or now + longest
  call('ZADD', P .. 'sessions', int(ends), session)
  if not sought then upon('SADD', P .. 'todo', search) end
  return ends
end

-- Returns the answer to a session that is over, or whose deadline cannot be read, or else false.
local function over(session)
  local ends = deadline(session)
  if ends == nil then return inPlace('sessions') end
  return not (ends and ends + 0 > now) and {'session'}
end

-- A session that has run out is kept until all its entries are removed, which happens in parts. They go soon: to wait for
-- one of them is not to wait for ever.
local function kept(session, sought) return session and deadline(session, sought) end

-- Gives the paths of queues one score again, a page of them at a time: the set is in the order of its members only
-- while no other program has written another score.
local function align()
  if upon('ZCOUNT', P .. 'queues', 0, 0) == upon('ZCARD', P .. 'queues') then return end
  for _, part in ipairs({{'-inf', '(0'}, {'(0', '+inf'}}) do
    for _, path in ipairs(upon('ZRANGEBYSCORE', P .. 'queues', part[1], part[2], 'LIMIT', 0, page) or {}) do
      put(P .. 'queues', path, 0)
    end
  end
end

-- Puts sessions back that are missing and have entries in the queues behind a path, a page of entries at a time.
local function seek(after)
  local seen, entries = {}, 0
  align()
  while entries < page do
    local path = (upon('ZRANGEBYLEX', P .. 'queues', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, 1) or {})[1]
    if not path then return end
    for _, id in ipairs(upon('ZRANGE', P .. 'q:' .. path, 0, -1) or {}) do
      local session = fields(id, 'session')[1]
      if session and not seen[session] then seen[session] = kept(session, true) or true end
      entries = entries + 1
    end
    entries, after = entries + 1, path
  end
  upon('SADD', P .. 'todo', search .. after)
end

-- Notes that a session is to be told when a name moves: by the ID of an entry that waits for it, or else by the name. What has noted says
-- so, the entry or the session, so that the note goes with it: what is held for a week would have those of all that gave up behind it, or
-- looked at it once.
local function note(name, session, waiter)
  local member = waiter and session .. ' ' .. waiter or session
  upon('SREM', P .. 'w:' .. name, member) -- as in put
  upon('SADD', P .. 'w:' .. name, member)
  if waiter then upon('HSET', P .. 'e:' .. waiter, 'waits', name) else upon('SADD', P .. 'ws:' .. session, name) end
end

-- Appends an entry's fields to the answer, and returns false if it is not there.
local function row(id)
  local e = fields(id, 'queue', 'kind', 'units', 'revision', 'version', 'since', 'value', 'session')
  if not e[1] then return false end
  for i = 1, 8 do answer[#answer + 1] = e[i] or '' end
  answer[#answer + 1] = id
  return true
end

-- Returns the place of an entry in its queue, where its hash says that it stands, or nil where a key of another type is there. An entry that
-- another program has taken out is put back. It is removed, and its session told, where that may be too late: the set of writers did not show
-- the entry, a reader's for example, and whoever joined later is the first, and may hold.
local function stands(id, path)
  local q = P .. 'q:' .. path
  local place = upon('ZSCORE', q, id)
  if place ~= false then return place end
  mend(path)
  place = upon('ZSCORE', q, id)
  if place ~= false then return place end
  local e, first = fields(id, 'revision', 'kind'), call('ZRANGE', q, 0, 0, 'WITHSCORES')
  local revision = whole(e[1]) or now
  if first[1] and first[2] + 0 > revision and not (e[2] == 'read' and fields(first[1], 'kind')[1] == 'read') then
    remove(id)
    return nil
  end
  call('ZADD', q, int(revision), id)
  return upon('ZSCORE', q, id)
end

-- Returns the nearest entry ahead of max that is not a reader's, or without max the oldest such entry of the queue. A
-- set that was deleted is made again from the queue. That reads the queue once: the next look finds the bottom.
local function exclusive(path, max)
  local x, ids = P .. 'x:' .. path, nil
  if max then
    ids = call('ZREVRANGEBYSCORE', x, max, '-inf', 'LIMIT', 0, 1)
    if ids[1] == bottom then return {} end
    if ids[1] then return ids end
  else
    ids = call('ZRANGE', x, 0, 1)
    if ids[1] == bottom then return {ids[2]} end
    if call('ZSCORE', x, bottom) then return {ids[1]} end -- of another program, with the same score
  end
  put(x, bottom, '-inf')
  for _, other in ipairs(call('ZRANGE', P .. 'q:' .. path, 0, -1)) do
    local kind = fields(other, 'kind')[1]
    if kind and kind ~= 'read' then call('ZADD', x, call('ZSCORE', P .. 'q:' .. path, other), other) end
  end
  return exclusive(path, max)
end

-- Whether this request has joined a queue that was empty.
local alone

-- What is ahead of an entry, or of one that would join now if id is empty. If waiting is '1' it is what keeps the entry
-- waiting, the nearest, or the oldest if id is empty, and the session is noted for it, which n says; otherwise it is everything. Version and value are those of the
-- register. The first entry of the answer is the one itself, if it has an id. Behind the last is one empty field if the
-- answer shows all that is ahead.
--
-- Two entries may be shown that no client has made. One stands for all that is ahead of a permit: the server knows whether
-- a permit is granted, so no list is needed, as long as the oldest entry is a permit. The other is the silence: all permits wait
-- for its end, for until then it is open what size they have.
local function view(session, id, path, kind, units, waiting)
  local q, max = P .. 'q:' .. path, '+inf'
  if id ~= '' then
    local place = row(id) and answer[7] == path and stands(id, path)
    if not place then return {'gone'} end
    -- Another program has moved it. The hash has the token, so it says where the entry stands. If the hash does not, the entry stands nowhere.
    local revision = whole(answer[10])
    if not revision then
      leave(id)
      return {'gone'}
    elseif place + 0 ~= revision then
      put(q, id, answer[10])
    end
    max, kind, units = '(' .. answer[10], answer[8], answer[9]
    if op ~= 'create' then redis.pcall('ZADD', P .. 'queues', 0, path) end -- also where another program has deleted them
  end
  local own = #answer
  local function account() return call('HMGET', P .. 'size:' .. path, 'value', 'version', 'current', 'held', 'granted') end
  local function again()
    while #answer > 6 do table.remove(answer) end
    return view(session, id, path, kind, units, waiting)
  end
  local size = kind == 'permit' and account() or {}
  local ahead = id == '' and call('ZCARD', q) or call('ZRANK', q, id)
  local ids = {}
  if not alone and waiting == '1' and id ~= '' and ahead == 0 then
    -- The set of writers shows an entry ahead that another program has taken out of the queue. Where a permit that is not granted is ahead of
    -- all, no units should be held.
    local other = kind ~= 'permit' and exclusive(path, max)[1]
    if other then
      local place = fields(other, 'queue')[1] == path and stands(other, path)
      if place then put(P .. 'x:' .. path, other, place) else call('ZREM', P .. 'x:' .. path, other) end
      return again()
    elseif kind == 'permit' and number(size[4]) > 0 and not fields(id, 'granted')[1] then
      recount(path)
      promote(path)
      size, ahead = account(), call('ZRANK', q, id)
    end
  end
  if waiting ~= '1' then
    ids = call('ZRANGEBYSCORE', q, '-inf', max)
  elseif kind == 'read' then
    ids = ahead > 0 and exclusive(path, id ~= '' and max) or {}
    -- A writer who holds is the head of the queue, and its name begins so for good. The set lacks it if another
    -- program has taken it out.
    local head = not ids[1] and ahead > 0 and call('ZRANGE', q, 0, 0, 'WITHSCORES')
    if head and not string.find(head[1], '^read%-') then
      local is = fields(head[1], 'queue', 'kind')
      if is[1] == path and is[2] ~= 'read' then
        put(P .. 'x:' .. path, head[1], head[2])
        ids = {head[1]} -- not again(): another program may have written what has the set lack it each time
      end
    end
  elseif kind ~= 'permit' then
    ids = id == '' and call('ZRANGE', q, 0, 0) or call('ZREVRANGEBYSCORE', q, max, '-inf', 'LIMIT', 0, 1)
  elseif ahead > 0 then
    ids = call('ZRANGE', q, 0, 0)
    local oldest = fields(ids[1], 'kind', 'session')
    if oldest[1] == 'permit' then
      kept(oldest[2])
      ids = {}
    end
  end
  for _, other in ipairs(ids) do
    local there = row(other)
    -- Of the set of writers: another program may have written it there, or taken it out of the queue.
    local left = there and waiting == '1' and kind == 'read' and not (answer[#answer - 8] == path and stands(other, path))
    if not there or left then
      if left then call('ZREM', P .. 'x:' .. path, other) else forget(path, other) end
      if kind == 'permit' then promote(path) end
      return again()
    end
    -- Whoever makes a reader of its writer takes it out of the set: another program has written this kind.
    if waiting == '1' and kind == 'read' and answer[#answer - 7] == 'read' and string.find(other, '^write%-') then answer[#answer - 7] = 'write' end
  end
  local all = #ids == ahead
  local function show(as, of, name, words)
    for _, field in ipairs({path, as, of, '0', '0', '0', words, '', name}) do answer[#answer + 1] = field end
    all = false
  end
  local most = '9223372036854775807'
  if waiting == '1' and kind == 'permit' and #ids == 0 and ahead > 0 and quiet == 0 then
    local waits
    if id ~= '' then
      waits = not fields(id, 'granted')[1]
      answer[2] = waits and '1' or '0' -- promote and set tell its session in any case
    else
      waits = not (size[3] and units + 0 <= number(size[3]) - number(size[4]) and ahead == number(size[5]))
    end
    show(kind, waits and most or '0', 'turn:' .. id, '')
  elseif waiting == '1' and id ~= '' and ids[1] and kept(answer[#answer - 1]) then
    note(ids[1], session, id)
    answer[2] = '1'
  end
  if quiet > 0 and #answer == own then
    -- Of the family of the queue, or it would be another's.
    show(kind == 'read' and 'write' or kind, most, 'silence', '')
  end
  if all then answer[#answer + 1] = '' end
  answer[4], answer[5] = size[1] or '', size[2] or '0'
  return answer
end

-- Returns the key of another type that another program has put in the place of a queue, or of what an entry of that kind needs beside it, or
-- of the set of the entries of a session, in which an entry that is to be made must stand: or it would outlive the session.
local function foreign(path, kind, session)
  local function wrong(read, key, ...)
    local is = redis.pcall(read, key, ...)
    return type(is) == 'table' and string.find(is.err, '^WRONGTYPE') and key
  end
  return wrong('ZCARD', P .. 'q:' .. path) or kind and wrong('ZCARD', P .. 'x:' .. path)
    or kind == 'permit' and (wrong('HGET', P .. 'size:' .. path, 'version') or wrong('ZCARD', P .. 'wu:' .. path))
    or session and wrong('SCARD', P .. 's:' .. session)
end

-- Shows such a key, to who lists the queue, as an entry that belongs to no session.
local function showForeign(path, key)
  for _, field in ipairs({path, '', '1', '0', '0', '0', '', '', key}) do answer[#answer + 1] = field end
end

-- Only another program writes a size that cannot be counted to: SetRegister refuses it.
local function uncountable(path, kind)
  return kind == 'permit' and number(call('HGET', P .. 'size:' .. path, 'current')) > countable
end

-- ARGV: session, entry, path, kind, units, value, since in µs of the day, TTL of the session in µs
if op == 'create' then
  local session, id, path, kind, units = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  bury()
  local is = over(session)
  if is then return is end
  -- A script that broke off here would be sent again, for nobody knew what it had done, and the caller would wait without a word.
  local other = foreign(path, kind, session)
  if other then return {'foreign', '0', '0', other} end
  local last = upon('GET', P .. 'revision')
  if last == nil then return inPlace('revision') end
  if last and not whole(last) then return {'text', '0', '0', P .. 'revision', string.sub(last, 1, 40)} end
  local joined
  if call('EXISTS', P .. 'e:' .. id) == 0 then
    joined = id
    if uncountable(path, kind) then return {'large'} end
    local listed = upon('ZADD', P .. 'queues', 0, path)
    if not listed then return inPlace('queues') end
    -- Behind the newest of the queue, also where the last revision was lost, and the clock is behind it. An empty queue has nothing beside
    -- it: where it has, another program has deleted it.
    local function tail() return call('ZRANGE', P .. 'q:' .. path, -1, -1, 'WITHSCORES') end
    local newest = tail()
    if not newest[1] and (listed == 0 or call('EXISTS', P .. 'x:' .. path) == 1) then
      mend(path)
      newest = tail()
    end
    alone = not newest[1]
    local behind = whole(newest[2]) or 0
    if behind >= 2 ^ 52 then behind = 0 end -- no clock shows it for a century: another program's, and no lock is to count on from it
    local revision = int(math.max((last or 0) + 1, behind + 1, now))
    call('SET', P .. 'revision', revision)
    call('ZADD', P .. 'q:' .. path, revision, id)
    local beside = {}
    if not newest[1] then beside = {'-inf', bottom} end
    if kind ~= 'read' then
      beside[#beside + 1] = revision
      beside[#beside + 1] = id
    end
    if beside[1] then call('ZADD', P .. 'x:' .. path, unpack(beside)) end
    if not newest[1] then wake('vacant:' .. path) end
    if kind == 'permit' then call('ZADD', P .. 'wu:' .. path, revision, id) end
    call('HSET', P .. 'e:' .. id, 'queue', path, 'session', session, 'kind', kind, 'units', units, 'revision', revision,
      'version', 1, 'value', ARGV[7], 'since', ARGV[8], 'ttl', ARGV[9])
    call('SADD', P .. 's:' .. session, id)
  end
  if kind == 'permit' then promote(path, joined) end
  return view(session, id, path, kind, units, '1')
end

-- ARGV: session, entry or nothing, path, kind, units, 1 if what keeps it waiting is enough
if op == 'ahead' then
  if not bury() then return inPlace('sessions') end
  local other = foreign(ARGV[4], ARGV[5])
  if other then return {'foreign', '0', '0', other} end
  if ARGV[7] == '1' and uncountable(ARGV[4], ARGV[5]) then return {'large'} end
  if ARGV[5] == 'permit' then
    local e = fields(ARGV[3], 'queue', 'granted')
    if e[1] and not e[2] and not call('ZSCORE', P .. 'wu:' .. ARGV[4], ARGV[3]) then await(ARGV[4], ARGV[3]) end
    promote(ARGV[4])
  end
  return view(unpack(ARGV, 2))
end

-- Does a part of what is left to do, and notes whether there is more.
local function work()
  local path = upon('SPOP', P .. 'todo')
  if path and string.sub(path, 1, 1) == search then seek(string.sub(path, 2)) elseif path then promote(path) end
  if left > longest then call('HSET', P .. 'server', 'quiet', int(now + longest)) end
  bury()
  answer[3] = (upon('ZCOUNT', P .. 'sessions', '-inf', int(now)) or 0) + (upon('SCARD', P .. 'todo') or 0) > 0 and '1' or '0'
end

-- ARGV: session, ttl in µs, 1 if the policy is asked for. n is the time, and value a maxmemory-policy that removes any
-- key, or nothing.
if op == 'renew' then
  local is = over(ARGV[2])
  if is then return is end
  if ARGV[4] == '1' then answer[4] = string.match(call('INFO', 'memory'), 'maxmemory_policy:(allkeys%-[%w-]+)') or '' end
  put(P .. 'sessions', ARGV[2], int(now + ARGV[3]))
  if ARGV[3] + 0 > longest then call('HSET', P .. 'server', 'ttl', ARGV[3]) end
  work()
  answer[2] = int(now)
  return answer
end

if op == 'work' then
  work()
  return answer
end

-- ARGV: session, ttl in µs. n is the time.
if op == 'open' then
  call('ZADD', P .. 'sessions', int(now + ARGV[3]), ARGV[2])
  if ARGV[3] + 0 > longest then call('HSET', P .. 'server', 'ttl', ARGV[3]) end
  answer[2] = int(now)
  return answer
end

-- ARGV: session
if op == 'close' then
  if kept(ARGV[2]) then put(P .. 'sessions', ARGV[2], 0) end
  work()
  return answer
end

-- Shows no session in the last entry of the answer, for people, where there is none of that name: nothing will ever
-- end the entry.
local there = {}
local function showSession()
  local session = answer[#answer - 1]
  if there[session] == nil then
    there[session] = upon('ZSCORE', P .. 'sessions', session) ~= false or call('EXISTS', P .. 's:' .. session) == 1
  end
  if not there[session] then answer[#answer - 1] = '' end
end

-- ARGV: path, revision behind which it begins, limit. n is 1 if there is silence: none of them holds.
if op == 'list' then
  pcall(bury)
  local path = ARGV[2]
  answer[2] = quiet > 0 and '1' or '0'
  local other = foreign(path)
  if other then
    if ARGV[3] == '-1' then showForeign(path, other) end
    return answer
  end
  local found = call('ZRANGEBYSCORE', P .. 'q:' .. path, '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
  for i = 1, #found, 2 do
    -- The caller goes on behind the revision, and the caller of a survey behind the queue: neither is taken from the
    -- hash, which may say anything. A hash that was removed by hand says nothing.
    local id, revision = found[i], int(found[i + 1])
    if row(id) then
      answer[#answer - 8], answer[#answer - 5] = path, revision
      showSession()
    else
      for _, field in ipairs({path, '', '1', revision, '0', '0', '', '', id}) do answer[#answer + 1] = field end
    end
  end
  return answer
end

-- ARGV: entry. value is what it was asked.
if op == 'find' then
  if not row(ARGV[2]) or not stands(ARGV[2], answer[7]) then return {'gone'} end
  answer[4] = call('HGET', P .. 'e:' .. ARGV[2], 'asked') or ''
  return answer
end

-- ARGV: entry, version, kind, 1 if there is a value, value
if op == 'replace' then
  local id, key = ARGV[2], P .. 'e:' .. ARGV[2]
  local e = fields(id, 'queue', 'version', 'kind')
  if not e[1] then return {'gone'} end
  if e[2] ~= ARGV[3] then return {'conflict'} end
  if e[3] ~= ARGV[4] then
    if e[3] ~= 'write' or ARGV[4] ~= 'read' then return {'kind'} end
    upon('ZREM', P .. 'x:' .. e[1], id)
    call('HSET', key, 'kind', 'read')
  end
  if ARGV[5] == '1' then call('HSET', key, 'value', ARGV[6]) end
  call('HINCRBY', key, 'version', 1)
  wake(id)
  row(id)
  return answer
end

-- ARGV: session, and five for each target: what it is that ends the wait, and of the entry that was seen the ID, the queue, the
-- version and the kind. n is 1 if one of them has moved; otherwise the session is noted for all, and version is for how many
-- µs more there is silence, if that is a target.
if op == 'watch' then
  bury()
  local changed, registered, joined, told = '1', '2', '3', '4' -- and gone is '0'
  local session, names, rest = ARGV[2], {}, 0
  local function moved()
    for i = 3, #ARGV, 5 do
      local what, id, path, version, kind = unpack(ARGV, i, i + 4)
      local turn = string.match(id, '^turn:(.+)$')
      if what == registered then
        if (call('HGET', P .. 'size:' .. path, 'version') or '0') ~= version then return true end
        names[#names + 1] = 'size:' .. path
      elseif what == joined then
        if call('EXISTS', P .. 'q:' .. path) == 1 then return true end
        names[#names + 1] = 'vacant:' .. path
      elseif id == 'silence' then
        if quiet == 0 then return true end
        rest = quiet
      elseif turn then
        -- A permit that is missing in the set of waiting permits is to look, which puts it back.
        if fields(turn, 'granted')[1] or not upon('ZSCORE', P .. 'wu:' .. path, turn) then return true end
      else
        local e = fields(id, 'queue', 'session', 'version', 'kind', 'asked')
        if not e[1] or not stands(id, e[1]) then return true end
        if not kept(e[2]) then return false, id end
        if what == told and e[5] then return true end
        if what == changed and (version == '0' and e[4] ~= kind or version ~= '0' and e[3] ~= version) then return true end
        names[#names + 1] = id
      end
    end
  end
  local is = over(session)
  if is then return is end
  local yes, stray = moved()
  if stray then return {'stray', '0', '0', stray} end
  if yes then
    answer[2] = '1'
    return answer
  end
  for _, name in ipairs(names) do note(name, session) end
  answer[5] = int(rest)
  return answer
end

-- ARGV: path
if op == 'register' then
  local r = call('HMGET', P .. 'size:' .. ARGV[2], 'value', 'version')
  answer[4], answer[5] = r[1] or '', r[2] or '0'
  return answer
end

-- ARGV: path, value, version, entry that must be there or nothing. A value of two numbers is the declared and the current
-- size of a semaphore. n is the version.
if op == 'set' then
  if not bury() then return inPlace('sessions') end
  local path, key = ARGV[2], P .. 'size:' .. ARGV[2]
  local other = foreign(path, 'permit')
  if other then return {'foreign', '0', '0', other} end
  if (call('HGET', key, 'version') or '0') ~= ARGV[4] then return {'conflict'} end
  if ARGV[5] ~= '' and call('EXISTS', P .. 'e:' .. ARGV[5]) == 0 then return {'conflict'} end
  local current = string.match(ARGV[3], '^%d+ (%d+)$')
  call('HSET', key, 'value', ARGV[3])
  if current then call('HSET', key, 'current', current) else call('HDEL', key, 'current') end
  answer[2] = int(call('HINCRBY', key, 'version', 1))
  wake('size:' .. path)
  for _, id in ipairs(call('ZRANGE', P .. 'q:' .. path, 0, -1)) do -- not of the set of waiting permits, where one may be missing
    local e = fields(id, 'session', 'granted')
    if e[1] and not e[2] then tell(e[1], id) end
  end
  promote(path)
  return answer
end

-- ARGV: session
if op == 'owned' then
  local is = over(ARGV[2])
  if is then return is end
  for _, id in ipairs(call('SMEMBERS', P .. 's:' .. ARGV[2])) do row(id) end
  return answer
end

-- ARGV: entry, words
if op == 'tell' then
  local e = fields(ARGV[2], 'queue', 'session')
  if not e[1] then return {'gone'} end
  call('HSET', P .. 'e:' .. ARGV[2], 'asked', ARGV[3])
  if e[2] then tell(e[2], ARGV[2]) end
  return answer
end

-- ARGV: prefix, where it begins as ZRANGEBYLEX has it, limit. n is as for list.
if op == 'survey' then
  pcall(bury)
  answer[2] = quiet > 0 and '1' or '0'
  if not upon('ZCARD', P .. 'queues') then return inPlace('queues') end
  align()
  local prefix, from = ARGV[2], ARGV[3]
  while #answer < 9 * ARGV[4] do
    local path = call('ZRANGEBYLEX', P .. 'queues', from, '+', 'LIMIT', 0, 1)[1]
    if not path or string.sub(path, 1, #prefix) ~= prefix then break end
    local other = foreign(path)
    if other then
      showForeign(path, other)
    else
      for _, id in ipairs(call('ZRANGE', P .. 'q:' .. path, 0, -1)) do
        if row(id) then
          answer[#answer - 8] = path
          showSession()
        end
      end
    end
    from = '(' .. path
  end
  return answer
end
