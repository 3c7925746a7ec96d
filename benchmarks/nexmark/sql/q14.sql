SELECT
    auction,
    bidder,
    CAST(price * 0.908 AS DECIMAL(23, 3)) AS price,
    CASE
        WHEN hour("at") BETWEEN 8 AND 18 THEN 'day'
        WHEN hour("at") <= 6 OR hour("at") >= 20 THEN 'night'
        ELSE 'other'
    END AS time_of_day,
    "at",
    extra,
    length(extra) - length(replace(extra, 'c', '')) AS c_count
FROM bid
WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000
