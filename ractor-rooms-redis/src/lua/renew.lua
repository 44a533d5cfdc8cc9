-- Renews a session. One that the store has forgotten did not lapse: it knows of none that is as new.
-- KEYS session last inbox  ARGV number ttl spec
-- Writes: number, session.
local NK, NA = 3, 3
local KEEP = 2592000000
local function run(k, a)
  local session, last, inbox = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local value = redis.call('GET', session)
  local number = tonumber(ARGV[a + 1])
  if value then
    if tonumber(string.match(value, '^%d+')) > number then return { 'lapsed' } end
  else
    local known = redis.call('GET', last)
    if known and tonumber(known) >= number then return { 'lapsed' } end
  end
  if tonumber(redis.call('GET', last) or '0') < number then w('SET', last, ARGV[a + 1]) end
  w('PEXPIRE', inbox, f0(tonumber(ARGV[a + 2]) + 60000))
  w('PEXPIRE', last, KEEP)
  w('SET', session, ARGV[a + 1] .. ' ' .. ARGV[a + 3], 'PX', ARGV[a + 2])
  return { 'done' }
end
