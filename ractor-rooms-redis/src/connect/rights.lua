-- Answers nothing, or the first command that this user may not run and what the server said.
local k = KEYS[1]
local probes = {
  {'SET', k, '1', 'PX', '10000', 'NX'}, {'GET', k}, {'MGET', k}, {'EXISTS', k}, {'PERSIST', k},
  {'PEXPIRE', k, '10000'}, {'PTTL', k}, {'TYPE', k}, {'INCR', k}, {'RENAMENX', k, k}, {'DEL', k},
  {'HSET', k, 'a', '1'}, {'HSETNX', k, 'a', '1'}, {'HGET', k, 'a'}, {'HMGET', k, 'a'},
  {'HGETALL', k}, {'HLEN', k}, {'HDEL', k, 'a'}, {'UNLINK', k},
  {'XADD', k, '*', 'a', '1'}, {'XLEN', k}, {'XRANGE', k, '-', '+', 'COUNT', '1'},
  {'XTRIM', k, 'MAXLEN', '0'}, {'UNLINK', k},
  {'RPUSH', k, '1'}, {'LLEN', k}, {'LRANGE', k, '0', '0'}, {'LINDEX', k, '0'}, {'RPOP', k},
  {'LTRIM', k, '1', '0'}, {'UNLINK', k},
  {'ZADD', k, '0', 'a'}, {'ZSCORE', k, 'a'}, {'ZCARD', k}, {'ZRANGE', k, '0', '0'},
  {'ZRANGEBYLEX', k, '-', '+', 'LIMIT', '0', '1'}, {'ZREMRANGEBYSCORE', k, '-inf', '-1'},
  {'ZREM', k, 'a'}, {'UNLINK', k},
  {ARGV[1], k, ''}, {'TIME'}, {'INFO', 'server'},
}
for _, probe in ipairs(probes) do
  local answer = redis.pcall(unpack(probe))
  if type(answer) == 'table' and answer.err then
    local text = answer.err
    if string.find(text, "can't run", 1, true) or string.find(text, 'NOPERM', 1, true)
      or string.find(text, "can't access", 1, true) or string.find(text, 'permission', 1, true) then
      return {probe[1], text}
    end
  end
end
return {}
