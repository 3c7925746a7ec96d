-- Windows end at multiples of 2 s; a bid is in the five that end after it.
SELECT
    auction,
    make_timestamp((ends - 5) * 2000000) AS window_start,
    make_timestamp(ends * 2000000) AS window_end,
    count(*) AS bids
FROM (
    SELECT auction, epoch_us("at") // 2000000 + 1 + i AS ends
    FROM bid, range(5) AS windows(i)
)
GROUP BY auction, ends
QUALIFY rank() OVER (PARTITION BY ends ORDER BY count(*) DESC) = 1
