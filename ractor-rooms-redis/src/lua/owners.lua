-- The incarnations that the index of a shard names. KEYS owned
local NK, NA = 1, 0
local function run(k, a)
  local answer, from = { 'owners' }, '-'
  while true do
    local member = redis.call('ZRANGEBYLEX', KEYS[k + 1], from, '+', 'LIMIT', 0, 1)[1]
    if not member then return answer end
    local by = string.sub(member, 1, string.find(member, '\0', 1, true) - 1)
    answer[#answer + 1] = by
    from = '[' .. by .. '\1'
  end
end
