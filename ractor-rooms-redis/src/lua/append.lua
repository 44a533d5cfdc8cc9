-- Adds one producer's batch to the log.
-- KEYS meta log prod prodage unrest
-- ARGV life producer epoch first count bytes batch birth kept-always own-activation
--      max-entries max-bytes max-producers room member command channels room-bytes-of-activation
-- Writes: log, index, producer, meta. A batch that is only in the log is found by `heal`.
local NK, NA = 5, 17
local function prune(m, meta, prod, age, max, room)
  local kept = 'a:' .. m.owner .. ':' .. room
  while redis.call('HLEN', prod) > max do
    local silent = redis.call('ZRANGE', age, 0, 1)
    local victim = silent[1]
    if victim == kept then victim = silent[2] end
    if not victim then return end
    local birth = string.match(victim, '^%a:[^#]*#(%d+)')
    if m.pruned == '' or tonumber(birth) > tonumber(m.pruned) then
      m.pruned = birth
      w('HSET', meta, 'pruned', birth) -- before it is forgotten: its late copies must stay fenced
    end
    w('HDEL', prod, victim)
    w('ZREM', age, victim)
  end
end

local function run(k, a)
  local meta, log, prod, age, unrest =
    KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
  local life, producer, epoch, first, count =
    ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5])
  local bytes, batch, birth = tonumber(ARGV[a + 6]), ARGV[a + 7], tonumber(ARGV[a + 8])
  local v = redis.call('HMGET', meta, 'life', 'phase', 'owner', 'epoch', 'seq', 'last', 'entries',
    'total', 'base', 'pruned', 'reason', 'to', 'deadline')
  if not v[1] then return { 'missing' } end
  local m = {
    life = v[1], phase = v[2], owner = v[3], epoch = v[4], seq = v[5], last = v[6], entries = v[7],
    total = v[8], base = v[9], pruned = v[10], reason = v[11], to = v[12], deadline = v[13],
  }
  local entries = redis.call('XLEN', log)
  if entries ~= tonumber(m.entries) then heal(m, meta, log, prod, age) end
  if life ~= '' and life ~= m.life then return { 'other', m.life } end
  if m.phase == 'C' then return { 'closed', m.reason } end
  local known, last_epoch, last = accepted(prod, producer)
  local kept = ARGV[a + 9] == '1' or (ARGV[a + 10] ~= '' and ARGV[a + 10] == m.owner)
  local pruned = not known and not kept and m.pruned ~= '' and birth <= tonumber(m.pruned)
  if pruned or epoch < last_epoch then
    return { 'fenced', f0(last_epoch), known and f0(last) or '', f0(now()) }
  end
  local max_producers, room = tonumber(ARGV[a + 13]), ARGV[a + 14]
  if not known and (count > 0 or epoch > 0) and redis.call('HLEN', prod) >= max_producers then
    local others = redis.call('ZCARD', age)
    if m.owner ~= '' and redis.call('ZSCORE', age, 'a:' .. m.owner .. ':' .. room) then
      others = others - 1
    end
    if others <= 0 then return { 'full', m.seq } end
  end
  local beyond = count > 0 and first > last + 1
  if (beyond or (count == 0 and epoch > 0)) and unproved(redis.call('HGET', meta, 'proved')) then
    return { 'unproved', m.seq }
  end
  local function stands(code)
    local t = (m.phase == 'O' or m.phase == 'B') and f0(now()) or '0'
    return { code, f0(last), m.seq, m.life, m.owner, m.phase, m.to, m.deadline, t }
  end
  if count > 0 then
    if first + count - 1 <= last then return stands('duplicate') end
    if first <= last then return { 'partial', f0(last), m.seq } end
    if first > last + 1 then return { 'gap', f0(last), m.seq } end
    local total = tonumber(m.total)
    if entries >= tonumber(ARGV[a + 11])
      or total - tonumber(m.base) + bytes > tonumber(ARGV[a + 12]) then
      return { 'full', m.seq }
    end
    local seq = tonumber(m.seq)
    local h = f0(seq + 1) .. ' ' .. ARGV[a + 5] .. ' ' .. ARGV[a + 4] .. ' ' .. ARGV[a + 3] .. ' '
      .. m.total .. ' ' .. ARGV[a + 6] .. ' ' .. producer
    local id = w('XADD', log, 'NOMKSTREAM', '*', 'h', h, 'd', batch)
    if not id then
      -- The first entry, or a log that was deleted by hand: its positions go on above the last.
      local ms, n = string.match(m.last, '^(%d+)-(%d+)$')
      local at = now() > tonumber(ms) and '*' or (ms .. '-' .. f0(tonumber(n) + 1))
      id = w('XADD', log, at, 'h', h, 'd', batch)
      m.base = m.total
    end
    if m.owner == '' then w('ZADD', unrest, 0, ARGV[a + 15]) end
    m.last, m.seq, m.total = id, f0(seq + count), f0(total + bytes)
    m.entries = f0(redis.call('XLEN', log))
    last = last + count
    if ARGV[a + 9] ~= '1' then w('ZADD', age, m.seq, producer) end
    w('HSET', prod, producer, ARGV[a + 3] .. ':' .. f0(last))
    w('HSET', meta, 'seq', m.seq, 'last', id, 'entries', m.entries, 'total', m.total, 'base', m.base)
    if m.owner ~= '' then
      redis.call(ARGV[a + 16], ARGV[a + 17] .. 'to:' .. incarnation(m.owner),
        'E' .. m.epoch .. ' ' .. G.number .. ' ' .. id .. ' ' .. #room .. ' ' .. #h .. ' ' .. room .. h .. batch)
    end
  elseif epoch > 0 then
    if ARGV[a + 9] ~= '1' then w('ZADD', age, m.seq, producer) end
    w('HSET', prod, producer, ARGV[a + 3] .. ':' .. f0(last))
  end
  if not known and (count > 0 or epoch > 0) then prune(m, meta, prod, age, max_producers, room) end
  return stands('accepted')
end
