"""The kernels of `regard.nn.flash`, in Triton: one program for each block of tokens, head and sequence.

Offsets say where the sequences lie; a block that begins behind the end of its own has nothing to do. `first`
and `first_key` are where the sequence begins, `asking` and `asked` how many queries and keys it has, and the
strides of rows are those of tokens. Blocks that are seen whole need no mask and get none.
"""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def forward(  # type: ignore[no-untyped-def]
    queries, keys, values, out, logs, query_offsets, key_offsets,
    query_row, query_head, key_row, key_head, value_row, value_head, out_row, out_head,
    tokens, scale,
    share: tl.constexpr, d_head: tl.constexpr, causal: tl.constexpr,
    size: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    start, head, sequence = tl.program_id(0) * size, tl.program_id(1), tl.program_id(2)
    first = tl.load(query_offsets + sequence)
    asking = tl.load(query_offsets + sequence + 1) - first
    if start >= asking:
        return
    first_key = tl.load(key_offsets + sequence)
    asked = tl.load(key_offsets + sequence + 1) - first_key
    rows, d = start + tl.arange(0, size), tl.arange(0, d_head)[None, :]
    here = (rows < asking)[:, None]
    places = (first + rows).to(tl.int64)[:, None]
    query = tl.load(queries + places * query_row + head * query_head + d, mask=here, other=0.0)
    own_keys = keys + first_key.to(tl.int64) * key_row + (head // share) * key_head + d
    own_values = values + first_key.to(tl.int64) * value_row + (head // share) * value_head + d
    most = tl.full([size], float("-inf"), tl.float32)
    total = tl.zeros([size], tl.float32)
    sums = tl.zeros([size, d_head], tl.float32)
    ahead = asked - asking  # the last query stands at the last key
    limit, whole = _reach(start, ahead, asked, causal, size, step)
    for begin in range(0, whole, step):
        most, total, sums = _look(
            query, most, total, sums, own_keys, own_values, begin, rows, ahead, asked,
            key_row, value_row, scale, causal, False, step,
        )  # fmt: skip
    for begin in range(whole, limit, step):
        most, total, sums = _look(
            query, most, total, sums, own_keys, own_values, begin, rows, ahead, asked,
            key_row, value_row, scale, causal, True, step,
        )  # fmt: skip
    blind = total == 0
    sums = sums / tl.where(blind, 1.0, total)[:, None]
    tl.store(out + places * out_row + head * out_head + d, sums.to(out.dtype.element_ty), mask=here)
    # A row that sees nothing gets a sum of weights of 0 on the way back as well.
    log = tl.where(blind, float("inf"), most + tl.log2(tl.where(blind, 1.0, total)))
    tl.store(logs + head * tokens + first + rows, log, mask=rows < asking)


@triton.jit  # type: ignore[untyped-decorator]
def _reach(start, ahead, asked, causal: tl.constexpr, size: tl.constexpr, step: tl.constexpr):  # type: ignore[no-untyped-def]
    """How many keys a block of queries sees at most, and how many all of it sees, in whole steps."""
    limit = asked
    whole = asked
    if causal:
        limit = tl.minimum(asked, tl.maximum(start + size + ahead, 0))
        whole = tl.minimum(asked, tl.maximum(start + 1 + ahead, 0))
    return limit, whole // step * step


@triton.jit  # type: ignore[untyped-decorator]
def _look(  # type: ignore[no-untyped-def]
    query, most, total, sums, own_keys, own_values, begin, rows, ahead, asked, key_row, value_row, scale,
    causal: tl.constexpr, masked: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """At one block of keys."""
    columns = begin + tl.arange(0, step)
    if masked:
        there = (columns < asked)[:, None]
        key = tl.load(own_keys + columns[:, None] * key_row, mask=there, other=0.0)
        value = tl.load(own_values + columns[:, None] * value_row, mask=there, other=0.0)
    else:
        key = tl.load(own_keys + columns[:, None] * key_row)
        value = tl.load(own_values + columns[:, None] * value_row)
    scores = tl.dot(query, tl.trans(key)) * scale
    if masked:
        seen = (columns < asked)[None, :]
        if causal:
            seen = seen & (columns[None, :] <= rows[:, None] + ahead)
        scores = tl.where(seen, scores, float("-inf"))
    higher = tl.maximum(most, tl.max(scores, 1))
    finite = higher
    if masked:
        finite = tl.where(higher == float("-inf"), 0.0, higher)
    shares = tl.exp2(scores - finite[:, None])
    fade = tl.exp2(most - finite)
    total = total * fade + tl.sum(shares, 1)
    sums = sums * fade[:, None] + tl.dot(shares.to(value.dtype), value)
    return higher, total, sums


@triton.jit  # type: ignore[untyped-decorator]
def row_sums(  # type: ignore[no-untyped-def]
    gradients, out, sums, gradient_row, gradient_head, tokens, d_head: tl.constexpr, size: tl.constexpr
):
    """rowsum(dO O)"""
    rows, head = tl.program_id(0) * size + tl.arange(0, size), tl.program_id(1)
    d, here = tl.arange(0, d_head)[None, :], rows < tokens
    places = rows.to(tl.int64)[:, None]
    one = tl.load(gradients + places * gradient_row + head * gradient_head + d, mask=here[:, None], other=0.0)
    own = (places * tl.num_programs(1) + head) * d_head + d
    two = tl.load(out + own, mask=here[:, None], other=0.0)
    tl.store(sums + head * tokens + rows, tl.sum(one.to(tl.float32) * two.to(tl.float32), 1), mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def backward(  # type: ignore[no-untyped-def]
    gradients, queries, keys, values, out, logs, sums, d_queries, d_keys, d_values,
    query_offsets, key_offsets,
    gradient_row, gradient_head, query_row, query_head, key_row, key_head, value_row, value_head,
    d_query_row, d_query_head, d_key_row, d_key_head, d_value_row, d_value_head,
    heads, kv_heads, tokens, scale, scale_2,
    d_head: tl.constexpr, causal: tl.constexpr, alone: tl.constexpr, size: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """A block of keys goes through its queries for dK and dV, then a block of queries through its keys for
    dQ: nothing is added up in memory. A sequence that is one block gets all three at once; `alone` says that
    there are no others, and rowsum(dO O) is computed here."""
    start, head, sequence = tl.program_id(0) * size, tl.program_id(1), tl.program_id(2)
    first = tl.load(query_offsets + sequence)
    asking = tl.load(query_offsets + sequence + 1) - first
    first_key = tl.load(key_offsets + sequence)
    asked = tl.load(key_offsets + sequence + 1) - first_key
    ahead = asked - asking
    d = tl.arange(0, d_head)[None, :]
    own_queries = queries + first.to(tl.int64) * query_row + head * query_head + d
    own_gradients = gradients + first.to(tl.int64) * gradient_row + head * gradient_head + d
    own_logs = logs + head * tokens + first
    own_sums = sums + head * tokens + first
    share = heads // kv_heads
    if (asking <= size) & (asked <= size) & (heads == kv_heads):
        if start == 0:
            rows = tl.arange(0, size)
            here, there = (rows < asking)[:, None], (rows < asked)[:, None]
            query = tl.load(own_queries + rows[:, None] * query_row, mask=here, other=0.0)
            gradient = tl.load(own_gradients + rows[:, None] * gradient_row, mask=here, other=0.0)
            places = (first_key + rows).to(tl.int64)[:, None]
            key = tl.load(keys + places * key_row + head * key_head + d, mask=there, other=0.0)
            value = tl.load(values + places * value_row + head * value_head + d, mask=there, other=0.0)
            log = tl.load(own_logs + rows, mask=rows < asking, other=float("inf"))
            if alone:
                own = ((first + rows).to(tl.int64)[:, None] * heads + head) * d_head + d
                result = tl.load(out + own, mask=here, other=0.0).to(tl.float32)
                drift = tl.sum(gradient.to(tl.float32) * result, 1)
            else:
                drift = tl.load(own_sums + rows, mask=rows < asking, other=0.0)
            # keys down, queries across: the sums for both are then over the second axis
            weights = tl.exp2(tl.dot(key, tl.trans(query)) * scale_2 - log[None, :])
            seen = there & (rows < asking)[None, :]
            if causal:
                seen = seen & (rows[:, None] <= rows[None, :] + ahead)
            weights = tl.where(seen, weights, 0.0)
            change = (weights * (tl.dot(value, tl.trans(gradient)) - drift[None, :])).to(query.dtype)
            d_value = tl.dot(weights.to(gradient.dtype), gradient)
            own = places * d_value_row + head * d_value_head + d
            tl.store(d_values + own, d_value.to(d_values.dtype.element_ty), mask=there)
            d_key = tl.dot(change, query) * scale
            own = places * d_key_row + head * d_key_head + d
            tl.store(d_keys + own, d_key.to(d_keys.dtype.element_ty), mask=there)
            d_query = tl.dot(tl.trans(change), key) * scale
            own = (first + rows).to(tl.int64)[:, None] * d_query_row + head * d_query_head + d
            tl.store(d_queries + own, d_query.to(d_queries.dtype.element_ty), mask=here)
        return
    if (start < asked) & (head < kv_heads):
        columns = start + tl.arange(0, size)
        there = (columns < asked)[:, None]
        places = (first_key + columns).to(tl.int64)[:, None]
        key = tl.load(keys + places * key_row + head * key_head + d, mask=there, other=0.0)
        value = tl.load(values + places * value_row + head * value_head + d, mask=there, other=0.0)
        d_key = tl.zeros([size, d_head], tl.float32)
        d_value = tl.zeros([size, d_head], tl.float32)
        begin = 0
        whole = 0
        if causal:  # from the first query that sees any of these keys; then from the first that sees them all
            begin = tl.maximum(start - ahead, 0) // step * step
            whole = tl.minimum(tl.cdiv(tl.maximum(start + size - 1 - ahead, 0), step) * step, asking)
        for each in range(share):
            asker = head * share + each
            these_queries = queries + first.to(tl.int64) * query_row + asker * query_head + d
            these_gradients = gradients + first.to(tl.int64) * gradient_row + asker * gradient_head + d
            these_logs = logs + asker * tokens + first
            these_sums = sums + asker * tokens + first
            for at in range(begin, whole, step):
                d_key, d_value = _asked_by(
                    key, value, d_key, d_value, these_queries, these_gradients, these_logs, these_sums,
                    at, columns, ahead, asking, query_row, gradient_row, scale_2, causal, step,
                )  # fmt: skip
            for at in range(tl.maximum(begin, whole), asking, step):
                d_key, d_value = _asked_by(
                    key, value, d_key, d_value, these_queries, these_gradients, these_logs, these_sums,
                    at, columns, ahead, asking, query_row, gradient_row, scale_2, False, step,
                )  # fmt: skip
        own = places * d_key_row + head * d_key_head + d
        tl.store(d_keys + own, (d_key * scale).to(d_keys.dtype.element_ty), mask=there)
        own = places * d_value_row + head * d_value_head + d
        tl.store(d_values + own, d_value.to(d_values.dtype.element_ty), mask=there)
    if start < asking:
        rows = start + tl.arange(0, size)
        here = rows < asking
        query = tl.load(own_queries + rows[:, None] * query_row, mask=here[:, None], other=0.0)
        gradient = tl.load(own_gradients + rows[:, None] * gradient_row, mask=here[:, None], other=0.0)
        log = tl.load(own_logs + rows, mask=here, other=float("inf"))[:, None]
        drift = tl.load(own_sums + rows, mask=here, other=0.0)[:, None]
        own_keys = keys + first_key.to(tl.int64) * key_row + (head // share) * key_head + d
        own_values = values + first_key.to(tl.int64) * value_row + (head // share) * value_head + d
        d_query = tl.zeros([size, d_head], tl.float32)
        limit, whole = _reach(start, ahead, asked, causal, size, step)
        for begin in range(0, whole, step):
            d_query = _asks(
                query, gradient, d_query, log, drift, own_keys, own_values, begin, rows, ahead, asked,
                key_row, value_row, scale_2, causal, False, step,
            )  # fmt: skip
        for begin in range(whole, limit, step):
            d_query = _asks(
                query, gradient, d_query, log, drift, own_keys, own_values, begin, rows, ahead, asked,
                key_row, value_row, scale_2, causal, True, step,
            )  # fmt: skip
        own = (first + rows).to(tl.int64)[:, None] * d_query_row + head * d_query_head + d
        tl.store(d_queries + own, (d_query * scale).to(d_queries.dtype.element_ty), mask=here[:, None])


@triton.jit  # type: ignore[untyped-decorator]
def _asked_by(  # type: ignore[no-untyped-def]
    key, value, d_key, d_value, queries, gradients, logs, sums, at, columns, ahead, asking,
    query_row, gradient_row, scale_2, masked: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """What one block of queries adds to dK and dV. Those behind the end have weights of 0 by their logs."""
    rows = at + tl.arange(0, step)
    here = rows < asking
    query = tl.load(queries + rows[:, None] * query_row, mask=here[:, None], other=0.0)
    gradient = tl.load(gradients + rows[:, None] * gradient_row, mask=here[:, None], other=0.0)
    log = tl.load(logs + rows, mask=here, other=float("inf"))
    drift = tl.load(sums + rows, mask=here, other=0.0)
    weights = tl.exp2(tl.dot(key, tl.trans(query)) * scale_2 - log[None, :])
    if masked:
        weights = tl.where(columns[:, None] <= rows[None, :] + ahead, weights, 0.0)
    d_value += tl.dot(weights.to(gradient.dtype), gradient)
    change = weights * (tl.dot(value, tl.trans(gradient)) - drift[None, :])
    d_key += tl.dot(change.to(query.dtype), query)
    return d_key, d_value


@triton.jit  # type: ignore[untyped-decorator]
def _asks(  # type: ignore[no-untyped-def]
    query, gradient, d_query, log, drift, own_keys, own_values, begin, rows, ahead, asked,
    key_row, value_row, scale_2, causal: tl.constexpr, masked: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """What one block of keys adds to dQ."""
    columns = begin + tl.arange(0, step)
    if masked:
        there = (columns < asked)[:, None]
        key = tl.load(own_keys + columns[:, None] * key_row, mask=there, other=0.0)
        value = tl.load(own_values + columns[:, None] * value_row, mask=there, other=0.0)
    else:
        key = tl.load(own_keys + columns[:, None] * key_row)
        value = tl.load(own_values + columns[:, None] * value_row)
    weights = tl.exp2(tl.dot(query, tl.trans(key)) * scale_2 - log)
    change = weights * (tl.dot(gradient, tl.trans(value)) - drift)
    if masked:
        seen = (columns < asked)[None, :]
        if causal:
            seen = seen & (columns[None, :] <= rows[:, None] + ahead)
        change = tl.where(seen, change, 0.0)
    return d_query + tl.dot(change.to(key.dtype), key)
