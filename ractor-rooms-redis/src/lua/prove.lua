-- Notices that every host has proved or dropped what it ran. KEYS of one shard's generation
-- ARGV number
local NK, NA = 1, 1
local function run(k, a)
  local v = redis.call('HMGET', KEYS[k + 1], 'number', 'unknown')
  if v[1] == ARGV[a + 1] and v[2] ~= '1' then w('HSET', KEYS[k + 1], 'until', '0') end
  return { 'done' }
end
