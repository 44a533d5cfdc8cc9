-- Publishes events. ARGV epoch owner first count events history
-- Writes: history, record. An event in the history says its number, so that one above the record's is
-- seen to be of a script that was cut off.
local NA = 15
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  local out = tonumber(r.m.out)
  local first, count, blob = tonumber(ARGV[a + 12]), tonumber(ARGV[a + 13]), ARGV[a + 14]
  local max = tonumber(ARGV[a + 15])
  local skip = math.max(out + 1 - first, 0)
  if skip >= count then return { 'done' } end
  local newest = redis.call('LINDEX', r.hist, -1)
  while newest and tonumber(string.match(newest, '^(%d+):')) > out do
    w('RPOP', r.hist)
    newest = redis.call('LINDEX', r.hist, -1)
  end
  first = first + skip
  if first > out + 1 then w('DEL', r.hist) end
  local at, number, new = 1, first, nil
  for i = 1, count do
    if i == skip + 1 then new = at end
    local size = struct.unpack('>I4', blob, at)
    if i > skip and i > count - max then
      w('RPUSH', r.hist, f0(number) .. ':' .. string.sub(blob, at + 4, at + 3 + size))
    end
    if i > skip then number = number + 1 end
    at = at + 4 + size
  end
  set(r, 'out', f0(number - 1))
  save(r)
  if max > 0 then w('LTRIM', r.hist, -max, -1) else w('DEL', r.hist) end
  tell_watchers(r, 'V' .. r.m.life .. ' ' .. f0(first) .. ' ' .. #r.room .. ' ' .. r.room
    .. string.sub(blob, new))
  return { 'done' }
end
