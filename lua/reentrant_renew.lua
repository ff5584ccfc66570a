-- Begins the lease of a reentrant lock again, if this token still holds it. A lock that is gone is not made again.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token of its holder
-- ARGV[2]  the lease in milliseconds, from now; a longer one, of another entry, stays
--
-- Returns {1, the lease} when it was renewed, {-1} when nobody holds it (any more). Else {0, what is left of it in ms
-- (-1: it never expires), its holder}; the holder is cut to 512 bytes, and nil where the key is no hash of one field.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return { -1 }
end
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  local left = redis.call('PTTL', KEYS[1])
  if left >= 0 and left < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return { 1, tonumber(ARGV[2]) }
end
local holder = redis.pcall('HLEN', KEYS[1]) == 1 and string.sub(redis.call('HGETALL', KEYS[1])[1], 1, 512)
return { 0, redis.call('PTTL', KEYS[1]), holder }
