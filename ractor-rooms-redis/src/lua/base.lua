-- Every write of a script goes through `w`, so that an error tells whether something was written before.
local BUDGET = math.huge
local wrote = false
local function w(...)
  if BUDGET <= 0 then error('torn') end
  BUDGET = BUDGET - 1
  local reply = redis.call(...)
  wrote = true
  return reply
end

-- What a script does once all its items are answered, and what it does for an item that failed after a write.
local finish, spoil

-- Lua prints large numbers with an exponent; the store must not. All are integers below 2^53.
local format = string.format
local function f0(x) return format('%d', x) end
-- What no host wrote. Nothing was written yet: every script reads before it writes.
local EXACT = 9007199254740992
local function damaged(what, found)
  error({ err = 'DAMAGED the ' .. what .. ' is ' .. tostring(found) }, 0)
end
local function whole(what, text)
  local number = tonumber(text)
  if not number or number < 0 or number >= EXACT or not string.find(text, '^%d+$') then
    damaged(what, text)
  end
  return number
end
local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
-- The shard of the item: its generation's number as it was read, and how its keys begin.
local G = { number = '', key = '', changes = '', prefix = '' }
-- Before an index of the shard gets a member: who looked at it before looks again.
local function stir() w('INCR', G.changes) end
-- Whether a record may be older than what a host has that may still re-assert it.
local function unproved(proved)
  if proved == G.number then return false end
  local v = redis.call('HGET', G.key, 'until')
  return v and v ~= '0' and now() < whole("generation's end of doubts", v)
end
local function incarnation(activation)
  local slash = string.find(activation, '/', 1, true)
  return slash and string.sub(activation, 1, slash - 1) or activation
end

-- An entry's header: first seq, count, first number, producer epoch, payload bytes before it in this
-- life, payload bytes, producer.
local function head(entry)
  local h = entry[2][2]
  local seq, count, first, epoch, before, bytes, at =
    string.match(h, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ()')
  return {
    seq = tonumber(seq), count = tonumber(count), first = tonumber(first), epoch = tonumber(epoch),
    before = tonumber(before), bytes = tonumber(bytes), producer = string.sub(h, at),
  }
end
local function oldest(log) return redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1] end
-- `epoch:last number:seq of the newest entry`
local function accepted(prod, producer)
  local known = redis.call('HGET', prod, producer)
  if not known then return nil, 0, 0 end
  local epoch, last = string.match(known, '^(%d+):(%d+):%d+$')
  return known, whole("producer's epoch", epoch), whole("producer's last number", last)
end

-- What each append changes is one field: `seq last entries total base generation known newest`, where `newest`
-- is the producer of the newest entry and `known` what `prod` would say of it, which `prod` is told only once
-- another producer comes; and `generation` is the one in which the log was counted last. A log that was cut off
-- in the middle of a script comes with another generation.
local function split_tail(m)
  m.seq, m.last, m.entries, m.total, m.base, m.counted, m.known, m.newest =
    string.match(m.tail or '', '^(%d+) (%d+%-%d+) (%-?%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if not m.seq or m.seq + 0 >= EXACT or m.total + 0 >= EXACT then
    damaged("record's tail", m.tail)
  end
end
local function join_tail(m)
  return m.seq .. ' ' .. m.last .. ' ' .. m.entries .. ' ' .. m.total .. ' ' .. m.base .. ' ' .. m.counted
    .. ' ' .. m.known .. ' ' .. m.newest
end
-- Tells `prod` what it does not know yet of the newest producer. May be repeated.
local function tell_prod(m, prod)
  if m.newest ~= '' then w('HSET', prod, m.newest, m.known) end
end
local function forget_newest(m, prod)
  tell_prod(m, prod)
  m.known, m.newest = '-', ''
end

-- Reads what a script that was cut off left in the log, and counts again. Each write may be repeated.
local function heal(m, meta, log, prod, age)
  local v = redis.call('HMGET', meta, 'phase', 'snap')
  forget_newest(m, prod)
  if v[1] == 'C' then
    w('XTRIM', log, 'MAXLEN', '=', 0)
  elseif m.entries == '-1' then -- cut off between a new pointer and the trim below it
    local ms, n = string.match(v[2] or '', '^%d+ (%d+)-(%d+)')
    if ms then w('XTRIM', log, 'MINID', '=', ms .. '-' .. f0(tonumber(n) + 1)) end
  end
  for _, entry in ipairs(redis.call('XRANGE', log, '(' .. m.last, '+')) do
    local h = head(entry)
    local last = h.first + h.count - 1
    m.last = entry[1]
    m.seq = f0(math.max(tonumber(m.seq), h.seq + h.count - 1))
    m.total = f0(h.before + h.bytes)
    local _, epoch, known = accepted(prod, h.producer)
    if h.epoch >= epoch and last > known then
      if string.sub(h.producer, 1, 2) ~= 'r:' then w('ZADD', age, m.seq, h.producer) end
      w('HSET', prod, h.producer, f0(h.epoch) .. ':' .. f0(last) .. ':' .. m.seq)
    end
  end
  local first = oldest(log)
  m.base = first and f0(head(first).before) or m.total
  m.entries = f0(redis.call('XLEN', log))
  m.counted = G.number
  m.tail = join_tail(m)
  w('HSET', meta, 'tail', m.tail)
end
