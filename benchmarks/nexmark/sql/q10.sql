SELECT
    auction, bidder, price, "at", extra,
    strftime("at", '%Y-%m-%d') AS day, strftime("at", '%H:%M') AS minute
FROM bid
