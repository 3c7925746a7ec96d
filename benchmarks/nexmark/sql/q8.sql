SELECT DISTINCT
    p.id,
    p.name,
    make_timestamp(epoch_us(p."at") // 10000000 * 10000000) AS window_start,
    make_timestamp((epoch_us(p."at") // 10000000 + 1) * 10000000) AS window_end
FROM person p
JOIN auction a ON p.id = a.seller AND epoch_us(p."at") // 10000000 = epoch_us(a."at") // 10000000
