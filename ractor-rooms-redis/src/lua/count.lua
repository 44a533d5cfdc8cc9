-- Counts a failed attempt at a message. ARGV epoch owner message attempt
local NA = 13
local function run(k, a)
  local r = open(k, a)
  local m = r.m
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  local attempt = ARGV[a + 10] .. '/' .. ARGV[a + 13]
  if m.fid == ARGV[a + 12] then
    if m.fat ~= attempt then set(r, 'fcount', f0(math.min(tonumber(m.fcount) + 1, 4294967295))) end
  else
    set(r, 'fid', ARGV[a + 12])
    set(r, 'fcount', '1')
  end
  set(r, 'fat', attempt)
  save(r)
  return { 'count', m.fcount }
end
