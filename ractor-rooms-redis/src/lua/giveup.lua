-- Sets a message aside. ARGV epoch owner identity rest max-letters
local NA = 14
local function run(k, a)
  local r = open(k, a)
  local refused = fenced(r, ARGV[a + 10], ARGV[a + 11])
  if refused then return refused end
  local dead = letters(r, tonumber(ARGV[a + 14]))
  push_letter(dead, ARGV[a + 12], ARGV[a + 13])
  save_letters(r, dead)
  return { 'done' }
end
