-- Reads the dead letters.
local NA = 9
local function run(k, a)
  local r = open(k, a)
  if not r.m.life then return { 'letters' } end
  local answer = redis.call('LRANGE', r.dead, 0, -1)
  table.insert(answer, 1, 'letters')
  return answer
end
