-- Takes the lease, and reads the first page. ARGV activation host lives seen-epoch seen-owner floor max-bytes
-- Writes: snapshot's expiry off, index of the new owner, record, indexes of the old.
local NA = 16
local function may(r, host, by)
  local m = r.m
  if m.phase == 'R' then
    if m.owner == '' then return true end
    if r.fact_owner ~= m.owner then return nil end
    return not r.owner_lives
  elseif m.phase == 'O' then
    if m.to == host or now() >= tonumber(m.deadline) then return true end
    if r.fact_to ~= m.to then return nil end
    return not r.to_lives
  elseif m.phase == 'B' then
    return now() >= tonumber(m.deadline) or m.parted == by
  end
  return m.phase ~= 'C'
end

local function run(k, a)
  local r = open(k, a)
  local m, by, host = r.m, ARGV[a + 10], ARGV[a + 11]
  if not m.life then return { 'missing' } end
  if ARGV[a + 12] ~= '1' then return { 'nosession' } end
  if unproved(m.proved) then return { 'unproved' } end
  local repeated = m.owner == by
  if not repeated then
    local free = m.epoch == ARGV[a + 13] and m.owner == ARGV[a + 14]
    if free then free = may(r, host, incarnation(by)) end
    if free == nil then return again(r) end
    if not free then return phase(r, 'refused', m.epoch, m.owner) end
  end
  if m.snap ~= '' then
    if r.fact_pointer ~= pointer(m.snap) then return again(r) end
    if redis.call('EXISTS', r.old) == 0 then return phase(r, 'lost', m.snap) end
  end
  local recovered = tonumber(m.crashes) > 0
  if not repeated then
    local before = m.owner
    if before ~= '' then
      recovered = true
      add(r, 'crashes')
    end
    set(r, 'epoch', f0(math.max(tonumber(m.epoch) + 1, tonumber(ARGV[a + 15]), now())))
    set(r, 'owner', by)
    set(r, 'proved', G.number)
    set(r, 'settled', '')
    set_phase(r, 'R', '', '', '', '')
    if m.snap ~= '' then w('PERSIST', r.old) end
    index_owned(r, by)
    save(r)
    if before ~= '' and incarnation(before) ~= incarnation(by) then unindex_owned(r, before) end
    w('ZREM', r.unrest, r.member)
  end
  if m.proved ~= G.number then
    set(r, 'proved', G.number)
    save(r)
  end
  return took(r, recovered, false, tonumber(ARGV[a + 16]))
end
