"""What Redis itself does for a store, in Lua: each call is one script, so that nothing comes between its steps.

A stream has a hash (`state`) and a Redis stream (`records`, whose entries are named `<number>-0`), under its own hash
tag. Beside them, under the prefix: `epoch:` and `key:` lead to a stream's id; `ended` and `running` are sorted by when
a stream ended and by when its lease is over, `stopping` is who is asked to stop; `sizes` holds each stream's share in
`counts`, for Redis may drop a stream's own keys by itself. All times are milliseconds of Redis's own clock.

No key is kept for ever: see `keep`. The keys are not declared, for most are found on the way. Redis Cluster wants them
in one slot: there the prefix has to hold a hash tag, `{flaskstream}:` for instance.

Where Redis is full, a script may write nothing that grows until it has written something: so what takes away begins
with UNLINK and works, and a stop begins with SREM.
"""

from __future__ import annotations

COMMON = """
local prefix = ARGV[1]
local ended, running, stopping = prefix .. 'ended', prefix .. 'running', prefix .. 'stopping'
local sizes, counts = prefix .. 'sizes', prefix .. 'counts'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function of(id, part)
    return prefix .. '{' .. id .. '}:' .. part
end

local function tell(id)
    redis.call('PUBLISH', of(id, 'news'), '')
end

-- How long a key outlives what was last done with it: if nobody evicts, nothing is left after this.
local function safe()
    return math.max(86400000, 2000 * (tonumber(redis.call('HGET', counts, 'seconds')) or 0))
end

local function keep(id, s, milliseconds)
    local keys = {of(id, 'state'), of(id, 'records'), prefix .. 'epoch:' .. s.epoch}
    if s.key and redis.call('GET', prefix .. 'key:' .. s.key) == id then
        table.insert(keys, prefix .. 'key:' .. s.key)
    end
    for _, key in ipairs(keys) do
        redis.call('PEXPIRE', key, milliseconds)
    end
end

local function keep_shared()
    local milliseconds = 2 * safe()
    for _, key in ipairs({ended, running, stopping, sizes, counts}) do
        redis.call('PEXPIRE', key, milliseconds)
    end
end

-- Take a stream out of the figures; what is known of it may be nothing.
local function leave(id, s)
    local was_counted = redis.call('ZREM', ended, id) + redis.call('ZREM', running, id) > 0
    local records, bytes = string.match(redis.call('HGET', sizes, id) or '', '(%d+) (%d+)')
    redis.call('HDEL', sizes, id)
    redis.call('SREM', stopping, id)
    if was_counted then
        redis.call('HINCRBY', counts, 'records', 0 - (s and s.last or records or 0))
        redis.call('HINCRBY', counts, 'bytes', 0 - (s and s.bytes or bytes or 0))
    end
end

local function take_away(id, s)
    redis.call('UNLINK', of(id, 'records'))
    leave(id, s)
    s.state = 'evicted'
    redis.call('HSET', of(id, 'state'), 'state', 'evicted')
    redis.call('HINCRBY', counts, 'evicted', 1)
    tell(id)
end

local function drop(id, s)
    redis.call('UNLINK', of(id, 'records'), of(id, 'state'), prefix .. 'epoch:' .. s.epoch)
    if s.key and redis.call('GET', prefix .. 'key:' .. s.key) == id then
        redis.call('UNLINK', prefix .. 'key:' .. s.key)
    end
    leave(id, s)
end

-- A Redis that is full may have dropped the records and not the state: then the stream is evicted, and has no gap.
local function known(id)
    local v = redis.call('HMGET', of(id, 'state'),
        'epoch', 'owner', 'request', 'state', 'last', 'bytes', 'until', 'read', 'stop', 'key')
    if not v[1] then
        return nil
    end
    local s = {epoch = v[1], owner = v[2], request = v[3], state = v[4], last = tonumber(v[5]), bytes = tonumber(v[6]),
        held = tonumber(v[7]), read = tonumber(v[8]), stop = v[9], key = v[10]}
    if s.state ~= 'evicted' and s.last > 0 and redis.call('XLEN', of(id, 'records')) ~= s.last then
        take_away(id, s)
    end
    return s
end

local function info(id, s)
    return {id, s.epoch, s.owner, s.request, s.state, s.last, s.held > now and 1 or 0, s.stop and 1 or 0, now - s.read}
end

-- Add blocks, the first of which has this number, renew the lease to `held`, and let the stream become `state`.
local function add(id, s, first, blocks, state, held)
    local last, grown = s.last, 0
    for i, block in ipairs(blocks) do
        if first + i - 1 > last then
            last = first + i - 1
            grown = grown + #block
            redis.call('XADD', of(id, 'records'), string.format('%d-0', last), 'b', block)
        end
    end
    redis.call('HSET', of(id, 'state'), 'state', state, 'last', last, 'bytes', s.bytes + grown, 'until', held)
    if last > s.last then
        redis.call('HSET', sizes, id, string.format('%d %d', last, s.bytes + grown))
        redis.call('HINCRBY', counts, 'records', last - s.last)
        redis.call('HINCRBY', counts, 'bytes', grown)
    end
    if state == 'running' then
        redis.call('ZADD', running, held, id)
    else
        redis.call('ZREM', running, id)
        redis.call('SREM', stopping, id)
        redis.call('ZADD', ended, now, id)
    end
    local safe_for = safe()
    if state ~= 'running' or s.last == 0 or redis.call('PTTL', of(id, 'state')) < safe_for / 2 then
        keep(id, s, safe_for)
        keep_shared()
    end
    if last > s.last or state ~= 'running' then
        tell(id)
    end
end
"""

