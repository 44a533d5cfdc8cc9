-- The offered host does not want it. ARGV host why is-failure failed-adoptions blocked-ms
local NA = 14
local function run(k, a)
  local r = open(k, a)
  local m, by = r.m, ARGV[a + 10]
  if not m.life then return { 'missing' } end
  if m.phase ~= 'O' or m.to ~= by then return phase(r, 'refused', m.life) end
  note_decline(r, by, ARGV[a + 11], ARGV[a + 12] == '1', tonumber(ARGV[a + 13]),
    tonumber(ARGV[a + 14]))
  index_then_save(r)
  tell_parted(r, '-')
  return { 'done', m.life }
end
