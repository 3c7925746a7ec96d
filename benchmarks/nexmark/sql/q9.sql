-- Of equal prices the earlier bid wins, of the same time the one with the lower seq.
SELECT
    a.id, a.item_name, a.description, a.initial_bid, a.reserve, a."at", a.expires, a.seller,
    a.category, a.extra, b.bidder, b.price, b."at" AS bid_at, b.extra AS bid_extra
FROM auction a JOIN bid b ON b.auction = a.id AND b."at" BETWEEN a."at" AND a.expires
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."at", b.seq) = 1