BEGIN = """
local id, epoch, owner, key, request, lease = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local there = known(id)
if there and there.state ~= 'evicted' then
    return {info(id, there), 0}
end
local other = key ~= '' and redis.call('GET', prefix .. 'key:' .. key)
if other then
    local s = known(other)
    if s and s.state ~= 'evicted' and s.key == key then
        return {info(other, s), 0}
    end
end
if there then
    drop(id, there)
end
redis.call('UNLINK', of(id, 'records'), of(id, 'state'))
local s = {epoch = epoch, owner = false, request = request, state = 'running', last = 0, bytes = 0, held = now + lease,
    read = now, stop = false, key = false}
redis.call('HSET', of(id, 'state'), 'epoch', epoch, 'request', request, 'state', 'running', 'last', 0, 'bytes', 0,
    'until', s.held, 'read', now)
if owner ~= '' then
    s.owner = string.sub(owner, 2)
    redis.call('HSET', of(id, 'state'), 'owner', s.owner)
end
redis.call('SET', prefix .. 'epoch:' .. epoch, id)
if key ~= '' then
    s.key = key
    redis.call('HSET', of(id, 'state'), 'key', key)
    redis.call('SET', prefix .. 'key:' .. key, id)
end
redis.call('ZADD', running, s.held, id)
redis.call('HSET', sizes, id, '0 0')
keep(id, s, safe())
keep_shared()
tell(id)
return {info(id, s), 1}
"""

APPEND = """
local held, refused, at = now + tonumber(ARGV[2]), {}, 3
while ARGV[at] do
    local id, epoch, state, first, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
    local blocks = {}
    for i = 1, count do
        blocks[i] = ARGV[at + 4 + i]
    end
    at = at + 5 + count
    local s = known(id)
    if not s or s.epoch ~= epoch or s.state ~= 'running' or first > s.last + 1 then
        table.insert(refused, id)
    else
        add(id, s, first, blocks, state, held)
    end
end
return refused
"""

# A page is cut at about a megabyte, and at `most` records, so that Redis is not held up for others.
READ = """
local id, after, most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local s = known(id)
if not s then
    return false
end
local lengths, blocks = {}, {}
if s.state ~= 'evicted' and after < s.last and most > 0 then
    most = math.min(most, math.max(1, math.floor(1048576 * s.last / math.max(1, s.bytes))))
    local from = string.format('%d-0', after + 1)
    for i, entry in ipairs(redis.call('XRANGE', of(id, 'records'), from, '+', 'COUNT', most)) do
        blocks[i] = entry[2][2]
        lengths[i] = #entry[2][2]
    end
end
return {info(id, s), table.concat(lengths, ' '), table.concat(blocks)}
"""

