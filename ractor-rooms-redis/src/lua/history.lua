-- Reads events above a number. ARGV after
local NA = 10
local function run(k, a)
  local r = open(k, a)
  local m = r.m
  if not m.life then return { 'missing' } end
  local answer, past = { 'history', m.life, m.out }, tonumber(ARGV[a + 10])
  for _, event in ipairs(redis.call('LRANGE', r.hist, 0, -1)) do
    local number = tonumber(string.match(event, '^(%d+):'))
    if number > past and number <= tonumber(m.out) then answer[#answer + 1] = event end
  end
  return answer
end
