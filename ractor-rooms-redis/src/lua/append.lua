-- Adds one producer's batch to the log.
-- KEYS meta log; the others that it may need are found by these, in the same slot
-- ARGV life producer before after span bytes batch birth facts
--      before, after: `epoch:last number:` of the producer before and after it, if it is the next
--      span: `count first-number epoch`
--      birth: `birth kept`, where kept is `1` for always and an activation for while that owns the room
--      facts: `max-entries max-bytes max-producers command channels`
-- Writes: log, index, producers, meta. A batch that is only in the log is found by `heal`.
-- What is seldom needed is read, and taken apart, where it is needed.
local NK, NA = 2, 9
local call = redis.call

-- The same for many batches of a call.
local FACTS = {}
local function facts(text)
  local f = FACTS[text]
  if not f then
    local entries, bytes, producers, command, channels =
      string.match(text, '^(%d+) (%d+) (%d+) (%a+) (.*)$')
    f = {
      entries = tonumber(entries), bytes = tonumber(bytes), producers = tonumber(producers),
      command = command, channels = channels, to = {},
    }
    FACTS[text] = f
  end
  return f
end

local function channel(f, owner)
  local by = incarnation(owner)
  local known = f.to[by]
  if not known then
    known = f.channels .. 'to:' .. by
    f.to[by] = known
  end
  return known
end

