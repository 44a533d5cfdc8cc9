-- Names a host among those that may have a session, or takes it out. KEYS hosts  ARGV host on
local NK, NA = 1, 2
local function run(k, a)
  local t = now()
  if ARGV[a + 2] == '1' then
    w('ZADD', KEYS[k + 1], f0(t), ARGV[a + 1])
  else
    w('ZREM', KEYS[k + 1], ARGV[a + 1])
  end
  w('ZREMRANGEBYSCORE', KEYS[k + 1], '-inf', f0(t - 86400000))
  return { 'done' }
end
