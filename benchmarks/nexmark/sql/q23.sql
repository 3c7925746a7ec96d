SELECT
    b.auction, b.bidder, b.price, b."at", p.name, p.city, p.state,
    a.id AS own_auction, a.item_name, a.category
FROM bid b
JOIN person p ON b.bidder = p.id
JOIN auction a ON a.seller = b.bidder
