-- Begins the lease of a lock again, if this token still holds it. A lock that is gone is not made again.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token of its holder
-- ARGV[2]  the lease in milliseconds, from now
--
-- Returns {1, the lease} when it was renewed, {-1} when nobody holds it (any more). Else {0, what is left of it in ms
-- (-1: it never expires), its holder}; the holder is cut to 512 bytes, and nil where the key is no string.

local holder = redis.pcall('GET', KEYS[1])
if not holder then
  return { -1 }
end
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, tonumber(ARGV[2]) }
end
return { 0, redis.call('PTTL', KEYS[1]), type(holder) == 'string' and string.sub(holder, 1, 512) }
