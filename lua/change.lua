-- Compares what the operator saw, then writes: all of it in one step, or nothing.
--
-- KEYS  every key that is compared or written, the lock's own first
-- ARGV  instructions, one after the other: a name, the number of its operands, the operands. A key is given by its
--       place in KEYS. All comparisons come first.
--
-- Returns {1, woken, emptied, why not, end} when all was written: how many waiters were told, whether the last holder
-- was taken out, why waiters could not be told where that is so, and when the lease ended before (in milliseconds of
-- Unix time; -1: never). {2, why} when it was stopped half-way. {3, words, a name, words} when a write would fail, and
-- nothing was written: a name is any bytes, and so comes by itself. Else {0, number of the comparison that failed, what
-- is there now}: a value, a number, or {its type} of a key that is of another one, or not there.

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = clock()
local ended = redis.call('PTTL', KEYS[1])
if ended >= 0 then ended = now + ended end
local woken, emptied, silent = 0, 0, false

local function tell(channel, message)
  local told = redis.pcall('PUBLISH', channel, message)
  if type(told) ~= 'number' then silent = told.err; return end
  woken = woken + told
  -- Sharded subscribers are others. A server that has none of that says so, and nothing is lost.
  local sharded = redis.pcall('SPUBLISH', channel, message)
  if type(sharded) == 'number' then woken = woken + sharded end
end

-- Each comparison answers whether it holds, and what is there now.
local compare = {}
function compare.nothing() return true end
function compare.absent(key) local there = redis.call('EXISTS', key); return there == 0, there end
function compare.present(key) local there = redis.call('EXISTS', key); return there == 1, there end
-- A value of another length is not fetched whole: it may be huge by now.
function compare.value(key, value)
  local size = redis.pcall('STRLEN', key)
  if type(size) == 'table' then return false, size end
  if size ~= #value then return false, redis.call('GETRANGE', key, 0, 511) end
  local now_is = redis.call('GET', key)
  return now_is == value, now_is
end
function compare.digest(key, length, sha1)
  local size = redis.pcall('STRLEN', key)
  if type(size) == 'table' or size ~= tonumber(length) then return false, size end
  return redis.sha1hex(redis.call('GET', key)) == sha1, size
end
function compare.field(key, field) local there = redis.pcall('HEXISTS', key, field); return there == 1, there end
function compare.field_value(key, field, value)
  local now_is = redis.pcall('HGET', key, field)
  return now_is == value, now_is
end
function compare.fields(key, count) local size = redis.pcall('HLEN', key); return size == tonumber(count), size end
function compare.member(key, member)
  local score = redis.pcall('ZSCORE', key, member)
  return type(score) == 'string', score
end
function compare.score(key, member, score)
  local now_is = redis.pcall('ZSCORE', key, member)
  return type(now_is) == 'string' and tonumber(now_is) == tonumber(score), now_is
end
function compare.members(key, count) local size = redis.pcall('ZCARD', key); return size == tonumber(count), size end
function compare.element(key, member) local there = redis.pcall('SISMEMBER', key, member); return there == 1, there end
function compare.elements(key, count) local size = redis.pcall('SCARD', key); return size == tonumber(count), size end
function compare.no_field(key, field) local there = redis.pcall('HEXISTS', key, field); return there == 0, there end
function compare.no_member(key, member)
  local score = redis.pcall('ZSCORE', key, member)
  return not score, score
end
function compare.no_element(key, member)
  local there = redis.pcall('SISMEMBER', key, member)
  return there == 0, there
end
-- The hash is not there, or the field is this.
function compare.held_as(key, field, value)
  if redis.call('EXISTS', key) == 0 then return true end
  local now_is = redis.pcall('HGET', key, field)
  return now_is == value, now_is
end
function compare.at_least(key, count)
  local size = redis.pcall('STRLEN', key)
  if type(size) == 'table' or size > 20 then return false, size end
  local now_is = redis.call('GET', key)
  return type(now_is) == 'string' and tonumber(now_is) ~= nil and tonumber(now_is) >= tonumber(count), now_is
end
function compare.listed(key, item)
  local place = redis.pcall('LPOS', key, item)
  return type(place) == 'number', place
end
function compare.no_ttl(key) local left = redis.call('PTTL', key); return left == -1, left end
-- The lease ends when it was seen to, or was begun anew as it always is.
function compare.lease(key, seen, within, renewed_to)
  seen, within, renewed_to = tonumber(seen), tonumber(within), tonumber(renewed_to)
  local from = clock()
  local left = redis.call('PTTL', key)
  local to = clock()
  if left < 0 or seen < 0 then return left == seen, left end
  if to + left >= seen - within and from + left <= seen + within then return true end
  return to + left > seen and left <= renewed_to, left
