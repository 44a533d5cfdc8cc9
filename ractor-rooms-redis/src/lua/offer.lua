-- Reserves a room that nobody runs. ARGV to deadline create floor max-letters
-- Answers 'anew' when the room had a record that was lost.
-- Writes: dead letters, what an earlier life left, unrest, record, owned.
local NA = 14
-- Whether a record was lost, by whatever took it alone, and a host may still have the room: until a session's
-- time has passed since somebody asked for it, only a re-assert brings it back.
local function mourned(r)
  local at = tonumber(r.m.mourned or '')
  local ttl = whole("generation's ttl", redis.call('HGET', G.key, 'ttl') or '0')
  local latest = now() + (ttl > 0 and ttl or 10000)
  if not at or at > latest then
    at = latest
    w('HSET', r.meta, 'mourned', f0(at))
  end
  return now() < at
end
local function birth(r, floor, remains, max)
  local m = r.m
  local epoch = math.max(floor, now(), 1)
  if m.life then epoch = math.max(tonumber(m.epoch) + 1, epoch) end
  if remains then
    -- Its numbers begin anew, so that the messages that are left can not be told from others.
    heal(m, r.meta, r.log, r.prod, r.age)
    bury(r, '0-0', 'the record of the room was lost', max)
    w('HDEL', r.meta, 'mourned')
  end
  local last = m.last
  w('DEL', r.prod, r.age, r.hist)
  w('XTRIM', r.log, 'MAXLEN', '=', 0)
  for field, value in pairs(BLANK_TAIL) do set(r, field, value) end
  set(r, 'last', last)
  for field, value in pairs(BLANK) do set(r, field, value) end
  set(r, 'epoch', f0(epoch))
  set(r, 'life', f0(epoch))
  set(r, 'proved', G.number)
end
local function free(r, to)
  local m = r.m
  if m.phase == 'R' then
    if m.owner == '' then return true end
    if r.fact_owner ~= m.owner then return nil end
    return not r.owner_lives
  elseif m.phase == 'O' then
    if m.to == to or now() >= tonumber(m.deadline) then return true end
    if r.fact_to ~= m.to then return nil end
    return not r.to_lives
  elseif m.phase == 'B' then
    return now() >= tonumber(m.deadline)
  end
  return m.phase ~= 'C'
end

local function run(k, a)
  local r = open(k, a)
  local m, to = r.m, ARGV[a + 10]
  local create = ARGV[a + 12] == '1'
  if (m.life or create) and unproved(m.proved) then return { 'unproved' } end
  local remains = create and not m.life and redis.call('EXISTS', r.prod, r.log, r.hist) > 0
  if remains and mourned(r) then return { 'unproved' } end
  if create and (not m.life or m.phase == 'C') then birth(r, tonumber(ARGV[a + 13]), remains, tonumber(ARGV[a + 14])) end
  if not m.life then return { 'missing' } end
  local may = free(r, to)
  if may == nil then return again(r) end
  if not may then return phase(r, 'refused', m.life) end
  local before = m.owner
  if before ~= '' then
    set(r, 'owner', '')
    set(r, 'settled', '')
    add(r, 'crashes')
  end
  set_phase(r, 'O', to, ARGV[a + 11], '', '')
  index_then_save(r)
  if before ~= '' then unindex_owned(r, before) end
  tell_host(r, to)
  return { 'done', m.life, remains and 'anew' or nil }
end
