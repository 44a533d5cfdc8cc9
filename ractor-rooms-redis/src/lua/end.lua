-- Ends a session. KEYS session last inbox  ARGV number command channel-prefix
local NK, NA = 3, 3
local function run(k, a)
  local session, last, inbox = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local value = redis.call('GET', session)
  if value and string.match(value, '^%d+') == ARGV[a + 1] then w('DEL', session) end
  if redis.call('GET', last) == ARGV[a + 1] then
    w('UNLINK', inbox)
    value = nil
  end
  redis.call(ARGV[a + 2], ARGV[a + 3] .. ARGV[a + 1], 'X')
  return { value and 'other' or 'done' }
end
