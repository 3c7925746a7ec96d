// What has become of keys from one epoch to another. Pure: rows in, changes out.

const FURTHER = ["namespace", "map_key"];

/** The columns that a row is found by: the key, and where there is one the key within a map. */
function identity(rows, keyNames) {
    const names = Object.keys(rows[0] ?? {});
    return keyNames.length
        ? [...keyNames, ...FURTHER.filter((each) => names.includes(each))]
        : names;
}

function values(row, names) {
    const rest = Object.entries(row).filter(
        ([name]) => !names.includes(name) && name !== "key_group",
    );
    return rest.length === 1 ? rest[0][1] : Object.fromEntries(rest);
}

/** [{ how: "added" | "removed" | "changed" | "same", key: {...}, before, after }] */
export function difference(before, after, keyNames) {
    const names = identity(before.length ? before : after, keyNames);
    const id = (row) => JSON.stringify(names.map((name) => row[name]));
    const [old, now] = [
        new Map(before.map((row) => [id(row), row])),
        new Map(after.map((row) => [id(row), row])),
    ];
    return [...new Set([...old.keys(), ...now.keys()])].map((each) => {
        const [was, is] = [old.get(each), now.get(each)];
        const key = Object.fromEntries(names.map((name) => [name, (was ?? is)[name]]));
        const [first, second] = [was && values(was, names), is && values(is, names)];
        const isSame = JSON.stringify(first) === JSON.stringify(second);
        return {
            how: !was ? "added" : !is ? "removed" : isSame ? "same" : "changed",
            key,
            before: first,
            after: second,
        };
    });
}

/** The keys of rows as they are sent. */
export function keysIn(rows, keyNames) {
    const found = rows.map((row) =>
        keyNames.length === 1 ? row[keyNames[0]] : keyNames.map((name) => row[name]),
    );
    return [...new Map(found.map((key) => [JSON.stringify(key), key])).values()];
}
