-- What window a bid is in depends on the clock; only the sum of all windows does not.
SELECT bidder, count(*) AS bids FROM bid GROUP BY bidder
