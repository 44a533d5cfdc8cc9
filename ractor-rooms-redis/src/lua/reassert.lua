-- Proves a lease of an earlier generation, or brings back what was lost. ARGV epoch owner activation lives
--      life number text pointer seq out handled floor max-bytes
--      (each handled one as `length last producer`)
-- Writes: the new bytes' expiry off, index of the owner, producers, history, record, old bytes, indexes.
local NA = 22
local function may(m, epoch, owner, life)
  if not m.life then return true end
  local stored = tonumber(m.epoch)
  if stored > epoch or (stored == epoch and m.owner ~= '' and m.owner ~= owner) then return false end
  return m.phase ~= 'C' and m.life == life
end
local function was_pruned(m, producer)
  local birth = string.match(producer, '^[ha]:[^#]*#(%d+)') -- rooms are never pruned
  return birth and m.pruned ~= '' and tonumber(birth) <= tonumber(m.pruned)
end

local function run(k, a)
  local r = open(k, a)
  local m = r.m
  local epoch, owner, by, life = tonumber(ARGV[a + 10]), ARGV[a + 11], ARGV[a + 12], ARGV[a + 14]
  local pointed = ARGV[a + 17]
  if ARGV[a + 13] ~= '1' then return { 'nosession' } end
  if m.life and m.owner == by then
    if m.snap ~= '' then
      if r.fact_pointer ~= pointer(m.snap) then return again(r) end
      if redis.call('EXISTS', r.old) == 0 then return phase(r, 'lost', m.snap) end
    end
    set(r, 'proved', G.number)
    save(r)
    return took(r, false, false, tonumber(ARGV[a + 22]))
  end
  if not may(m, epoch, owner, life) then return phase(r, 'refused', m.epoch, m.owner) end
  local old = m.life and pointer(m.snap) or ''
  if old ~= '' and old ~= pointed and old ~= r.fact_pointer then return again(r) end
  if redis.call('EXISTS', r.new) == 0 then return phase(r, 'lost', ARGV[a + 16]) end
  local seq, out = tonumber(ARGV[a + 18]), tonumber(ARGV[a + 19])
  local regressed = not m.life or tonumber(m.epoch) < epoch or tonumber(m.seq) < seq
    or tonumber(m.out) < out
  local before = m.owner
  if not m.life then
    set(r, 'life', life)
    m.epoch = '0'
    -- What an append left whose record is lost is read as part of it.
    heal(m, r.meta, r.log, r.prod, r.age)
    for field in pairs(BLANK_TAIL) do set(r, field, m[field]) end
    for field, value in pairs(BLANK) do if r.changed[field] == nil then set(r, field, m[field]) end end
  end
  local text, number = m.snap, tonumber(ARGV[a + 15])
  local cursor, cursor_seq = '0-0', '0'
  if text ~= '' then
    local stored
    stored, cursor, cursor_seq = string.match(text, '^(%d+) (%d+%-%d+) (%d+)')
    number = math.max(number, tonumber(stored) + 1)
  end
  w('PERSIST', r.new)
  index_owned(r, by)
  forget_newest(m, r.prod)
  set(r, 'newest', '')
  local from, handled = 1, ARGV[a + 20]
  while from <= #handled do
    local size, last, at = string.match(handled, '^(%d+) (%d+) ()', from)
    local producer = string.sub(handled, at, at + tonumber(size) - 1)
    from = at + tonumber(size)
    local known, known_epoch, known_last = accepted(r.prod, producer)
    local pruned = not known and was_pruned(m, producer)
    if known then regressed = regressed or known_last < tonumber(last) end
    if not known and not pruned then regressed = true end
    if not pruned and (not known or known_last < tonumber(last)) then
      if not known and string.sub(producer, 1, 2) ~= 'r:' then w('ZADD', r.age, m.seq, producer) end
      local used = known and string.match(known, ':(%d+)$') or m.seq
      w('HSET', r.prod, producer, f0(known_epoch) .. ':' .. last .. ':' .. used)
    end
  end
  set(r, 'epoch', f0(math.max(tonumber(m.epoch) + 1, epoch + 1, tonumber(ARGV[a + 21]), now())))
  set(r, 'owner', by)
  set(r, 'proved', G.number)
  set(r, 'settled', '')
  set(r, 'crashes', '0')
  set_phase(r, 'R', '', '', '', '')
  set(r, 'snap', f0(number) .. ' ' .. cursor .. ' ' .. cursor_seq .. ' '
    .. string.match(ARGV[a + 16], '^%d+ %d+%-%d+ %d+ (.*)$'))
  if seq > tonumber(m.seq) then set(r, 'seq', f0(seq)) end
  if out > tonumber(m.out) then
    w('DEL', r.hist)
    set(r, 'out', f0(out))
  end
  save(r)
  if m.mourned then w('HDEL', r.meta, 'mourned') end
  if old ~= '' and old ~= pointed then w('UNLINK', r.old) end
  if before ~= '' and incarnation(before) ~= incarnation(by) then unindex_owned(r, before) end
  w('ZREM', r.unrest, r.member)
  return took(r, false, regressed, tonumber(ARGV[a + 22]))
end
