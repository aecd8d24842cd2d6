"""Programs that read the archive `events` in a container of the stack: each prints the numbers in the payloads."""

# Lines that an export has written.
EXPORTED = """
import gzip, json, os, boto3
secret = open(os.environ["AWS_SECRET_ACCESS_KEY_FILE"]).read()
s3 = boto3.client("s3", aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"], aws_secret_access_key=secret)
pages = s3.get_paginator("list_objects_v2").paginate(Bucket="archive", Prefix="exports/lines/date=")
keys = [item["Key"] for page in pages for item in page["Contents"]]
files = [gzip.decompress(s3.get_object(Bucket="archive", Key=key)["Body"].read()) for key in keys]
print([int(json.loads(line)["text"]) for file in files for line in file.splitlines()])
"""
# By pyiceberg alone, as docs/iceberg.md has it.
ICEBERG = """
import os
from pyiceberg.catalog import load_catalog
url = open(os.environ["NATS3_POSTGRES_URL_FILE"]).read().replace("postgresql:", "postgresql+psycopg:", 1)
store = {
    "s3.endpoint": os.environ["AWS_ENDPOINT_URL_S3"], "s3.region": os.environ["AWS_REGION"],
    "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
    "s3.secret-access-key": open(os.environ["AWS_SECRET_ACCESS_KEY_FILE"]).read(),
}
catalog = load_catalog("nats3", type="sql", uri=url + "?options=-csearch_path%3Dnats3", **store)
rows = catalog.load_table("nats3.events").scan(selected_fields=("seq", "data")).to_arrow()
print([int(data) for data in rows["data"].to_pylist()])
"""
SPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
frame = spark.read.format("nats3").option("archive", "events").load()
print([int(bytes(row.data)) for row in frame.select("data").collect()])
"""
