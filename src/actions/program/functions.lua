-- lockscope: compares what an operator saw, then writes: all of it in one step, or nothing.
-- KEYS: what is compared and written, the lock first. ARGV: the word lockscope, then the values, in order.
-- Returns {1, woken, emptied, why nobody was notified, end of the lease before (ms, -1: never), waiters dropped from a fair
-- queue, waiters that listen again and stay in it, how many were dropped since their deadline had passed, the first in
-- it if nobody heard} when all was written;
-- {0, which, nth, what is there now} when a comparison failed; {2, why} when an error came half-way;
-- {3, key, why} when a write would fail, {4, command, key or channel} when it is not permitted: nothing was written.

local function clock()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now, ended = clock(), redis.call("PTTL", KEYS[1])
if ended >= 0 then ended = now + ended end
local woken, emptied, silent, changed = 0, 0, false, false
local dropped, stayed, overdue, deaf = {}, {}, 0, false

-- Each comparison answers whether it holds, and what is there now.
local function absent(key) local there = redis.call("EXISTS", key); return there == 0, there end

local function present(key) local there = redis.call("EXISTS", key); return there == 1, there end

-- A value of another length is not fetched whole: it may be huge by now.
local function value(key, seen)
  local size = redis.pcall("STRLEN", key)
  if type(size) == "table" then return false, size end
  if size ~= #seen then return false, redis.call("GETRANGE", key, 0, 511) end
  local now_is = redis.call("GET", key)
  return now_is == seen, now_is
end

local function digest(key, length, sha1)
  local size = redis.pcall("STRLEN", key)
  if type(size) == "table" or size ~= tonumber(length) then return false, size end
  return redis.sha1hex(redis.call("GET", key)) == sha1, size
end

local function field(key, name) local there = redis.pcall("HEXISTS", key, name); return there == 1, there end

local function field_value(key, name, seen)
  local now_is = redis.pcall("HGET", key, name)
  return now_is == seen, now_is
end

local function fields(key, count) local size = redis.pcall("HLEN", key); return size == tonumber(count), size end

local function member(key, name)
  local score = redis.pcall("ZSCORE", key, name)
  return type(score) == "string", score
end

local function score(key, name, seen)
  local now_is = redis.pcall("ZSCORE", key, name)
  return type(now_is) == "string" and tonumber(now_is) == tonumber(seen), now_is
end

local function members(key, count) local size = redis.pcall("ZCARD", key); return size == tonumber(count), size end

local function element(key, name) local there = redis.pcall("SISMEMBER", key, name); return there == 1, there end

local function elements(key, count) local size = redis.pcall("SCARD", key); return size == tonumber(count), size end

local function no_field(key, name) local there = redis.pcall("HEXISTS", key, name); return there == 0, there end

local function no_member(key, name)
  local score = redis.pcall("ZSCORE", key, name)
  return not score, score
end

local function no_element(key, name)
  local there = redis.pcall("SISMEMBER", key, name)
  return there == 0, there
end

-- The hash is not there, or the field is this.
local function held_as(key, name, seen)
  if redis.call("EXISTS", key) == 0 then return true end
  local now_is = redis.pcall("HGET", key, name)
  return now_is == seen, now_is
end

local function at_least(key, count)
  local size = redis.pcall("STRLEN", key)
  if type(size) == "table" or size > 20 then return false, size end
  local now_is = redis.call("GET", key)
  return type(now_is) == "string" and tonumber(now_is) ~= nil and tonumber(now_is) >= tonumber(count), now_is
end

local function listed(key, item)
  local place = redis.pcall("LPOS", key, item)
  return type(place) == "number", place
end

local function no_ttl(key) local left = redis.call("PTTL", key); return left == -1, left end

-- The lease ends when it was seen to, or whole periods of its own renewals later. The next hold by the same token begins
-- at a moment of its own, off that beat.
local function lease(key, seen, within, renewed_to, every, off)
  seen, within = tonumber(seen), tonumber(within)
  renewed_to, every, off = tonumber(renewed_to), tonumber(every), tonumber(off)
  local from = clock()
  local left = redis.call("PTTL", key)
  local to = clock()
  -- What ran out when it was to says nothing of a reader that has entered again: that it holds the lock is compared besides.
  if left == -2 and seen >= 0 then return to >= seen - within, left end
  if left < 0 or seen < 0 then return left == seen, left end
  if to + left >= seen - within and from + left <= seen + within then return true end
  if every == 0 or left > renewed_to then return false, left end
  local later = from + left - seen
  local periods = math.floor(later / every + 0.5)
  local most = math.min(within + periods * off, every / 10)
  return periods >= 1 and math.abs(later - periods * every) <= most, left
end

local function ttl_at_most(key, ttl)
  local left = redis.call("PTTL", key)
  return left >= 0 and left <= tonumber(ttl), left
end

local function nobody_blocked()
  local clients = redis.pcall("INFO", "clients")
  local blocked = type(clients) == "string" and tonumber(string.match(clients, "blocked_clients:(%d+)"))
  return blocked == 0, blocked
end

-- How many listen on a channel, plain and sharded, and whether the server reported both.
local function listeners(channel)
  local plain = redis.pcall("PUBSUB", "NUMSUB", channel)
  local sharded = redis.pcall("PUBSUB", "SHARDNUMSUB", channel)
  -- A server without sharded channels has no subscribers on them.
  if sharded.err and string.find(sharded.err, "nknown subcommand", 1, true) then sharded = { channel, 0 } end
  return (plain[2] or 0) + (sharded[2] or 0), not plain.err and not sharded.err
end

local function nobody_listens(channel) local count = listeners(channel); return count == 0, count end