FIND = """
local id = redis.call('GET', prefix .. 'epoch:' .. ARGV[2])
return id and redis.call('HGET', of(id, 'state'), 'epoch') == ARGV[2] and id
"""

LOSE = """
local id, epoch, block = ARGV[2], ARGV[3], ARGV[4]
local s = known(id)
if not s or s.epoch ~= epoch or s.state ~= 'running' or s.held > now then
    return 0
end
add(id, s, s.last + 1, {block}, 'failed', s.held)
return 1
"""

STOP = """
local id = ARGV[2]
local s = known(id)
if s and s.state == 'running' then
    redis.call('SREM', stopping, id)
    redis.call('HSET', of(id, 'state'), 'stop', 1)
    redis.call('SADD', stopping, id)
    keep_shared()
    tell(id)
end
"""

TOUCH = """
for i = 2, #ARGV do
    if redis.call('EXISTS', of(ARGV[i], 'state')) == 1 then
        redis.call('HSET', of(ARGV[i], 'state'), 'read', now)
    end
end
"""

FORGET = """
local id = ARGV[2]
local s = known(id)
if s and s.epoch == ARGV[3] then
    drop(id, s)
    tell(id)
end
"""

# The counters are right once they were counted. Redis may have dropped them since: then they are counted anew.
TOTALS = """
local function totals()
    local v = redis.call('HMGET', counts, 'records', 'bytes', 'counted')
    local records, bytes = tonumber(v[1]) or 0, tonumber(v[2]) or 0
    if not v[3] or records < 0 or bytes < 0 then
        records, bytes = 0, 0
        for _, size in ipairs(redis.call('HVALS', sizes)) do
            local r, b = string.match(size, '(%d+) (%d+)')
            records, bytes = records + r, bytes + b
        end
        redis.pcall('HSET', counts, 'records', records, 'bytes', bytes, 'counted', 1)
    end
    return records, bytes
end
"""

EVICT = (
    TOTALS
    + """
local seconds, streams, bytes, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local evicted, looked_at = 0, 0

-- Who ended first: of those that ended, and of those whose producer is lost.
local function first()
    local one = redis.call('ZRANGE', ended, 0, 0, 'WITHSCORES')
    local lost = redis.call('ZRANGE', running, 0, 0, 'WITHSCORES')
    if lost[1] and tonumber(lost[2]) <= now and not (one[1] and tonumber(one[2]) <= tonumber(lost[2])) then
        one = lost
    end
    return one[1], tonumber(one[2])
end

while looked_at < most do
    local id, at = first()
    local _, size = totals()
    local count = redis.call('ZCARD', ended) + redis.call('ZCARD', running)
    if not id or (at > now - seconds * 1000 and count <= streams and size <= bytes) then
        break
    end
    looked_at = looked_at + 1
    local s = known(id)
    if s and s.state ~= 'evicted' then
        take_away(id, s)
    else
        leave(id, s)
    end
    if s then
        keep(id, s, math.max(1, math.floor(seconds * 1000)))
        evicted = evicted + 1
    end
end
if tonumber(redis.call('HGET', counts, 'seconds')) ~= seconds then
    redis.pcall('HSET', counts, 'seconds', seconds)
    redis.pcall('PEXPIRE', counts, 2 * safe())
end
return {evicted, looked_at < most and 0 or 1}
"""
)

KEPT = (
    TOTALS
    + """
local count = redis.call('ZCARD', running)
local records, bytes = totals()
return {redis.call('ZCARD', ended) + count, count, records, bytes, tonumber(redis.call('HGET', counts, 'evicted')) or 0}
"""
)

SCRIPTS = {
    name: COMMON + text
    for name, text in {
        "begin": BEGIN,
        "append": APPEND,
        "read": READ,
        "find": FIND,
        "lose": LOSE,
        "stop": STOP,
        "touch": TOUCH,
        "forget": FORGET,
        "evict": EVICT,
        "kept": KEPT,
    }.items()
}
