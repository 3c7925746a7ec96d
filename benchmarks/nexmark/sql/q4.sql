-- A bid counts from the time of its auction to its expiry, both included.
SELECT category, sum(price) // count(*) AS mean_price
FROM (
    SELECT a.id, a.category, max(b.price) AS price
    FROM auction a JOIN bid b ON b.auction = a.id AND b."at" BETWEEN a."at" AND a.expires
    GROUP BY a.id, a.category
)
GROUP BY category
