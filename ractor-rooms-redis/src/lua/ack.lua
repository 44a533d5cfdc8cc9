-- Trims what a live room has received. ARGV epoch owner position
local NA = 12
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  trim(r, ARGV[a + 12])
  return { 'done' }
end
