-- Looks at the generation of shards that one server holds, and begins another one when what is there was
-- written by another server, before a restart, or is gone.
-- KEYS generation of each shard  ARGV longest-ttl default-ttl, the number that is known of each or 0
-- Answers number and end of the doubts of each.
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local identity = string.match(info, 'run_id:(%w+)') .. '/' .. string.match(info, 'master_replid:(%w+)')
local time = redis.call('TIME')
local t = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function f0(x) return string.format('%.0f', x) end
-- What was put there by hand and could not be raised is as good as gone: numbers are times as a rule.
local LIMIT = 4503599627370496
local function whole(text)
  if not text or not string.find(text, '^%d+$') then return nil end
  local number = tonumber(text)
  return number < LIMIT and number or nil
end
local begins, unknown, fresh, above, ttl, shards = false, false, true, t, tonumber(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local v = redis.call('HMGET', key, 'number', 'identity', 'until', 'ttl', 'unknown', 'fresh')
  local known, there = tonumber(ARGV[2 + i]), v[1]
  local number = whole(v[1])
  v[1] = number and v[1]
  v[3] = whole(v[3]) or 0
  v[4] = math.min(whole(v[4]) or 0, 86400000)
  number = number or 0
  shards[i] = v
  above = math.max(above, number + 1, known + 1)
  ttl = math.max(ttl, v[4])
  fresh = fresh and not there and known == 0
  -- Who began this one found nothing, and there was something.
  local emptied = known > 0 and (not v[1] or (v[6] == '1' and number ~= known))
  if not v[1] or v[2] ~= identity or emptied or number < known then begins = true end
  if not v[1] or emptied or (v[5] == '1' and t < v[3]) then unknown = true end
end
if begins and above >= LIMIT then
  return redis.error_reply('DAMAGED a generation cannot be raised above ' .. f0(above - 1)
    .. ': stop the hosts, delete the keys *:generation of the namespace, and start them again')
end
if fresh then
  -- Nothing was there, as before the first start; or somebody emptied the server, whose hosts may live.
  local stats = redis.call('INFO', 'commandstats')
  unknown = string.find(stats, 'cmdstat_flushall', 1, true) ~= nil
    or string.find(stats, 'cmdstat_flushdb', 1, true) ~= nil
end
-- No host ever had a session here, as far as anybody knows.
if unknown and ttl == 0 then ttl = tonumber(ARGV[2]) end
local answer = {}
for i, key in ipairs(KEYS) do
  local v = shards[i]
  if begins then
    v[1] = f0(above)
    v[3] = (fresh and not unknown) and '0' or f0(t + ttl)
    redis.call('HSET', key, 'number', v[1], 'identity', identity, 'until', v[3], 'ttl', f0(ttl),
      'unknown', unknown and '1' or '0', 'fresh', fresh and '1' or '0')
  else
    -- Doubts last no longer than a session.
    local latest = t + math.max(ttl, tonumber(ARGV[2]))
    local from = v[3]
    v[3] = f0(math.min(from, latest))
    if from > latest then redis.call('HSET', key, 'until', v[3]) end
    if ttl > v[4] then redis.call('HSET', key, 'ttl', f0(ttl)) end
  end
  answer[#answer + 1] = v[1]
  answer[#answer + 1] = v[3]
end
return answer
