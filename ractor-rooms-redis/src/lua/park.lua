-- Gives the lease up. ARGV epoch owner number cursor text pointer (number '' for none)
--      to deadline why-phase why-deadline why failed is-failure failed-adoptions blocked-ms host
--      carried bytes (of the snapshot, which then needs not be there)
-- Writes: the new bytes, their expiry off, unrest, record, log, old bytes, owned.
local NA = 27
local function run(k, a)
  local r = open(k, a)
  local owner = ARGV[a + 11]
  local refused = fenced(r, ARGV[a + 10], owner)
  if refused then return refused end
  local upto
  if ARGV[a + 12] ~= '' then
    local no
    no, upto = flip(r, a + 11, ARGV[a + 26] == '1', ARGV[a + 27])
    if no then return no end
  elseif r.m.settled == '1' then
    add(r, 'crashes') -- what it handled since its last snapshot is gone with it
  end
  set(r, 'owner', '')
  set(r, 'settled', '')
  local failed, to = ARGV[a + 21], ARGV[a + 16]
  if failed ~= '' then
    note_decline(r, ARGV[a + 25], failed, ARGV[a + 22] == '1', tonumber(ARGV[a + 23]),
      tonumber(ARGV[a + 24]))
  else
    set(r, 'parted', incarnation(owner))
    set_phase(r, ARGV[a + 18], '', ARGV[a + 19], ARGV[a + 20], '')
  end
  if to ~= '' then set_phase(r, 'O', to, ARGV[a + 17], '', '') end
  -- What the flip trims is still in the log here, so that this may name a room too many.
  stir()
  w('ZADD', r.unrest, 0, r.member)
  save(r)
  flipped(r, upto)
  unindex_owned(r, owner)
  if not restless(r) then w('ZREM', r.unrest, r.member) end
  if failed ~= '' then tell_parted(r, '-') end
  if to ~= '' then tell_host(r, to) end
  return { 'done' }
end
