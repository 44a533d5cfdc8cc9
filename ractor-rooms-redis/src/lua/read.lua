-- Reads the record.
local NA = 9
local function run(k, a)
  local r = open(k, a)
  local m = r.m
  if not m.life then return { 'missing' } end
  return phase(r, 'view', m.life, m.epoch, m.owner, m.settled, m.seq, m.last, m.snap,
    backlog(r) and '1' or '', m.out, m.declined, m.crashes, f0(redis.call('LLEN', r.dead)))
end
