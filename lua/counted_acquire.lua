-- Takes a lock that nobody holds, as acquire does, and counts the attempt: exact failure rates, at the price of a
-- second key.
--
-- KEYS[1]  the lock
-- KEYS[2]  its counts, lockscope:{<lock>}:counts, or lockscope:<lock>:counts where the lock's name has a {hash tag}: a
--          hash of the two fields attempts and failures, which goes an hour after the last attempt
-- ARGV[1]  the token of who wants it
-- ARGV[2]  its lease in milliseconds
--
-- Returns {1, the lease} when it was taken. Else {0, what is left of it in ms (-1: it never expires), its holder}; the
-- holder is cut to 512 bytes, and nil where the key is no string.

local taken = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
-- Counts that can't be written (another type, the largest number) cost nobody the lock.
redis.pcall('HINCRBY', KEYS[2], 'attempts', 1)
redis.pcall('HINCRBY', KEYS[2], 'failures', taken and 0 or 1)
redis.pcall('PEXPIRE', KEYS[2], 3600000)
if taken then
  return { 1, tonumber(ARGV[2]) }
end
local holder = redis.pcall('GETRANGE', KEYS[1], 0, 511)
return { 0, redis.call('PTTL', KEYS[1]), type(holder) == 'string' and holder }
