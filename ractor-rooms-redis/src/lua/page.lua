-- Reads a page of the log. ARGV epoch owner after max-bytes
local NA = 13
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  local from, max, bytes = ARGV[a + 12], tonumber(ARGV[a + 13]), 0
  local page = { 'page', r.m.seq, '' }
  while true do
    local entries = redis.call('XRANGE', r.log, '(' .. from, '+', 'COUNT', 16)
    for _, entry in ipairs(entries) do
      local size = head(entry).bytes
      if #page > 3 and bytes + size > max then
        page[3] = '1'
        return page
      end
      bytes = bytes + size
      page[#page + 1] = entry[1]
      page[#page + 1] = entry[2][2]
      page[#page + 1] = entry[2][4]
      from = entry[1]
    end
    if #entries < 16 then return page end
  end
end