end
function compare.ttl_at_most(key, ttl)
  local left = redis.call('PTTL', key)
  return left >= 0 and left <= tonumber(ttl), left
end
function compare.nobody_blocked()
  local clients = redis.pcall('INFO', 'clients')
  local blocked = type(clients) == 'string' and tonumber(string.match(clients, 'blocked_clients:(%d+)')) or 0
  return blocked == 0, blocked
end
function compare.nobody_listens(_, channel)
  local told = redis.pcall('PUBSUB', 'NUMSUB', channel)
  local listeners = type(told) == 'table' and tonumber(told[2]) or 0
  return listeners == 0, listeners
end
function compare.before(_, moment) return now < tonumber(moment), now end
function compare.dump(key, dump) local now_is = redis.call('DUMP', key); return now_is == dump, false end
function compare.fields_at_most(key, count)
  local size = redis.pcall('HLEN', key)
  return type(size) == 'number' and size <= tonumber(count), size
end
-- A member lives until so long after its score; without a lease all of them do.
function compare.live_at_most(key, lease, count)
  local from = lease == '' and '-inf' or string.format('(%.0f', now - tonumber(lease))
  local live = redis.pcall('ZRANGEBYSCORE', key, from, '+inf', 'LIMIT', 0, tonumber(count) + 1)
  if live.err then return false, live end
  return #live <= tonumber(count), #live
end
function compare.counter(key, value)
  local now_is = redis.pcall('GETRANGE', key, 0, 31)
  return now_is == value, now_is
end

-- A command that changes something; all but these only look.
local changed = false
local function change(...)
  local answer = redis.call(...)
  changed = true
  return answer
end

local write = {}
-- A key that was made anew by the write before gets the TTL that it had.
local function keep_ttl(key, was_there, moment)
  if was_there == 0 and tonumber(moment) > 0 then change('PEXPIREAT', key, moment) end
end
function write.del(key) change('DEL', key) end
function write.hdel(key, field) change('HDEL', key, field) end
function write.zrem(key, member) change('ZREM', key, member) end
function write.srem(key, member) change('SREM', key, member) end
function write.publish(_, channel, message) tell(channel, message) end
-- The same to those who may not be there at all: where it may not be sent, the rest is done.
function write.tell(_, channel, message) tell(channel, message) end
-- The head of a fair queue, after those whose deadline has passed.
function write.head(queue, deadlines, prefix)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head then return end
    local deadline = redis.call('ZSCORE', deadlines, head)
    if not deadline or tonumber(deadline) > now then tell(prefix .. head, '0'); return end
    change('LPOP', queue)
    change('ZREM', deadlines, head)
  end
end
function write.drop(queue, deadlines, waiter)
  change('LREM', queue, 0, waiter)
  change('ZREM', deadlines, waiter)
end
function write.signal(list, ttl)
  change('DEL', list)
  change('LPUSH', list, '1')
  change('PEXPIRE', list, ttl)
end
function write.push(list, item) change('LPUSH', list, item) end
function write.permits(counter, channel, count) tell(channel, tostring(change('INCRBY', counter, count))) end
function write.expire(key, ttl) change('PEXPIRE', key, ttl) end
function write.restore(key, moment, dump) change('RESTORE', key, moment, dump, 'ABSTTL') end
function write.hset(key, field, value, moment)
  local was_there = redis.call('EXISTS', key)
  change('HSET', key, field, value)
  keep_ttl(key, was_there, moment)
end
function write.zadd(key, score, member, moment)
  local was_there = redis.call('EXISTS', key)
  change('ZADD', key, score, member)
  keep_ttl(key, was_there, moment)
end
function write.sadd(key, member, moment)
  local was_there = redis.call('EXISTS', key)
  change('SADD', key, member)
  keep_ttl(key, was_there, moment)
end
function write.take(counter, count) change('DECRBY', counter, count) end
function write.unpush(list, item) change('LREM', list, 1, item) end

