-- Renews a session. KEYS session last inbox  ARGV number ttl spec
local NK, NA = 3, 3
local KEEP = 2592000000
local function run(k, a)
  local session, last, inbox = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local value = redis.call('GET', session)
  if not value or string.match(value, '^%d+') ~= ARGV[a + 1] then return { 'lapsed' } end
  w('PEXPIRE', inbox, f0(tonumber(ARGV[a + 2]) + 60000))
  w('PEXPIRE', last, KEEP)
  w('SET', session, ARGV[a + 1] .. ' ' .. ARGV[a + 3], 'PX', ARGV[a + 2])
  return { 'done' }
end
