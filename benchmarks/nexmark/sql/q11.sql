-- A bid exactly 10 s after the one before it is still in its session. Bids of the same time are
-- numbered together (RANGE): only one of them has a gap before it.
WITH marked AS (
    SELECT bidder, "at", epoch_us("at") - epoch_us(lag("at") OVER by_time) > 10000000 AS begins
    FROM bid
    WINDOW by_time AS (PARTITION BY bidder ORDER BY "at")
), numbered AS (
    SELECT bidder, "at", count(*) FILTER (WHERE begins) OVER (
        PARTITION BY bidder ORDER BY "at" RANGE UNBOUNDED PRECEDING
    ) AS session
    FROM marked
)
SELECT
    bidder,
    min("at") AS window_start,
    make_timestamp(epoch_us(max("at")) + 10000000) AS window_end,
    count(*) AS bids
FROM numbered
GROUP BY bidder, session
