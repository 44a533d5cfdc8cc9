-- The owner has caught up. ARGV epoch owner; answers the position of the last entry
local NA = 11
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  if r.m.settled ~= '1' then
    set(r, 'settled', '1')
    set(r, 'declined', '')
    set(r, 'failures', '0')
    save(r)
    tell_parted(r, r.m.epoch)
  end
  return { 'settled', r.m.last }
end
