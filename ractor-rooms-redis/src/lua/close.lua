-- Ends the room. ARGV epoch owner cursor reason forced max-letters
-- Writes: dead letters, record, log, bytes, indexes.
local NA = 15
local function run(k, a)
  local r = open(k, a)
  local m, owner, upto, reason = r.m, ARGV[a + 11], ARGV[a + 12], ARGV[a + 13]
  local refused = fenced(r, ARGV[a + 10], owner)
  if refused then return refused end
  local first = after(r, upto)
  local unhandled = first and (tonumber(m.seq) - head(first).seq + 1) or 0
  if unhandled > 0 and ARGV[a + 14] ~= '1' then return { 'notdrained', f0(unhandled) } end
  local old = pointer(m.snap)
  if old ~= '' and old ~= r.fact_pointer then return again(r) end
  local count = bury(r, upto, 'the room was closed: ' .. reason, tonumber(ARGV[a + 15]))
  set(r, 'owner', '')
  set(r, 'settled', '')
  set(r, 'snap', '')
  set(r, 'base', m.total)
  set(r, 'entries', '0')
  set_phase(r, 'C', '', '', '', reason)
  save(r)
  w('XTRIM', r.log, 'MAXLEN', '=', 0)
  if old ~= '' then w('UNLINK', r.old) end
  unindex_owned(r, owner)
  w('ZREM', r.unrest, r.member)
  tell_watchers(r, 'C' .. m.life .. ' ' .. #r.room .. ' ' .. r.room .. reason)
  return { 'done', f0(count) }
end
