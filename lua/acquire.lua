-- Takes a lock that nobody holds.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token of who wants it
-- ARGV[2]  its lease in milliseconds
--
-- Returns {1, the lease} when it was taken. Else {0, what is left of it in ms (-1: it never expires), its holder}; the
-- holder is cut to 512 bytes, and nil where the key is no string.

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return { 1, tonumber(ARGV[2]) }
end
local holder = redis.pcall('GETRANGE', KEYS[1], 0, 511)
return { 0, redis.call('PTTL', KEYS[1]), type(holder) == 'string' and holder }
