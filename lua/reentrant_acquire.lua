-- Enters a lock that nobody holds, or that this token holds already: a hash with its holder as the field and the number
-- of entries as the value, as Redisson keeps it.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token of who wants it
-- ARGV[2]  its lease in milliseconds; an entry never makes a longer one shorter
--
-- Returns {1, number of entries} when it was entered. Else {0, what is left of it in ms (-1: it never expires), its
-- holder}; the holder is cut to 512 bytes, and nil where the key is no hash of one field.

if redis.call('EXISTS', KEYS[1]) == 0 or redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  local entries = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  local left = redis.call('PTTL', KEYS[1])
  if entries == 1 or (left >= 0 and left < tonumber(ARGV[2])) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return { 1, entries }
end
local holder = redis.pcall('HLEN', KEYS[1]) == 1 and string.sub(redis.call('HGETALL', KEYS[1])[1], 1, 512)
return { 0, redis.call('PTTL', KEYS[1]), holder }
