-- Of equal prices the one with the lower seq comes first.
SELECT
    auction, bidder, price, channel, url, "at", extra,
    row_number() OVER (PARTITION BY auction ORDER BY price DESC, seq) AS place
FROM bid
QUALIFY place <= 10
