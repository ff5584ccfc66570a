-- Leaves a reentrant lock once, if this token still holds it; after the last entry the lock is gone.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token of its holder
--
-- Returns {1, number of entries left} when it was left, {-1} when nobody holds it (any more). Else {0, what is left of
-- it in ms (-1: it never expires), its holder}; the holder is cut to 512 bytes, and nil where the key is no hash of one
-- field.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return { -1 }
end
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  local entries = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
  if entries <= 0 then
    -- A hash without fields is gone; others that share it keep theirs.
    redis.call('HDEL', KEYS[1], ARGV[1])
  end
  return { 1, math.max(entries, 0) }
end
local holder = redis.pcall('HLEN', KEYS[1]) == 1 and string.sub(redis.call('HGETALL', KEYS[1])[1], 1, 512)
return { 0, redis.call('PTTL', KEYS[1]), holder }
