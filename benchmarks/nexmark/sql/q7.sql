-- A window has its start and not its end.
SELECT auction, price, bidder, "at", extra
FROM bid
QUALIFY price = max(price) OVER (PARTITION BY epoch_us("at") // 10000000)
