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
  local count, from = 0, upto
  local text = 'the room was closed: ' .. reason
  local rest = ':0:' .. f0(now()) .. ':' .. #text .. ':' .. text
  local dead = first and letters(r, tonumber(ARGV[a + 15]))
  while first do
    local h, batch, at = head(first), first[2][4], 1
    for i = 0, h.count - 1 do
      local size = struct.unpack('>I4', batch, at)
      local id = f0(h.first + i) .. ':' .. #h.producer .. ':' .. h.producer
      push_letter(dead, id, rest .. string.sub(batch, at + 4, at + 3 + size))
      at = at + 4 + size
      count = count + 1
    end
    from = first[1]
    first = after(r, from)
  end
  if dead then save_letters(r, dead) end
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
