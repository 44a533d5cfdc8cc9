-- What the operations on a room have in common.
-- KEYS meta log prod prodage hist dead unrest owned watch new-snapshot old-snapshot
-- ARGV room member command channels owner owner-lives to to-lives pointer ...
--      (the five last are the facts; '?' stands for one that is not known)
local NK = 11
local BLANK = {
  owner = '', settled = '', parted = '', phase = 'N', to = '', deadline = '', why = '', reason = '',
  pruned = '', snap = '', out = '0', crashes = '0', fid = '', fcount = '0', fat = '', declined = '',
  failures = '0', proved = '',
}
local BLANK_TAIL = {
  seq = '0', last = '0-0', entries = '0', total = '0', base = '0', counted = '0', known = '-', newest = '',
}
-- What an append reads: in front of a new record, where the server finds it soonest.
local FRONT = { 'life', 'phase', 'owner', 'epoch', 'tail' }

local function open(k, a)
  local r = {
    meta = KEYS[k + 1], log = KEYS[k + 2], prod = KEYS[k + 3], age = KEYS[k + 4], hist = KEYS[k + 5],
    dead = KEYS[k + 6], unrest = KEYS[k + 7], owned = KEYS[k + 8], watch = KEYS[k + 9],
    new = KEYS[k + 10], old = KEYS[k + 11],
    room = ARGV[a + 1], member = ARGV[a + 2], command = ARGV[a + 3], channels = ARGV[a + 4],
    fact_owner = ARGV[a + 5], owner_lives = ARGV[a + 6] == '1', fact_to = ARGV[a + 7],
    to_lives = ARGV[a + 8] == '1', fact_pointer = ARGV[a + 9], changed = {},
  }
  local raw = redis.call('HGETALL', r.meta)
  local m = {}
  for field, value in pairs(BLANK) do m[field] = value end
  for i = 1, #raw, 2 do m[raw[i]] = raw[i + 1] end
  for field, value in pairs(BLANK_TAIL) do m[field] = value end
  if m.tail then split_tail(m) end
  r.m = m
  if m.life then
    whole("record's life", m.life)
    whole("record's epoch", m.epoch)
    whole("record's number of events", m.out)
  end
  if m.life and redis.call('XLEN', r.log) ~= tonumber(m.entries) then
    heal(m, r.meta, r.log, r.prod, r.age)
  end
  return r
end

local function set(r, field, value) r.m[field] = value; r.changed[field] = value end
local function set_phase(r, phase, to, deadline, why, reason)
  set(r, 'phase', phase); set(r, 'to', to); set(r, 'deadline', deadline)
  set(r, 'why', why); set(r, 'reason', reason)