local function before(moment) return now < tonumber(moment), now end

local function dump(key, seen) local now_is = redis.call("DUMP", key); return now_is == seen, false end

local function fields_at_most(key, count)
  local size = redis.pcall("HLEN", key)
  return type(size) == "number" and size <= tonumber(count), size
end

-- A member lives until so long after its score; without a lease all of them do.
local function live_at_most(key, lease, count)
  local from = lease == "" and "-inf" or string.format("(%.0f", now - tonumber(lease))
  local live = redis.pcall("ZRANGEBYSCORE", key, from, "+inf", "LIMIT", 0, tonumber(count) + 1)
  if live.err then return false, live end
  return #live <= tonumber(count), #live
end

local function counter(key, seen)
  local now_is = redis.pcall("GETRANGE", key, 0, 31)
  return now_is == seen, now_is
end

-- Nothing where a comparison holds. A key of another type, or that is not there, is reported by its type.
local function differs(which, nth, key, holds, now_is)
  if holds then return nil end
  local kind = key and redis.call("TYPE", key).ok
  if type(now_is) == "table" or kind == "none" then now_is = { kind } end
  return { 0, which, nth, now_is }
end

-- What the writes take is asked before the first one: a script that an error stops leaves half of it done.
local function is_a(wanted, key)
  local kind = redis.call("TYPE", key).ok
  if kind ~= "none" and kind ~= wanted then return { 3, key, " is a " .. kind .. ", not a " .. wanted } end
end

local function is_number(key)
  if not string.match(redis.call("GET", key) or "0", "^-?%d+$") then return { 3, key, " is not a number" } end
end

-- Redis 7 and later can be asked.
local function may(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then return { 4, command, key } end
end

local function may_count(channel)
  if may("PUBSUB", "NUMSUB", channel) then return { 4, "PUBSUB NUMSUB", channel } end
end

-- A command that changes something; all but these only look.
local function change(...)
  local answer = redis.call(...)
  changed = true
  return answer
end

-- A key that the command makes again gets the TTL that it had. A hash that others have kept lasts as long as it did then, at
-- least: it may have been made to last no longer than they do.
local function put(moment, command, key, ...)
  local was_there, left = redis.call("EXISTS", key), redis.call("PTTL", key)
  change(command, key, ...)
  local too_short = command == "HSET" and left >= 0 and now + left < tonumber(moment)
  if tonumber(moment) > 0 and (was_there == 0 or too_short) then change("PEXPIREAT", key, moment) end
end

local function tell(channel, message)
  local heard = redis.pcall("PUBLISH", channel, message)
  if type(heard) ~= "number" then silent = heard.err; return end
  woken = woken + heard
  -- Sharded subscribers are others. A server that has none of that says so, and nothing is lost.
  local sharded = redis.pcall("SPUBLISH", channel, message)
  if type(sharded) == "number" then woken = woken + sharded end
end

-- Asks for what is left of a key that may just have been emptied: nothing where it is gone. While the slot of a key is on
-- its way to another node of a cluster, one that is gone may not be asked for at all.
local function left_of(...)
  local answer = redis.pcall(...)
  if type(answer) ~= "table" or not answer.err then return answer end
  if string.find(answer.err, "non local key", 1, true) then return false end
  error(answer)
end

-- The head of a fair queue, after those whose deadline has passed.
local function tell_head(queue, deadlines, prefix)
  while true do
    local head = left_of("LINDEX", queue, 0)
    if not head then return end
    local deadline = left_of("ZSCORE", deadlines, head)
    if not deadline or tonumber(deadline) > now then
      local before = woken
      tell(prefix .. head, "0")
      if woken == before then deaf = head end
      return
    end
    change("LPOP", queue)
    change("ZREM", deadlines, head)
    overdue = overdue + 1
  end
end

-- Nobody listens. What the server does not say is no proof of that.
local function unheard(channel) local count, known = listeners(channel); return known and count == 0 end

local function take_out(queue, deadlines, waiter)
  if change("LREM", queue, "0", waiter) > 0 then dropped[#dropped + 1] = waiter end
  change("ZREM", deadlines, waiter)
end

-- A client that listens now keeps its place in the queue.
local function drop_waiter(queue, deadlines, channel, waiter)
  if unheard(channel) then take_out(queue, deadlines, waiter) else stayed[#stayed + 1] = waiter end
end

-- The longest lease of the readers in the hash, as it is now: a reader that came since must not lose any of its own. Nothing where
-- one of them has an end that its leases do not tell, or there are too many to ask for.
local function longest_lease(key, prefix)
  local longest = 0
  if (left_of("HLEN", key) or 1001) > 1000 then return nil end
  local all = redis.call("HGETALL", key)
  for at = 1, #all, 2 do
    local entries, its = tonumber(all[at + 1]), 0
    if all[at] ~= "mode" then
      if not entries or entries > 32 then return nil end
      for entry = 1, entries do
        local left = redis.pcall("PTTL", prefix .. all[at] .. ":rwlock_timeout:" .. entry)
        if type(left) ~= "number" or left == -1 then return nil end
        its = math.max(its, left)
      end
      if its <= 0 then return nil end
      longest = math.max(longest, its)
    end
  end
  return longest
end

local function last_as_readers(key, prefix)
  local longest = longest_lease(key, prefix)
  if longest and longest > 0 then change("PEXPIRE", key, longest) end
end

-- Nobody holds the hash any more.
local function is_emptied(key, besides)
  local size = left_of("HLEN", key) or 0
  if size ~= 0 and not (besides ~= "" and size == 1 and redis.call("HEXISTS", key, besides) == 1) then return false end
  emptied = 1
  return true
end
