-- Opens a session. KEYS session last inbox  ARGV ttl spec command channel-prefix
-- Writes: number, what the last one left, session.
local NK, NA = 3, 4
local KEEP = 2592000000
local function run(k, a)
  local session, last, inbox = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local t = now()
  if redis.call('EXISTS', session) == 1 then
    return { 'taken', f0(t + math.max(redis.call('PTTL', session), 0)) }
  end
  local before = redis.call('GET', last)
  local number = f0(math.max(tonumber(before or '0') + 1, t))
  w('SET', last, number, 'PX', KEEP)
  w('UNLINK', inbox)
  w('SET', session, number .. ' ' .. ARGV[a + 2], 'PX', ARGV[a + 1])
  if before then redis.call(ARGV[a + 3], ARGV[a + 4] .. before, 'X') end
  return { 'opened', number }
end
