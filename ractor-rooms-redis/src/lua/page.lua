-- Reads a page of the log. ARGV epoch owner after max-bytes
local NA = 13
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  local page = { 'page', r.m.seq, '' }
  page[3] = add_page(r, page, ARGV[a + 12], tonumber(ARGV[a + 13]))
  return page
end
