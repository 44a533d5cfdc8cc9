-- The incarnations that the index of a shard names. KEYS owned
local NK, NA = 1, 0
local function run(k, a)
  local answer, from = { 'owners' }, '-'
  while true do
    local member = redis.call('ZRANGEBYLEX', KEYS[k + 1], from, '+', 'LIMIT', 0, 1)[1]
    if not member then return answer end
    local zero = string.find(member, '\0', 1, true)
    if zero then
      local by = string.sub(member, 1, zero - 1)
      answer[#answer + 1] = by
      from = '[' .. by .. '\1'
    else
      from = '(' .. member -- put there by hand
    end
  end
end
