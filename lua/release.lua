-- Gives a lock back, if this token still holds it.
--
-- KEYS[1]  the lock
-- ARGV[1]  the token of its holder
--
-- Returns {1, 0} when it was given back, {-1} when nobody holds it (any more). Else {0, what is left of it in ms (-1:
-- it never expires), its holder}; the holder is cut to 512 bytes, and nil where the key is no string.

local holder = redis.pcall('GET', KEYS[1])
if not holder then
  return { -1 }
end
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return { 1, 0 }
end
return { 0, redis.call('PTTL', KEYS[1]), type(holder) == 'string' and string.sub(holder, 1, 512) }
