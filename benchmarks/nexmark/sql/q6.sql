-- Auctions without a bid do not count. Of several that end at once, the lower id comes first.
WITH won AS (
    SELECT a.id, a.seller, a.expires, b.price
    FROM auction a JOIN bid b ON b.auction = a.id AND b."at" BETWEEN a."at" AND a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."at", b.seq) = 1
)
SELECT seller, id AS auction, sum(price) OVER last_ten // count(*) OVER last_ten AS mean_price
FROM won
WINDOW last_ten AS (
    PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
)
