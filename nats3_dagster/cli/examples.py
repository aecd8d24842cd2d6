"""Examples: command lines that the help of each command ends with. A test runs the parser over each."""

from collections.abc import Mapping

# By command, in the order of the help.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "store create": (
        "nats3 store create --name orders --stream ORDERS --bucket archive",
        "nats3 store create --name jobs --stream JOBS --bucket jobs --mode consumer",
    ),
    "store list": ("nats3 store list --watch",),
    "store get": ("nats3 store get orders", "nats3 store get orders -o json"),
    "store run": ("nats3 store run orders", "nats3 store run orders --hour 2026-11-21-07:00"),
    "store pause": ("nats3 store pause orders",),
    "store resume": ("nats3 store resume orders",),
    "store delete": ("nats3 store delete orders", "nats3 store delete orders --purge --yes"),
    "store sweep": ("nats3 store sweep --dry-run", "nats3 store sweep --orphans --older-than 2d"),
    "store expire": ("nats3 store expire orders --dry-run",),
    "store copy": ("nats3 store copy orders", "nats3 store copy orders --verify"),
    "store apply": ("nats3 store apply -f archives.yaml --dry-run", "nats3 store apply -f archives.yaml --prune"),
    "store export": ("nats3 store export > archives.yaml",),
    "store claim": ("nats3 store claim orders",),
    "store set": ("nats3 store set orders --max-age 5m --keep 90d", "nats3 store set orders --copy other-bucket"),
    "store seal": ("nats3 store seal orders",),
    "load create": (
        "nats3 load create --archive orders --write-subject 'b.>' --create-stream B",
        "nats3 load create --archive orders --write-subject 'back.>' --from-time -2h",
        "nats3 load create --archive orders --write-subject 'back.>' --dry-run",
    ),
    "load list": ("nats3 load list --archive orders",),
    "load get": ("nats3 load get 0c6f8e1d2b3a4f59",),
    "load resume": ("nats3 load resume 0c6f8e1d2b3a4f59",),
    "load run": ("nats3 load run 0c6f8e1d2b3a4f59",),
    "load pause": ("nats3 load pause 0c6f8e1d2b3a4f59",),
    "load delete": ("nats3 load delete 0c6f8e1d2b3a4f59",),
    "load progress": ("nats3 load progress 0c6f8e1d2b3a4f59 --watch",),
    "export create": (
        "nats3 export create orders by_day --to s3://files/orders --decode json",
        "nats3 export create orders regions --to s3://files/regions --key subject:2",
    ),
    "export list": ("nats3 export list orders",),
    "export get": ("nats3 export get orders by_day",),
    "export hours": ("nats3 export hours orders by_day",),
    "export run": (
        "nats3 export run orders by_day",
        "nats3 export run orders by_day --hour 2026-11-21-07:00",
    ),
    "export set": ("nats3 export set orders by_day --max-undecoded 10",),
    "export delete": ("nats3 export delete orders by_day",),
    "export claim": ("nats3 export claim orders by_day",),
    "chunk list": ("nats3 chunk list orders --hour 2026-11-21-07:00",),
    "chunk get": ("nats3 chunk get orders 4711",),
    "chunk fetch": ("nats3 chunk fetch orders 4711 --to orders.parquet",),
    "chunk verify": ("nats3 chunk verify orders", "nats3 chunk verify orders --source --hour 2026-11-21-07:00"),
    "chunk compact": ("nats3 chunk compact orders --dry-run",),
    "chunk adopt": ("nats3 chunk adopt orders",),
    "chunk repair": ("nats3 chunk repair orders --hour 2026-11-21-07:00",),
    "hold create": ("nats3 hold create orders case-17 --from-time 2026-11-01 --reason 'order 17'",),
    "hold list": ("nats3 hold list orders",),
    "hold delete": ("nats3 hold delete orders case-17 --reason 'the court released it'",),
    "history": ("nats3 history orders --since -2d",),
    "message get": ("nats3 message get orders --seq 4711", "nats3 message get orders --at 2026-11-21T07:00:00Z"),
    "message next": ("nats3 message next orders --subject 'orders.eu.>' --after 4711",),
    "message last": ("nats3 message last orders --subject orders.eu.42",),
    "message ref": ("nats3 message ref orders --seq 4711 --expires 1h",),
    "message cat": (
        "nats3 message cat orders --from-time -1h --subject 'orders.eu.>'",
        "nats3 message cat orders --hour 2026-11-21-07:00 -o json",
    ),
    "message erase": (
        "nats3 message erase orders --subject orders.eu.42 --reason '#17' --dry-run",
        "nats3 message erase orders --sequences 4711-4720 --reason 'request 17'",
    ),
    "query": (
        "nats3 query 'SELECT count(*) FROM orders'",
        "nats3 query 'SELECT subject, seq FROM orders' --from-time -1h -o csv",
    ),
    "table create": ("nats3 table create orders --catalog lake --table raw.orders",),
    "table sync": ("nats3 table sync orders",),
    "table verify": ("nats3 table verify orders",),
    "table list": ("nats3 table list",),
    "table get": ("nats3 table get orders",),
    "table drop": ("nats3 table drop orders",),
    "account create": (
        "nats3 account create all --bucket archive --exclude 'tmp*'",
        "nats3 account create kv --bucket kv --match 'KV_*' --prefix '{stream}'",
        "nats3 account create all --bucket archive --dry-run",
    ),
    "account set": ("nats3 account set all --exclude 'tmp*' --max-age 5m",),
    "account get": ("nats3 account get all",),
    "account list": ("nats3 account list --watch",),
    "account restore": (
        "nats3 account restore all --dry-run",
        "nats3 account restore all --to-time 2026-11-23T00:00:00Z --into standby",
    ),
    "account drill": (
        "nats3 account drill all",
        "nats3 account drill all --match 'KV_*' --all",
    ),
    "account delete": ("nats3 account delete all",),
    "stream list": ("nats3 stream list",),
    "stream info": ("nats3 stream info ORDERS",),
    "stream subjects": ("nats3 stream subjects ORDERS --subject 'orders.eu.>'",),
    "stream restore": (
        "nats3 stream restore orders",
        "nats3 stream restore orders --name MONDAY --to-time 2026-11-23T00:00:00Z",
        "nats3 stream restore orders --into-file ./orders-backup",
    ),
    "stream import": ("nats3 stream import ./orders-2024 --archive orders_2024 --bucket archive",),
    "stream create": ("nats3 stream create ORDERS --subject 'orders.>' --max-age 7d",),
    "doctor": ("nats3 doctor", "nats3 doctor --spark --bucket archive"),
    "dagster instance": ("nats3 dagster instance",),
    "serve": ("nats3 serve --listen 127.0.0.1:8080",),
    "connect-server": ("nats3 connect-server --host 127.0.0.1 --port 15002",),
    "token create": ("nats3 token create",),
    "catalog rebuild": ("nats3 catalog rebuild --bucket cold --prefix team/logs --dry-run",),
    "catalog dump": ("nats3 catalog dump /backup/nats3.dump",),
    "catalog load": ("nats3 catalog load /backup/nats3.dump",),
    "config show": ("nats3 config show",),
    "config get": ("nats3 config get nats_url",),
    "config set": ("nats3 config set nats_url nats://nats.example.com:4222",),
    "metrics": ("nats3 metrics",),
    "migrate": ("nats3 migrate",),
    "permissions": (
        "nats3 permissions orders",
        "nats3 permissions orders --write-subject 'back.>' --into BACK",
        "nats3 permissions --account all",
    ),
    "demo": ("nats3 demo", "nats3 demo --messages 10000 --ui"),
    "dev status": ("nats3 dev status",),
    "dev stop": ("nats3 dev stop",),
    "dev resync": ("nats3 dev resync",),
}


def epilog_of(path: str, epilog: str | None) -> str | None:
    """The end of the help of a command: its own text, and its examples, a line each."""
    lines = EXAMPLES.get(path, ())
    # \b keeps the line ends of a paragraph.
    block = (
        "\b\n" + "\n".join([f"Example{'s' * (len(lines) > 1)}:", *(f"  {line}" for line in lines)]) if lines else None
    )
    return "\n\n".join(filter(None, (block, epilog))) or None
