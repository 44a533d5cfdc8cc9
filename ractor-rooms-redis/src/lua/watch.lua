-- Starts or stops telling an incarnation of a room's events. ARGV incarnation on
local NA = 11
local function run(k, a)
  local watch, by = KEYS[k + 9], ARGV[a + 10]
  if ARGV[a + 11] == '1' then
    w('HSET', watch, by, f0(now()))
    w('PEXPIRE', watch, 86400000)
  else
    w('HDEL', watch, by)
  end
  return { 'done' }
end
