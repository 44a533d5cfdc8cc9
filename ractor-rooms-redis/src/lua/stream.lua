-- Numbers a stream of pushes and ends the older ones. KEYS stream  ARGV command channel
local NK, NA = 1, 2
local function run(k, a)
  local number = f0(w('INCR', KEYS[k + 1]))
  w('PEXPIRE', KEYS[k + 1], 2592000000)
  redis.call(ARGV[a + 1], ARGV[a + 2], 'R' .. number)
  return { 'stream', number }
end