-- What a write takes, asked before the first one, since a script that is stopped by an error leaves half of it done:
-- the commands that it sends, each with the key that it is for, and the types of its keys.
local takes = {
  del = { commands = { DEL = 1 } },
  hdel = { commands = { HDEL = 1 }, types = { 'hash' } },
  zrem = { commands = { ZREM = 1 }, types = { 'zset' } },
  srem = { commands = { SREM = 1 }, types = { 'set' } },
  publish = { channel = 2 },
  head = { commands = { LINDEX = 1, ZSCORE = 2, LPOP = 1, ZREM = 2 }, types = { 'list', 'zset' }, channel = 3 },
  drop = { commands = { LREM = 1, ZREM = 2 }, types = { 'list', 'zset' } },
  tell = {},
  signal = { commands = { DEL = 1, LPUSH = 1, PEXPIRE = 1 }, types = { 'list' } },
  push = { commands = { LPUSH = 1 }, types = { 'list' } },
  permits = { commands = { INCRBY = 1 }, types = { 'string' }, counts = true, channel = 2 },
  emptied = { commands = { HLEN = 1, HEXISTS = 1 }, types = { 'hash' } },
  expire = { commands = { PEXPIRE = 1 } },
  restore = { commands = { RESTORE = 1 } },
  hset = { commands = { EXISTS = 1, HSET = 1, PEXPIREAT = 1 }, types = { 'hash' } },
  zadd = { commands = { EXISTS = 1, ZADD = 1, PEXPIREAT = 1 }, types = { 'zset' } },
  sadd = { commands = { EXISTS = 1, SADD = 1, PEXPIREAT = 1 }, types = { 'set' } },
  take = { commands = { DECRBY = 1 }, types = { 'string' }, counts = true },
  unpush = { commands = { LREM = 1 }, types = { 'list' } },
}
-- How many arguments a command has at least, where that is not two: it is asked about with so many.
local arguments = { DEL = 1, EXISTS = 1, HLEN = 1, LPOP = 1, HSET = 3, LREM = 3, RESTORE = 3, ZADD = 3 }

local function may(command, key)
  local others = { '1', '1' }
  return redis.acl_check_cmd(command, key, unpack(others, 1, (arguments[command] or 2) - 1))
end

-- Why the write would fail: words, a name, words.
local function refusal(name, operands)
  local needs = takes[name]
  for index, wanted in ipairs(needs.types or {}) do
    local kind = redis.call('TYPE', operands[index]).ok
    if kind ~= 'none' and kind ~= wanted then
      return { 3, '', operands[index], ' is a ' .. kind .. ', not a ' .. wanted }
    end
  end
  if needs.counts and not string.match(redis.call('GET', operands[1]) or '0', '^-?%d+$') then
    return { 3, '', operands[1], ' is not a number' }
  end
  -- Redis 7 and later can be asked.
  if not redis.acl_check_cmd then return end
  for command, index in pairs(needs.commands or {}) do
    if not may(command, operands[index]) then
      return { 3, 'this user may not run ' .. command .. ' on ', operands[index], '' }
    end
  end
  local channel = needs.channel and operands[needs.channel]
  if channel and not redis.acl_check_cmd('PUBLISH', channel, '0') then
    return { 3, 'this user may not run PUBLISH on ', channel, '' }
  end
end

-- How many operands of an instruction name keys; the others are taken as they are.
local keys_of = {
  head = 2, drop = 2, publish = 0, tell = 0, before = 0, nobody_blocked = 0, nobody_listens = 0, nothing = 0,
}

-- All comparisons, then a look at what the writes take, then the writes.
local at, number, writes = 1, 0, {}
while at <= #ARGV do
  local name, count = ARGV[at], tonumber(ARGV[at + 1])
  local operands = {}
  for index = 1, count do operands[index] = ARGV[at + 1 + index] end
  at = at + 2 + count
  local named = keys_of[name] or 1
  for index = 1, named do operands[index] = KEYS[tonumber(operands[index])] end
  if named == 0 then table.insert(operands, 1, false) end
  if compare[name] then
    number = number + 1
    local holds, now_is = compare[name](unpack(operands))
    if not holds then
      local kind = operands[1] and redis.call('TYPE', operands[1]).ok
      if type(now_is) == 'table' or kind == 'none' then now_is = { kind } end
      return { 0, number, now_is }
    end
  else
    local why = refusal(name, operands)
    if why then return why end
    writes[#writes + 1] = { name, operands }
  end
end

local skip = 0
for _, instruction in ipairs(writes) do
  local name, operands = instruction[1], instruction[2]
  if skip > 0 then
    skip = skip - 1
  elseif name == 'emptied' then
    -- The next instructions are for the case that nobody holds the hash any more.
    local key, besides, following = operands[1], operands[2], tonumber(operands[3])
    local size = redis.call('HLEN', key)
    if size == 0 or (besides ~= '' and size == 1 and redis.call('HEXISTS', key, besides) == 1) then
      emptied = 1
    else
      skip = following
    end
  else
    -- Only where nothing could be asked before, as on Redis 6, can this still fail.
    local fine, why = pcall(write[name], unpack(operands))
    if not fine then
      if type(why) == 'table' then why = why.err end
      return changed and { 2, tostring(why) } or redis.error_reply(tostring(why))
    end
  end
end
return { 1, woken, emptied, silent, ended }
