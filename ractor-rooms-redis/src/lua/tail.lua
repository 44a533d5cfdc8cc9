-- One answer an item. What fails in one room must not fail the others of the call.
local answers = {}
for i = 0, tonumber(ARGV[1]) - 1 do
  wrote = false
  local ok, answer = pcall(run, i * NK, 1 + i * NA)
  if not ok then
    local text = type(answer) == 'table' and answer.err or tostring(answer)
    answer = { wrote and 'broken' or 'refused', text }
  end
  answers[i + 1] = answer
end
if finish then finish(answers) end
return answers
