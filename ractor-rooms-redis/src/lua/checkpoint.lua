-- Flips the snapshot pointer and trims. ARGV epoch owner number cursor text pointer
-- Writes: the new bytes' expiry off, record, log, old bytes.
local NA = 15
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  local no, upto = flip(r, a + 11)
  if no then return no end
  save(r)
  flipped(r, upto)
  return { 'done' }
end