-- What goes to one owner for all its rooms of a call is one message.
local PUSHES = {}
local function push(f, m, item, id, room, h, batch)
  local to = channel(f, m.owner)
  local p = PUSHES[to]
  if not p then
    p = { command = f.command, items = {}, parts = { 'E' } }
    PUSHES[to] = p
  end
  p.items[#p.items + 1] = item
  local parts = p.parts
  local n = #parts
  parts[n + 1] = m.epoch .. ' ' .. G.number .. ' ' .. id .. ' ' .. #room .. ' ' .. #h .. ' ' .. #batch
    .. ' ' .. room .. h
  parts[n + 2] = batch
end
finish = function(answers)
  for to, p in pairs(PUSHES) do
    local ok, why = pcall(call, p.command, to, table.concat(p.parts))
    if not ok then
      local text = type(why) == 'table' and why.err or tostring(why)
      for _, item in ipairs(p.items) do answers[item] = { 'broken', text } end
    end
  end
end

-- A room as a member of an index; see `text::member`.
local function member(room)
  local length, at = string.match(room, '^(%d+):()')
  local kind = string.sub(room, at, at + tonumber(length) - 1)
  return string.gsub(kind, '%z', '\0\255') .. '\0\1' .. string.sub(room, at + tonumber(length) + 1)
end

-- The index may name an older entry than a producer's newest, which is with its number.
local function prune(meta, prod, age, owner, max, room)
  local kept = 'a:' .. owner .. ':' .. room
  while call('HLEN', prod) > max do
    local silent = call('ZRANGE', age, 0, 1, 'WITHSCORES')
    local victim, score = silent[1], silent[2]
    if victim == kept then victim, score = silent[3], silent[4] end
    if not victim then return end
    local used = string.match(call('HGET', prod, victim) or '', ':(%d+)$')
    if used and tonumber(used) > tonumber(score) then
      w('ZADD', age, used, victim)
    else
      local birth = string.match(victim, '^%a:[^#]*#(%d+)')
      local pruned = call('HGET', meta, 'pruned')
      if pruned == '' or tonumber(birth) > tonumber(pruned) then
        w('HSET', meta, 'pruned', birth) -- before it is forgotten: its late copies must stay fenced
      end
      w('HDEL', prod, victim)
      w('ZREM', age, victim)
    end
  end
end

-- A log that an item left uncounted is counted again by the next.
spoil = function(k)
  local m = { tail = call('HGET', KEYS[k + 1], 'tail') }
  split_tail(m)
  m.counted = '0'
  call('HSET', KEYS[k + 1], 'tail', join_tail(m))
end

-- Why a producer that is not known may not begin.
local function stranger(m, meta, prod, age, f, birth, room, begins)
  local born, kept = string.match(birth, '^(%d+) (.*)$')
  if kept ~= '1' and (kept == '' or kept ~= m.owner) then
    local pruned = call('HGET', meta, 'pruned')
    if pruned ~= '' and tonumber(born) <= tonumber(pruned) then
      return { 'fenced', '0', '', f0(now()) }
    end
  end
  if begins and call('HLEN', prod) >= f.producers then
    local others = call('ZCARD', age)
    if m.owner ~= '' and call('ZSCORE', age, 'a:' .. m.owner .. ':' .. room) then
      others = others - 1
    end
    if others <= 0 then return { 'full', m.seq } end
  end
end

local function stands(m, meta, code, last)
  local until_when, t = { '', '' }, '0'
  if m.phase == 'O' or m.phase == 'B' then
    until_when, t = call('HMGET', meta, 'to', 'deadline'), f0(now())
  end
  return { code, f0(last), m.seq, m.life, m.owner, m.phase, until_when[1], until_when[2], t }
end

local function run(k, a)
  local meta, log = KEYS[k + 1], KEYS[k + 2]
  local life, producer, before, after = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  local v = call('HMGET', meta, 'life', 'phase', 'owner', 'epoch', 'tail')
  if not v[1] then return { 'missing' } end
  -- With a place for each field of the tail, since a table that grows costs more than all of them.
  local m = {
    life = v[1], phase = v[2], owner = v[3], epoch = v[4], tail = v[5],
    seq = '', last = '', entries = '', total = '', base = '', counted = '', known = '', newest = '',
  }
  split_tail(m)
  local room = string.sub(meta, #G.prefix + 6) -- behind `meta:`
  local counted = m.counted == G.number and m.entries ~= '-1'
  local prod, age
  if not counted or producer ~= m.newest then
    prod, age = G.prefix .. 'prod:' .. room, G.prefix .. 'prodage:' .. room
  end
  if not counted then
    if call('XLEN', log) ~= tonumber(m.entries) then heal(m, meta, log, prod, age) end
    m.counted = G.number
  end
  if life ~= '' and life ~= m.life then return { 'other', m.life } end
  if m.phase == 'C' then return { 'closed', call('HGET', meta, 'reason') } end
  local f, span = facts(ARGV[a + 9]), ARGV[a + 5]
  local known = producer == m.newest and m.known or call('HGET', prod, producer)
  if not known or string.find(known, before, 1, true) ~= 1 then
    local count, first, epoch = string.match(span, '^(%d+) (%d+) (%d+)$')
    count, first, epoch = tonumber(count), tonumber(first), tonumber(epoch)
    local last, last_epoch = 0, 0
    if known then
      last_epoch, last = string.match(known, '^(%d+):(%d+):%d+$')
      last_epoch = whole("producer's epoch", last_epoch)
      last = whole("producer's last number", last)
      if epoch < last_epoch then
        return { 'fenced', f0(last_epoch), f0(last), f0(now()) }
      end
    else
      local no =
        stranger(m, meta, prod, age, f, ARGV[a + 8], room, count > 0 or epoch > 0)
      if no then return no end
    end
    local beyond = count > 0 and first > last + 1
    if (beyond or (count == 0 and epoch > 0)) and unproved(call('HGET', meta, 'proved')) then
      return { 'unproved', m.seq }
    end
    if count == 0 then
      -- A withdrawal; or one that asks for the life, which is remembered by nothing.
      if epoch > 0 then
        prod = prod or G.prefix .. 'prod:' .. room
        if not known and string.sub(ARGV[a + 8], -2) ~= ' 1' then w('ZADD', age, m.seq, producer) end
        if m.newest ~= '' then
          forget_newest(m, prod)
          w('HSET', meta, 'tail', join_tail(m))
        end
        w('HSET', prod, producer, f0(epoch) .. ':' .. f0(last) .. ':' .. m.seq)
        if not known then prune(meta, prod, age, m.owner, f.producers, room) end
      end
      return stands(m, meta, 'accepted', last)
    end
    if first + count - 1 <= last then return stands(m, meta, 'duplicate', last) end
    if first <= last then return { 'partial', f0(last), m.seq } end
    if first > last + 1 then return { 'gap', f0(last), m.seq } end
  end
  -- Text of digits as a number, faster than by `tonumber`.
  local bytes, entries, total = ARGV[a + 6] + 0, m.entries + 0, m.total + 0
  if entries >= f.entries or total - m.base + bytes > f.bytes then return { 'full', m.seq } end
  local seq, batch = m.seq + 0, ARGV[a + 7]
  local h = f0(seq + 1) .. ' ' .. span .. ' ' .. m.total .. ' ' .. ARGV[a + 6] .. ' ' .. producer
  local id = w('XADD', log, 'NOMKSTREAM', '*', 'h', h, 'd', batch)
  if not id then
    -- The first entry, or a log that was deleted by hand: its positions go on above the last.
    local ms, n = string.match(m.last, '^(%d+)-(%d+)$')
    local at = now() > tonumber(ms) and '*' or (ms .. '-' .. f0(tonumber(n) + 1))
    id = w('XADD', log, at, 'h', h, 'd', batch)
    m.base, entries = m.total, 0
  end
  if m.owner == '' then
    stir()
    w('ZADD', G.prefix .. 'unrest', 0, member(room))
  end
  local count = string.match(span, '^%d+')
  m.last, m.seq, m.total, m.entries = id, f0(seq + count), f0(total + bytes), f0(entries + 1)
  local now_known = after .. m.seq
  if producer ~= m.newest then
    tell_prod(m, prod)
    if not known then
      -- In `prod` from the start, which is how many there are.
      if string.sub(ARGV[a + 8], -2) ~= ' 1' then w('ZADD', age, m.seq, producer) end
      w('HSET', prod, producer, now_known)
    end
    m.newest = producer
  end
  m.known = now_known
  w('HSET', meta, 'tail', join_tail(m))
  if m.owner ~= '' then push(f, m, k / NK + 1, id, room, h, batch) end
  if not known then prune(meta, prod, age, m.owner, f.producers, room) end
  -- The usual answer is short: the rest of it is known to who asks.
  if m.phase == 'R' then return m.seq .. ' ' .. m.life .. ' ' .. m.owner end
  return stands(m, meta, 'accepted', tonumber(string.match(after, ':(%d+):$')))
end
