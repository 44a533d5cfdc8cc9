-- Takes a room out of the indexes that should not name it. ARGV incarnation ('' for `unrest`)
local NA = 10
local function run(k, a)
  local r = open(k, a)
  local by = ARGV[a + 10]
  if by == '' then
    if not r.m.life or not restless(r) then w('ZREM', r.unrest, r.member) end
  elseif not r.m.life or incarnation(r.m.owner) ~= by then
    -- An old record that was put back names an owner whose index does not know of it.
    if r.m.life and r.m.owner ~= '' then index_owned(r, r.m.owner) end
    w('ZREM', r.owned, by .. '\0' .. r.member)
  end
  return { 'done' }
end