end
-- One write for all that changed in the record: nobody sees, or keeps, a half of it.
local function save(r)
  local fields, changed = {}, r.changed
  local function put(field)
    fields[#fields + 1] = field
    fields[#fields + 1] = changed[field]
    changed[field] = nil
  end
  local tail = false
  for field in pairs(BLANK_TAIL) do
    tail = tail or changed[field] ~= nil
    changed[field] = nil
  end
  if tail then changed.tail = join_tail(r.m) end
  for _, field in ipairs(FRONT) do
    if changed[field] then put(field) end
  end
  for field in pairs(changed) do put(field) end
  if #fields > 0 then w('HSET', r.meta, unpack(fields)) end
  r.changed = {}
end
local function add(r, field) set(r, field, f0(tonumber(r.m[field]) + 1)) end

local function phase(r, ...)
  local m = r.m
  return { m.phase, m.to, m.deadline, m.why, m.reason, ... }
end
local function fenced(r, epoch, owner)
  local m = r.m
  if not m.life then return { 'fenced', '0' } end
  if m.epoch ~= epoch or m.owner ~= owner then return { 'fenced', m.epoch } end
end

local function pointer(snap) return snap == '' and '' or string.match(snap, '(%d+ [^ ]+)$') end
-- The call needs a fact that it was not given, or that is of something else by now.
local function again(r)
  local m = r.m
  return { 'again', m.owner, m.phase == 'O' and m.to or '', pointer(m.snap) }
end

local function next_id(id)
  local ms, n = string.match(id, '^(%d+)-(%d+)$')
  return ms .. '-' .. f0(tonumber(n) + 1)
end
local function cursor(m)
  return m.snap == '' and '0-0' or string.match(m.snap, '^%d+ (%d+-%d+)')
end
local function unread(m)
  return m.snap ~= '' and string.match(m.snap, '^%d+ %d+-%d+ %d+ (%d+)') ~= '0'
end
local function timer(m)
  return m.snap ~= '' and string.match(m.snap, '^%d+ %d+-%d+ %d+ %d+ %d+ %d+ (%S+)') ~= '-'
end
local function after(r, id) return redis.call('XRANGE', r.log, '(' .. id, '+', 'COUNT', 1)[1] end
local function backlog(r)
  return unread(r.m) or (r.m.entries ~= '0' and after(r, cursor(r.m)) ~= nil)
end
local function restless(r)
  local m = r.m
  if m.owner ~= '' or m.phase == 'R' or m.phase == 'C' then return false end
  return m.phase == 'O' or timer(m) or backlog(r)
end
local function trim(r, upto)
  local gone = w('XTRIM', r.log, 'MINID', '=', next_id(upto))
  if gone == 0 and r.m.entries ~= '-1' then return end
  local first = oldest(r.log)
  set(r, 'base', first and f0(head(first).before) or r.m.total)
  set(r, 'entries', f0(redis.call('XLEN', r.log)))
  save(r)
end

local function tell(r, to, payload)
  redis.call(r.command, r.channels .. 'to:' .. to, payload)
end
local function tell_parted(r, settled)
  if r.m.parted ~= '' then tell(r, r.m.parted, 'M' .. settled .. ' ' .. r.room) end
end
local function tell_host(r, host)
  local m = r.m
  local head = 'O' .. m.epoch .. ' ' .. #m.snap .. ' '
  redis.call(r.command, r.channels .. 'host:' .. host, head .. m.snap .. r.room)
end
-- Watchers that nobody listens for are forgotten after ten minutes.
local function tell_watchers(r, payload)
  local watchers = redis.call('HGETALL', r.watch)
  for i = 1, #watchers, 2 do
    local heard = redis.call(r.command, r.channels .. 'to:' .. watchers[i], payload)
    local silent = now() - tonumber(watchers[i + 1])
    if heard == 0 and silent > 600000 then
      w('HDEL', r.watch, watchers[i])
    elseif heard > 0 and silent > 60000 then
      w('HSET', r.watch, watchers[i], f0(now()))
      w('PEXPIRE', r.watch, 86400000)
    end
  end
end

local function index_owned(r, activation)
  stir()
  w('ZADD', r.owned, 0, incarnation(activation) .. '\0' .. r.member)
end
local function unindex_owned(r, activation)
  w('ZREM', r.owned, incarnation(activation) .. '\0' .. r.member)
end
-- An index may name a room too many, never one too few: added to before the record changes, taken from
-- after.
local function index_then_save(r)
  local rest = not restless(r)
  if not rest then
    stir()
    w('ZADD', r.unrest, 0, r.member)
  end
  save(r)
  if rest then w('ZREM', r.unrest, r.member) end
end

local function note_decline(r, host, why, is_failure, failed_adoptions, blocked_ms)
  local m = r.m
  local there = false
  for name in string.gmatch(m.declined, '[^,]+') do there = there or name == host end
  if not there then
    set(r, 'declined', m.declined == '' and host or (m.declined .. ',' .. host))
  end
  if is_failure then add(r, 'failures') end
  if is_failure and tonumber(m.failures) >= failed_adoptions then
    -- Who failed is not the first to be asked when the room is tried again.
    if there then set(r, 'declined', host) end
    set_phase(r, 'B', '', f0(now() + blocked_ms), why, '')
  else
    set_phase(r, 'D', '', '', why, '')
  end
end

-- Dead letters: read once, added to in memory, written as the last `max` of them. A letter begins with
-- its identity `number:length:producer`; number 0 is no identity.
local function letters(r, max)
  local l = { known = {}, ids = {}, head = 1, new = {}, max = max }
  for _, letter in ipairs(redis.call('LRANGE', r.dead, 0, -1)) do
    local number, length, at = string.match(letter, '^(%d+):(%d+):()')
    local id = string.sub(letter, 1, at - 1 + tonumber(length))
    l.ids[#l.ids + 1] = id
    l.known[id] = (l.known[id] or 0) + 1
  end
  return l
end
local function push_letter(l, id, rest)
  if (l.known[id] or 0) > 0 and string.sub(id, 1, 2) ~= '0:' then return end
  l.ids[#l.ids + 1] = id
  l.known[id] = (l.known[id] or 0) + 1
  l.new[#l.ids] = id .. rest
  while #l.ids - l.head + 1 > l.max do
    local gone = l.ids[l.head]
    l.known[gone] = l.known[gone] - 1
    l.new[l.head] = nil
    l.head = l.head + 1
  end
end
local function save_letters(r, l)
  for i = l.head, #l.ids do
    if l.new[i] then w('RPUSH', r.dead, l.new[i]) end
  end
  if l.max > 0 then w('LTRIM', r.dead, -l.max, -1) else w('DEL', r.dead) end
end

-- Makes dead letters of what the log holds above a position; how many there were.
local function bury(r, from, text, max)
  local first, count = after(r, from), 0
  if not first then return 0 end
  local rest = ':0:' .. f0(now()) .. ':' .. #text .. ':' .. text
  local dead = letters(r, max)
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
  save_letters(r, dead)
  return count
end

-- Points to a newer snapshot in memory; `save` makes it so, then `flipped` drops what is inside it.
-- ARGV number cursor text pointer, from `a`; the bytes may come along. Answers what refuses it, or the
-- cursor if it flipped.
local function flip(r, a, carried, bytes)
  local m, number, text, new = r.m, tonumber(ARGV[a + 1]), ARGV[a + 3], ARGV[a + 4]
  if m.snap ~= '' and number <= tonumber(string.match(m.snap, '^(%d+)')) then return nil, nil end
  if not carried and redis.call('EXISTS', r.new) == 0 then return { 'nosnapshot' } end
  local old = pointer(m.snap)
  if old ~= '' and old ~= new and old ~= r.fact_pointer then return again(r) end
  if carried then w('SET', r.new, bytes, 'NX', 'PX', 3600000) end
  w('PERSIST', r.new)
  set(r, 'snap', text)
  set(r, 'crashes', '0')
  set(r, 'entries', '-1') -- until the log is trimmed
  r.drop = old ~= '' and old ~= new
  return nil, ARGV[a + 2]
end
local function flipped(r, upto)
  if not upto then return end
  trim(r, upto)
  if r.drop then w('UNLINK', r.old) end
end

-- Adds entries above `from` to an answer, each as its id, its header and its batch, up to so many payload
-- bytes but at least one. Answers '1' when there are more.
local function add_page(r, answer, from, max)
  local bytes, none = 0, true
  while true do
    local entries = redis.call('XRANGE', r.log, '(' .. from, '+', 'COUNT', 16)
    for _, entry in ipairs(entries) do
      local size = head(entry).bytes
      if not none and bytes + size > max then return '1' end
      none = false
      bytes = bytes + size
      answer[#answer + 1] = entry[1]
      answer[#answer + 1] = entry[2][2]
      answer[#answer + 1] = entry[2][4]
      from = entry[1]
    end
    if #entries < 16 then return '' end
  end
end

-- What somebody gets who holds the lease now, with the first page of the log.
local function took(r, recovered, regressed, max)
  local m = r.m
  local answer = phase(r, 'acquired', m.epoch, m.life, m.snap, m.out, m.seq, m.pruned,
    recovered and '1' or '', regressed and '1' or '', f0(redis.call('LLEN', r.dead)), '')
  local more = #answer
  answer[more] = add_page(r, answer, cursor(m), max)
  return answer
end
