-- Reads an inbox and forgets what was read. KEYS session last inbox  ARGV number after
local NK, NA = 3, 2
local function run(k, a)
  local last, inbox, number = KEYS[k + 2], KEYS[k + 3], ARGV[a + 1]
  local answer = { 'letters' }
  if redis.call('GET', last) ~= number then return answer end
  -- Who has read further than it goes has read another one, which is lost.
  local place = tonumber(ARGV[a + 2])
  local last = number .. '-' .. f0(math.max(place - 1, 0))
  if place > 0 and redis.call('XRANGE', inbox, last, '+', 'COUNT', 1)[1] then
    w('XTRIM', inbox, 'MINID', '=', number .. '-' .. ARGV[a + 2])
  end
  for _, entry in ipairs(redis.call('XRANGE', inbox, '-', '+')) do
    answer[#answer + 1] = f0(tonumber(string.match(entry[1], '-(%d+)$')) + 1)
    answer[#answer + 1] = entry[2][2]
  end
  return answer
end
