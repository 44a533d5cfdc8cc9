-- Puts a letter into an inbox. KEYS session last inbox  ARGV number letter max command channel-prefix
local NK, NA = 3, 5
local function run(k, a)
  local session, inbox, number = KEYS[k + 1], KEYS[k + 3], ARGV[a + 1]
  local value = redis.call('GET', session)
  if not value or string.match(value, '^%d+') ~= number then return { 'no' } end
  if redis.call('XLEN', inbox) >= tonumber(ARGV[a + 3]) then return { 'no' } end
  local id = w('XADD', inbox, number .. '-*', 'd', ARGV[a + 2])
  w('PEXPIRE', inbox, f0(math.max(redis.call('PTTL', session), 0) + 60000))
  local position = f0(tonumber(string.match(id, '-(%d+)$')) + 1)
  redis.call(ARGV[a + 4], ARGV[a + 5] .. number, 'L' .. position .. ' ' .. ARGV[a + 2])
  return { 'done' }
end
