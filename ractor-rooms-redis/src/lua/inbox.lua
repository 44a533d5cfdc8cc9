-- Reads an inbox and forgets what was read. KEYS session last inbox  ARGV number after
local NK, NA = 3, 2
local function run(k, a)
  local last, inbox, number = KEYS[k + 2], KEYS[k + 3], ARGV[a + 1]
  local answer = { 'letters' }
  if redis.call('GET', last) ~= number then return answer end
  -- Who has read further than it goes has read another one, which is lost.
  local newest = redis.call('XREVRANGE', inbox, '+', '-', 'COUNT', 1)[1]
  if newest and tonumber(string.match(newest[1], '-(%d+)$')) + 1 >= tonumber(ARGV[a + 2]) then
    w('XTRIM', inbox, 'MINID', '=', number .. '-' .. ARGV[a + 2])
  end
  for _, entry in ipairs(redis.call('XRANGE', inbox, '-', '+')) do
    answer[#answer + 1] = f0(tonumber(string.match(entry[1], '-(%d+)$')) + 1)
    answer[#answer + 1] = entry[2][2]
  end
  return answer
end
