-- One answer an item. What fails in one room must not fail the others of the call. The last argument of an
-- item on a shard is the generation that its caller knows.
local answers, step, shards = {}, NA, {}
local on_shard = string.find(KEYS[1] or '', '^[^{]*{s%d+}:') ~= nil
if on_shard then step = NA + 1 end
local function enter(key)
  local prefix = string.match(key, '^[^{]*{s%d+}:')
  G = shards[prefix]
  if not G then
    G = { key = prefix .. 'generation', changes = prefix .. 'changes', prefix = prefix }
    G.number = redis.call('HGET', G.key, 'number') or ''
    shards[prefix] = G
  end
end
for i = 0, tonumber(ARGV[1]) - 1 do
  wrote = false
  local answer
  if on_shard then enter(KEYS[i * NK + 1]) end
  if on_shard and (ARGV[1 + (i + 1) * step] ~= G.number or G.number == '') then
    answer = { 'generation', G.number }
  else
    local ok
    ok, answer = pcall(run, i * NK, 1 + i * step)
    if not ok then
      local text = type(answer) == 'table' and answer.err or tostring(answer)
      if wrote and spoil and BUDGET > 0 then pcall(spoil, i * NK) end
      answer = { wrote and 'broken' or 'refused', text }
    end
  end
  answers[i + 1] = answer
end
if finish then finish(answers) end
return answers
