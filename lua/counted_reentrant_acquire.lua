-- Enters a reentrant lock, as reentrant_acquire does, and counts the attempt: exact failure rates, at the price of a
-- second key.
--
-- KEYS[1]  the lock
-- KEYS[2]  its counts, lockscope:{<lock>}:counts, or lockscope:<lock>:counts where the lock's name has a {hash tag}: a
--          hash of the two fields attempts and failures, which goes an hour after the last attempt
-- ARGV[1]  the token of who wants it
-- ARGV[2]  its lease in milliseconds; an entry never makes a longer one shorter
--
-- Returns {1, number of entries} when it was entered. Else {0, what is left of it in ms (-1: it never expires), its
-- holder}; the holder is cut to 512 bytes, and nil where the key is no hash of one field.

local free = redis.call('EXISTS', KEYS[1]) == 0 or redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1
local entries = free and redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
local left = redis.call('PTTL', KEYS[1])
if entries and (entries == 1 or (left >= 0 and left < tonumber(ARGV[2]))) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
-- Counts that can't be written (another type, the largest number) cost nobody the lock.
redis.pcall('HINCRBY', KEYS[2], 'attempts', 1)
redis.pcall('HINCRBY', KEYS[2], 'failures', entries and 0 or 1)
redis.pcall('PEXPIRE', KEYS[2], 3600000)
if entries then
  return { 1, entries }
end
local holder = redis.pcall('HLEN', KEYS[1]) == 1 and string.sub(redis.call('HGETALL', KEYS[1])[1], 1, 512)
return { 0, left, holder }
