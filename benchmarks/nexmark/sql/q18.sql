SELECT auction, bidder, price, channel, url, "at", extra
FROM bid
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY "at" DESC, seq DESC) = 1
