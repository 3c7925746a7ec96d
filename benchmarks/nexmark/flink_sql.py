"""The queries of Nexmark as statements for Flink, over the Parquet that ``write_parquet`` writes.

Three are missing: q6 needs a window of rows over a result that is corrected, which Flink refuses;
q10 writes files; q12 goes by the clock. This file is read in Flink's environment: it imports
nothing.
"""

from __future__ import annotations

_EVENTS = {
    "person": """
        id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING,
        `at` TIMESTAMP(3), extra STRING, seq BIGINT""",
    "auction": """
        id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
        `at` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING,
        seq BIGINT""",
    "bid": """
        auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
        `at` TIMESTAMP(3), extra STRING, seq BIGINT""",
}

DELAY_S = 4
"""How far events may be out of order; the same for us."""


def tables(directory: str) -> list[str]:
    """Statements that make a table of each input in the directory."""
    watermark = f"WATERMARK FOR `at` AS `at` - INTERVAL '{DELAY_S}' SECOND"
    columns = {name: f"{given},\n        {watermark}" for name, given in _EVENTS.items()}
    columns["side"] = "key BIGINT, `value` STRING"
    return [
        f"CREATE TABLE {name} ({given}) WITH ('connector' = 'filesystem', "
        f"'path' = 'file://{directory}/{name}', 'format' = 'parquet', "
        "'parquet.utc-timezone' = 'true')"
        for name, given in columns.items()
    ]


_TEN_SECONDS = "DESCRIPTOR(`at`), INTERVAL '10' SECOND"
_RANKS = {
    "total": "",
    "rank1": " FILTER (WHERE price < 10000)",
    "rank2": " FILTER (WHERE price >= 10000 AND price < 1000000)",
    "rank3": " FILTER (WHERE price >= 1000000)",
}
_COUNTED = {
    "bids": "COUNT(*)",
    "bidders": "COUNT(DISTINCT bidder)",
    "auctions": "COUNT(DISTINCT auction)",
}
_COUNTS = ",\n    ".join(
    f"{count}{only} AS {rank}_{of}"
    for of, count in _COUNTED.items()
    for rank, only in _RANKS.items()
)
_BIDS = ",\n    ".join(f"COUNT(*){only} AS {rank}_bids" for rank, only in _RANKS.items())
_DAY = "DATE_FORMAT(`at`, 'yyyy-MM-dd')"
_CHANNEL_ID = r"REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_HOPS = """
    SELECT auction, window_start, window_end, COUNT(*) AS bids
    FROM HOP(TABLE bid, DESCRIPTOR(`at`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
    GROUP BY auction, window_start, window_end"""

STATEMENTS: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, `at`, extra FROM bid",
    "q1": """
SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, `at`, extra FROM bid""",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
SELECT p.name, p.city, p.state, a.id
FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """
SELECT category, AVG(price) AS mean_price
FROM (
    SELECT a.id, a.category, MAX(b.price) AS price
    FROM auction a JOIN bid b ON b.auction = a.id AND b.`at` BETWEEN a.`at` AND a.expires
    GROUP BY a.id, a.category
)
GROUP BY category""",
    "q5": f"""
SELECT c.auction, c.window_start, c.window_end, c.bids
FROM ({_HOPS}) c
JOIN (
    SELECT window_start, window_end, MAX(bids) AS bids
    FROM ({_HOPS})
    GROUP BY window_start, window_end
) m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids = m.bids""",
    "q7": f"""
SELECT b.auction, b.price, b.bidder, b.`at`, b.extra
FROM bid b
JOIN (
    SELECT window_start, window_end, MAX(price) AS price
    FROM TUMBLE(TABLE bid, {_TEN_SECONDS})
    GROUP BY window_start, window_end
) m ON b.price = m.price AND b.`at` >= m.window_start AND b.`at` < m.window_end""",
    "q8": f"""
SELECT p.id, p.name, p.window_start, p.window_end
FROM (
    SELECT id, name, window_start, window_end
    FROM TUMBLE(TABLE person, {_TEN_SECONDS})
    GROUP BY id, name, window_start, window_end
) p
JOIN (
    SELECT seller, window_start, window_end
    FROM TUMBLE(TABLE auction, {_TEN_SECONDS})
    GROUP BY seller, window_start, window_end
) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    "q9": """
SELECT
    id, item_name, description, initial_bid, reserve, auction_at, expires, seller, category, extra,
    bidder, price, bid_at, bid_extra
FROM (
    SELECT
        a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.`at` AS auction_at, a.expires,
        a.seller, a.category, a.extra, b.bidder, b.price, b.`at` AS bid_at, b.extra AS bid_extra,
        ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`at`, b.seq) AS place
    FROM auction a JOIN bid b ON b.auction = a.id AND b.`at` BETWEEN a.`at` AND a.expires
)
WHERE place = 1""",
    "q11": """
SELECT bidder, window_start, window_end, COUNT(*) AS bids
FROM SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`at`), INTERVAL '10' SECOND)
GROUP BY bidder, window_start, window_end""",
    "q13": """
SELECT b.auction, b.bidder, b.price, b.`at`, s.`value`
FROM bid b JOIN side s ON MOD(b.auction, 10000) = s.key""",
    "q14": """
SELECT
    auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
    CASE
        WHEN HOUR(`at`) BETWEEN 8 AND 18 THEN 'day'
        WHEN HOUR(`at`) <= 6 OR HOUR(`at`) >= 20 THEN 'night'
        ELSE 'other'
    END AS time_of_day,
    `at`, extra,
    CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_count
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""
SELECT
    {_DAY} AS `day`,
    {_COUNTS}
FROM bid
GROUP BY {_DAY}""",
    "q16": f"""
SELECT
    channel, {_DAY} AS `day`, MAX(DATE_FORMAT(`at`, 'HH:mm')) AS `minute`,
    {_COUNTS}
FROM bid
GROUP BY channel, {_DAY}""",
    "q17": f"""
SELECT
    auction, {_DAY} AS `day`,
    {_BIDS},
    MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS mean_price,
    SUM(price) AS sum_price
FROM bid
GROUP BY auction, {_DAY}""",
    "q18": """
SELECT auction, bidder, price, channel, url, `at`, extra
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `at` DESC) AS place
    FROM bid
)
WHERE place = 1""",
    "q19": """
SELECT auction, bidder, price, channel, url, `at`, extra, place
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, seq) AS place
    FROM bid
)
WHERE place <= 10""",
    "q20": """
SELECT
    b.auction, b.bidder, b.price, b.channel, b.url, b.`at`, b.extra,
    a.item_name, a.description, a.initial_bid, a.reserve, a.`at` AS auction_at, a.expires, a.seller,
    a.category, a.extra AS auction_extra
FROM bid b JOIN auction a ON b.auction = a.id
WHERE a.category = 10""",
    "q21": f"""
SELECT
    auction, bidder, price, channel,
    CASE LOWER(channel)
        WHEN 'apple' THEN '0'
        WHEN 'google' THEN '1'
        WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3'
        ELSE {_CHANNEL_ID}
    END AS channel_id
FROM bid
WHERE {_CHANNEL_ID} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
SELECT
    auction, bidder, price, channel,
    SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2,
    SPLIT_INDEX(url, '/', 5) AS dir3
FROM bid""",
    "q23": """
SELECT
    b.auction, b.bidder, b.price, b.`at`, p.name, p.city, p.state,
    a.id AS own_auction, a.item_name, a.category
FROM bid b
JOIN person p ON b.bidder = p.id
JOIN auction a ON a.seller = b.bidder""",
}
